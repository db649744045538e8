// Each thread computes a row of C: it reads its row of A, and all threads of the block share a column of B.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over pieces of k, by BK         BN columns of B in shared memory   sequential: each adds to the same sums
//     loop over steps of a piece, by 1   an element of A from global memory, BN of B from shared memory: BN pairs
//
//   BM      rows of a block, of one thread each          BN      columns of a panel of B; 1: a column
//   BK      steps of k in shared memory
//   A_BY_COLUMNS   1: the columns of A are contiguous, and lda apart
//
// With BN = 1 a pair takes one load from global memory, not two: two operations a load. A panel takes 1 / BN loads. The 32
// threads of a warp have 32 rows. If these are contiguous, each load of A touches 32 lines, and a multiprocessor serves one
// line a clock; if columns are, it touches one line.
//
// Source: lecture notes on dense matrix algorithms: one thread for each row of A, a column of B in fast memory.
#include "semiring.cuh"
#include "grid.cuh"

constexpr int STEPS_UNROLLED = IS_LONG ? 1 : 4;

extern "C" __global__ void __launch_bounds__(BM) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    DYNAMIC_SHARED(panel);  // element (p, j) of B at [p * BN + j]
    const Tile tile = tile_of_block<BM, BN, 1>(m, n);
    const int i = tile.row + threadIdx.x;
    const long long next = A_BY_COLUMNS ? lda : 1;  // from an element of a row to the next
    const T* row = a + min(i, m - 1) * (A_BY_COLUMNS ? 1LL : lda);  // past the end the last, whose results are not stored
    b += tile.column;

    T sums[BN];
#pragma unroll
    for (int j = 0; j < BN; ++j) sums[j] = ZERO;

    // loop over pieces of k
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int steps = min(k - p0, BK);
        for (int e = threadIdx.x; e < steps * BN; e += BM) {
            const int j = min(e % BN, n - 1 - tile.column);
            panel[e] = b[(long long)(p0 + e / BN) * ldb + j];
        }
        __syncthreads();
        // loop over steps of a piece
#pragma unroll STEPS_UNROLLED
        for (int p = 0; p < steps; ++p) {
            const T of_a = row[(p0 + p) * next];
#pragma unroll
            for (int j = 0; j < BN; ++j) COMBINE(sums[j], of_a, panel[p * BN + j]);
        }
        __syncthreads();
    }

    // loop over the columns of a row
    if (i >= m) return;
#pragma unroll
    for (int s = 0; s < BN; ++s) {
        const int j = tile.column + s;
        if (j < end_of_row(i, n)) store(c + (long long)i * ldc + j, sums[s]);
    }
}
