// Tiles of warps, and loads of 16 bytes: from global memory to registers, on to shared memory, and back to registers.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over tiles of k, by BK         a tile of A, transposed, and one of B in shared memory
//     loop over steps of a tile, by 1   TM values of A and TN of B in registers, 16 bytes a load
//       loop over pairs of a step       TM * TN sums in registers
//
//   BM, BN, BK   tile of a block       WM, WN   tile of a warp       TM, TN   tile of a thread
//   WIDTH_A, WIDTH_B   elements that a load of A, along k, and of B, along n, takes: 16 bytes, or 1 where leading
//                      dimension or address are not aligned
//   OFFSET             an integer type that holds distances within a tile
//
// Three ideas can be left out, one at a time: WIDTH_A and WIDTH_B, SHARED_LOAD and ROWS_OF_A (warp_tiles.cuh). Without one a
// thread may take more registers; a defined BLOCKS says how many blocks must still fit on a multiprocessor.
//
// A block's tile is cut into tiles of warps. In each, the 32 threads form a grid of LANES_M x LANES_N = WM / TM x WN / TN. A
// thread has squares of G x G elements, as many as its TM x TN contain (G = GROUP_SIZE: 16 bytes). The squares of a thread
// are LANES_M * G rows and LANES_N * G columns apart, so neighbouring threads read neighbouring groups, in different banks:
//
//     block: BM x BN                       warp: WM x WN
//
//          WN       WN                        G   G        G   G   G        G
//     +--------+--------+                   +---+---+ ... +---+---+---+ ... +---+
//  WM | warp 0 | warp 1 |                 G | 0 | 1 |     |L-1| 0 | 1 |     |L-1|    L = LANES_N;
//     +--------+--------+   warp 3  ->      +---+---+ ... +---+---+---+ ... +---+    the number of a thread stands
//  WM | warp 2 | warp 3 |                 G | L |L+1|     |2L-1 L |L+1|     |   |    in every square that it has
//     +--------+--------+                   +---+---+ ... +---+---+---+ ... +---+
//                                         after LANES_M rows of squares, again from thread 0
//
// Source: CUTLASS, "Efficient GEMM in CUDA"; lecture notes on GPU programming: vectorised memory access.
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"
#include "warp_tiles.cuh"
#include "vectors.cuh"
#include "order.cuh"
#include "store_tile.cuh"

constexpr int VECTORS_A = BK / WIDTH_A, VECTORS_B = BN / WIDTH_B;  // in a row of a tile
constexpr int LOADS_A = BM * VECTORS_A / THREADS, LOADS_B = BK * VECTORS_B / THREADS;

static_assert(BM * VECTORS_A % THREADS == 0 && BK * VECTORS_B % THREADS == 0, "each thread loads as much as the others");

#ifdef BLOCKS
#define AND_BLOCKS , BLOCKS
#else
#define AND_BLOCKS
#endif

extern "C" __global__ void __launch_bounds__(THREADS AND_BLOCKS) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    DYNAMIC_SHARED(tile_a);  // element (i, p) at [p * STRIDE_A + i], (p, j) of B at [p * STRIDE_B + j]
    T* tile_b = tile_a + TILE_A;
    const Tile tile = tile_of_block<BM, BN, GROUP>(m, n);
    const int me = threadIdx.x;

    // Position of this thread: its warp in the block's tile, its lane in the warp's, and so its first element.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row_of_warp = warp / WARPS_N * WM, column_of_warp = warp % WARPS_N * WN;
    const int row_of_lane = lane / LANES_N * GROUP_SIZE, column_of_lane = lane % LANES_N * GROUP_SIZE;
    const int row = row_of_warp + row_of_lane, column = column_of_warp + column_of_lane;

    // This thread's loads of each tile: vectors me, me + THREADS, ... row by row. Edges are treated here, once.
    OFFSET from_a[LOADS_A], from_b[LOADS_B];
    bool reads_a[LOADS_A], reads_b[LOADS_B];
#pragma unroll
    for (int q = 0; q < LOADS_A; ++q) {
        const int i = tile.row + (me + q * THREADS) / VECTORS_A;
        from_a[q] = (OFFSET)(redirect_row(i, m) - tile.row) * lda, reads_a[q] = is_inside(i, m);
    }
#pragma unroll
    for (int q = 0; q < LOADS_B; ++q) {
        const int j = tile.column + (me + q * THREADS) % VECTORS_B * WIDTH_B;
        from_b[q] = redirect_columns<BN, WIDTH_B>(j, n) - tile.column, reads_b[q] = is_inside(j, n);
    }
    a += (long long)tile.row * lda, b += tile.column;

    T sums[TM][TN];
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; ++s) sums[r][s] = ZERO;

    // loop over tiles of k
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int left = k - p0;
        const bool is_whole = EDGE == PADDED || left >= BK;
#pragma unroll
        for (int q = 0; q < LOADS_A; ++q) {
            const int e = me + q * THREADS, i = e / VECTORS_A, p = e % VECTORS_A * WIDTH_A;
            Vector<T, WIDTH_A> vector;
            if (is_whole && reads_a[q]) vector = read_vector<WIDTH_A>(a + (from_a[q] + p));
            else
#pragma unroll
                for (int v = 0; v < WIDTH_A; ++v)
                    vector.x[v] = load_if(a + (from_a[q] + source_step(p + v, left)), reads_a[q] && is_step(p + v, left));
#if ROWS_OF_A
            if constexpr (STRIDE_A % WIDTH_A == 0) write_vector<WIDTH_A>(tile_a + i * STRIDE_A + p, vector);
            else
#pragma unroll
                for (int v = 0; v < WIDTH_A; ++v) tile_a[i * STRIDE_A + p + v] = vector.x[v];
#else
#pragma unroll
            for (int v = 0; v < WIDTH_A; ++v) tile_a[(p + v) * STRIDE_A + i] = vector.x[v];
#endif
        }
#pragma unroll
        for (int q = 0; q < LOADS_B; ++q) {
            const int e = me + q * THREADS, p = e / VECTORS_B, j = e % VECTORS_B * WIDTH_B;
            Vector<T, WIDTH_B> vector = {};
            if (reads_b[q] && is_step(p, left))
                vector = read_vector<WIDTH_B>(b + (from_b[q] + (OFFSET)source_step(p, left) * ldb));
            write_vector<WIDTH_B>(tile_b + p * STRIDE_B + j, vector);
        }
        a += BK, b += (long long)BK * ldb;
        __syncthreads();

        // loop over steps of a tile
#pragma unroll UNROLLED<BK>
        for (int p = 0; p < steps_of_tile<BK>(left); ++p) {
            T of_a[TM], of_b[TN];
#if ROWS_OF_A
            const T *step_a = tile_a + row * STRIDE_A + p, *step_b = tile_b + p * STRIDE_B + column;
#pragma unroll
            for (int r = 0; r < TM; ++r) of_a[r] = step_a[row_of(r) * STRIDE_A];
#else
            const T *step_a = tile_a + p * STRIDE_A + row, *step_b = tile_b + p * STRIDE_B + column;
#pragma unroll
            for (int r = 0; r < TM; r += GROUP_SIZE) read_group(of_a + r, step_a + r * LANES_M);
#endif
#pragma unroll
            for (int s = 0; s < TN; s += GROUP_SIZE) read_group(of_b + s, step_b + s * LANES_N);
            // loop over pairs of a step
#pragma unroll
            for (int t = 0; t < TM * TN; ++t) {
                const Element e = element_of(t);
                COMBINE(sums[e.r][e.s], of_a[e.r], of_b[e.s]);
            }
        }
        __syncthreads();
    }
    store_tile(sums, c, m, n, ldc, tile.row + row, tile.column + column);
}
