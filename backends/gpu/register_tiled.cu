// Each thread computes TM x TN elements of C in registers: TM + TN values of shared memory serve TM * TN pairs.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over tiles of k, by BK         tiles of A (BM x BK) and B (BK x BN) in shared memory
//     loop over steps of a tile, by 1   TM values of A and TN of B in registers
//       loop over pairs of a step       TM * TN sums in registers: every value of A with every value of B
//
//   BM, BN, BK   tile of a block           TM, TN   tile of a thread; TN = 1: one column, "1-D"
//   OFFSET       an integer type that holds distances within a tile
//   REMAINDERS   1: every load finds its place by / and %, with divisors that the compiler does not know
//                0: places are found before the loop over k
//
// A thread's rows are ROWS = BM / TM apart and its columns COLUMNS = BN / TN, so that neighbouring threads read neighbouring
// columns. Of a block with TM = TN = 2, the elements of thread (y, x):
//
//                    x        x + COLUMNS
//               +----------+----------+
//          y    |    *     |    *     |
//               +----------+----------+
//      y + ROWS |    *     |    *     |
//               +----------+----------+
//
// Three blocks of 128 threads must fit on a multiprocessor, so that one computes while others wait for tiles. To save
// registers, positions in A and B are offsets, not pointers.
//
// Source: Volkov and Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra" (2008).
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"

constexpr int ROWS = BM / TM, COLUMNS = BN / TN, THREADS = ROWS * COLUMNS;
constexpr int BLOCKS = THREADS < 384 ? 384 / THREADS : 1;  // that must fit on a multiprocessor: 12 warps
constexpr int LOADS_A = (BM * BK + THREADS - 1) / THREADS, LOADS_B = (BK * BN + THREADS - 1) / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    DYNAMIC_SHARED(tile_a);  // element (i, p) at [i * BK + p], (p, j) of B at [p * BN + j]
    T* tile_b = tile_a + BM * BK;
    const Tile tile = tile_of_block<BM, BN, 1>(m, n);
    const int me = threadIdx.x, y = me / COLUMNS, x = me % COLUMNS;  // position of this thread's first element in the tile

    // This thread's loads of each tile: elements me, me + THREADS, ... row by row. Edges are treated here, once.
    OFFSET from_a[LOADS_A], from_b[LOADS_B];
    bool reads_a[LOADS_A], reads_b[LOADS_B];
#pragma unroll
    for (int q = 0; q < LOADS_A; ++q) {
        const int i = tile.row + (me + q * THREADS) / BK;
        from_a[q] = (OFFSET)(redirect_row(i, m) - tile.row) * lda, reads_a[q] = is_inside(i, m);
    }
#pragma unroll
    for (int q = 0; q < LOADS_B; ++q) {
        const int j = tile.column + (me + q * THREADS) % BN;
        from_b[q] = redirect_columns<BN, 1>(j, n) - tile.column, reads_b[q] = is_inside(j, n);
    }
    a += (long long)tile.row * lda, b += tile.column;

    T sums[TM][TN];
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = ZERO;

    // loop over tiles of k
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int left = k - p0;
#if REMAINDERS
        int depth = BK, width = BN;
        forget(depth), forget(width);
#pragma unroll
        for (int e = me; e < BM * BK; e += THREADS) {
            const int i = tile.row + e / depth, p = e % depth;
            const T* row = a + (OFFSET)(redirect_row(i, m) - tile.row) * lda;
            tile_a[e] = load_if(row + source_step(p, left), is_inside(i, m) && is_step(p, left));
        }
#pragma unroll
        for (int e = me; e < BK * BN; e += THREADS) {
            const int p = e / width, j = tile.column + e % width;
            const T* column = b + (redirect_columns<BN, 1>(j, n) - tile.column);
            tile_b[e] = load_if(column + (OFFSET)source_step(p, left) * ldb, is_inside(j, n) && is_step(p, left));
        }
#else
#pragma unroll
        for (int q = 0; q < LOADS_A; ++q) {
            const int e = me + q * THREADS, p = e % BK;
            if (BM * BK % THREADS && e >= BM * BK) break;
            tile_a[e] = load_if(a + (from_a[q] + source_step(p, left)), reads_a[q] && is_step(p, left));
        }
#pragma unroll
        for (int q = 0; q < LOADS_B; ++q) {
            const int e = me + q * THREADS, p = e / BN;
            if (BK * BN % THREADS && e >= BK * BN) break;
            tile_b[e] = load_if(b + (from_b[q] + (OFFSET)source_step(p, left) * ldb), reads_b[q] && is_step(p, left));
        }
#endif
        a += BK, b += (long long)BK * ldb;
        __syncthreads();

        // loop over steps of a tile
#pragma unroll UNROLLED<BK>
        for (int p = 0; p < steps_of_tile<BK>(left); ++p) {
            T of_a[TM], of_b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) of_a[i] = tile_a[(y + i * ROWS) * BK + p];
#pragma unroll
            for (int j = 0; j < TN; ++j) of_b[j] = tile_b[p * BN + x + j * COLUMNS];
            // loop over pairs of a step
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) COMBINE(sums[i][j], of_a[i], of_b[j]);
        }
        __syncthreads();
    }

    // loop over the rows of a thread, and over its columns
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const int i = tile.row + y + r * ROWS;
#pragma unroll
        for (int s = 0; s < TN; ++s) {
            const int j = tile.column + x + s * COLUMNS;
            if (i < m && j < n) store(c + (long long)i * ldc + j, sums[r][s]);
        }
    }
}
