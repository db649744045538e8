// Copies of one or two matrices with rows that begin at multiples of 16 bytes and end in zeros, as wide copies and the copy
// engine require. O(n^2) beside O(n^3).
//
//   grid    ROWS rows for a thread at a time, 16 bytes of each; short rows share the threads of a block. blockIdx.y says
//           which matrix
//   thread  reads its elements one by one (rows of x begin anywhere), and writes them together
//
//   T  any type of the size of an element
#include "intrinsics.cuh"

constexpr int WIDTH = 16 / sizeof(T), THREADS = 128, ROWS = 4;

struct alignas(16) Vector {
    T x[WIDTH];
};

struct Copy {
    const T* x;
    T* padded;
    int ld, rows, columns, all_columns;
};

__device__ __forceinline__ void copy_rows(const Copy& copy)
{
    int across = 1;  // threads of a row
    while (across < THREADS && across * WIDTH < copy.all_columns) across *= 2;
    const int lines = THREADS / across, line = threadIdx.x / across, step = ROWS * lines;
    for (int first = blockIdx.x * step + line; first < copy.rows; first += gridDim.x * step)
        for (int j = threadIdx.x % across * WIDTH; j < copy.all_columns; j += across * WIDTH) {
            Vector row[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const T* from = copy.x + (long long)min(first + r * lines, copy.rows - 1) * copy.ld + j;
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) row[r].x[v] = j + v < copy.columns ? from[v] : (T)0;
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                if (first + r * lines < copy.rows)
                    *(Vector*)(copy.padded + (long long)(first + r * lines) * copy.all_columns + j) = row[r];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pad_rows(const T* __restrict__ a, int lda, int rows_a, int columns_a, T* __restrict__ padded_a, int all_a,
             const T* __restrict__ b, int ldb, int rows_b, int columns_b, T* __restrict__ padded_b, int all_b)
{
    if (blockIdx.y == 0) copy_rows(Copy{a, padded_a, lda, rows_a, columns_a, all_a});
    else copy_rows(Copy{b, padded_b, ldb, rows_b, columns_b, all_b});
}
