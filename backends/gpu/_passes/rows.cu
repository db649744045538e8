// Copies of one or two matrices as kernels read them: row by row, of rows that begin at multiples of 16 bytes and end in zeros.
//
//   x     by columns or by rows, `ld` elements apart; its elements are FROM, those of the copy TO
//   grid  tiles of SIDE x SIDE, one a block at a time; blockIdx.y says which matrix
//
// A tile that lies by columns is read and written along memory, through shared memory. Source: CUDA C++ Best Practices
// Guide, transposition.
#include "float8.cuh"

// Rows of a tile are 128 bytes, or of bytes 64; the padding of a row avoids bank conflicts.
constexpr int SIDE = sizeof(FROM) >= 4 ? 32 : 64, ACROSS = 32, ROWS = 8, PAD = sizeof(FROM) >= 4 ? 1 : 4 / sizeof(FROM);

struct Copy {
    const FROM* x;
    TO* to;
    int ld, rows, columns, ld_to, by_columns;
};

__device__ __forceinline__ void copy_tile(const Copy& copy, FROM (*tile)[SIDE + PAD], int row, int column)
{
    const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    if (copy.by_columns) {
#pragma unroll
        for (int j = down; j < SIDE; j += ROWS)
#pragma unroll
            for (int i = across; i < SIDE; i += ACROSS)
                if (row + i < copy.rows && column + j < copy.columns)
                    tile[j][i] = copy.x[(long long)(column + j) * copy.ld + row + i];
    }
    __syncthreads();
#pragma unroll
    for (int i = down; i < SIDE; i += ROWS)
#pragma unroll
        for (int j = across; j < SIDE; j += ACROSS) {
            if (row + i >= copy.rows || column + j >= copy.ld_to) continue;
            const bool exists = column + j < copy.columns;
            const FROM x = !exists           ? (FROM)0
                           : copy.by_columns ? tile[j][i]
                                             : copy.x[(long long)(row + i) * copy.ld + column + j];
            copy.to[(long long)(row + i) * copy.ld_to + column + j] = (TO)x;
        }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(ACROSS * ROWS)
    rows(const FROM* __restrict__ a, int lda, int rows_a, int columns_a, int a_by_columns, TO* __restrict__ to_a, int ld_to_a,
         const FROM* __restrict__ b, int ldb, int rows_b, int columns_b, int b_by_columns, TO* __restrict__ to_b, int ld_to_b)
{
    __shared__ FROM tile[SIDE][SIDE + PAD];
    const Copy copy = blockIdx.y ? Copy{b, to_b, ldb, rows_b, columns_b, ld_to_b, b_by_columns}
                                 : Copy{a, to_a, lda, rows_a, columns_a, ld_to_a, a_by_columns};
    const int across = (copy.ld_to + SIDE - 1) / SIDE, count = (copy.rows + SIDE - 1) / SIDE * across;
    for (int index = blockIdx.x; index < count; index += gridDim.x)
        copy_tile(copy, tile, index / across * SIDE, index % across * SIDE);
}
