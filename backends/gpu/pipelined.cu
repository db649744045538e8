// The double buffer: while one tile is combined, the next STAGES - 1 are being copied to shared memory.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over tiles of k, by BK           wait for the oldest tile; start the copy of the one that is STAGES - 1 ahead
//     loop over steps of a tile, by 1     the operands of the next step are read while those of this one are combined
//       loop over pairs of a step     TM * TN sums in registers
//
//   BM, BN, BK   tile of a block       WM, WN   tile of a warp       TM, TN   tile of a thread
//   STAGES       tiles in shared memory: 2 are the double buffer, more hide more latency
//   BLOCKS       blocks that must fit on a multiprocessor at once, which bounds the registers of a thread
//   FRAGMENTS    when the operands of a step are read from shared memory:
//                AHEAD     while those of the step before are combined
//                AT_STEP   at the step, in a loop that is unrolled: the compiler may read them earlier
//                ROLLED    at the step, in a loop that is not
//   WRAPS        1: past the last tile the first ones are copied again, by a remainder: nobody reads them
//                0: nothing is
//
// With STAGES = 1 a tile is copied, then used: two barriers, and other blocks alone hide the latency of the copies.
//
// With STAGES = 2 the two halves of shared memory change places after every tile:
//
//   tile t       copy of t + 1  ->  stage 1      arithmetic on t      <-  stage 0
//   tile t + 1   copy of t + 2  ->  stage 0      arithmetic on t + 1  <-  stage 1
//
// There is one barrier for each tile. After the wait for its own copies and the barrier, a thread may read the whole tile.
// All threads have then used the tile before it, so its stage may be written.
//
// If k is no multiple of BK, the first tile has fewer steps, and it precedes the loop, which then has no checks of k. With
// the checks, one H200 was 8 % slower over float32, also at sizes that need none.
//
// Source: CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUTLASS, multistage pipeline.
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"
#include "fragments.cuh"
#include "async_tiles.cuh"

#define AHEAD 0
#define AT_STEP 1
#define ROLLED 2

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    DYNAMIC_SHARED(tiles_a);
    T* tiles_b = tiles_a + STAGES * TILE_A;
    const Tile tile = tile_of_block<BM, BN, GROUP>(m, n);
    const Corner corner = corner_of_thread();
    const int tiles_k = (k + BK - 1) / BK;
    const int first = EDGE == PADDED ? BK : k - (tiles_k - 1) * BK;  // steps of the first tile
    Copier copier(a, b, tile, m, n, lda, ldb);
    Sums sums;
    sums.clear();
#if WRAPS
    const Copier at_start = copier;
#endif

    // The pipeline is filled: copies of the first STAGES - 1 tiles, a group of copies each
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s == 0) copier.start_first(tiles_a, tiles_b, first);
        else if (s < tiles_k) copier.start(tiles_a + s * TILE_A, tiles_b + s * TILE_B);
        commit_copies();
    }

    // loop over tiles of k
    int reading = 0, writing = STAGES - 1;  // the stages
    for (int t = 0; t < tiles_k; ++t) {
#if STAGES == 1
        __syncthreads();  // all threads have used the tile before
        if (t == 0) copier.start_first(tiles_a, tiles_b, first);
        else copier.start(tiles_a, tiles_b);
        commit_copies();
        wait_copies<0>();
        __syncthreads();
#else
        wait_copies<STAGES - 2>();
        __syncthreads();
#if WRAPS
        const int ahead = (t + STAGES - 1) % tiles_k;
        const int begin = EDGE == PADDED ? ahead * BK : max(k - (tiles_k - ahead) * BK, 0);
        copier = at_start, copier.skip(begin);
        if (k >= BK) copier.start(tiles_a + writing * TILE_A, tiles_b + writing * TILE_B);
#else
        if (t + STAGES - 1 < tiles_k) copier.start(tiles_a + writing * TILE_A, tiles_b + writing * TILE_B);
#endif
        commit_copies();  // also an empty group, since waiting counts groups
#endif

        const T* tile_a = tiles_a + reading * TILE_A + corner.row;
        const T* tile_b = tiles_b + reading * TILE_B + corner.column;
        const int steps = steps_of_tile<BK>(EDGE == PADDED ? k - t * BK : t == 0 ? first : BK);
        if (IS_LONG || FRAGMENTS == ROLLED || (K_TAIL == LIMIT && steps < BK)) {
            sums.combine_steps(tile_a, tile_b, steps);
        } else if (FRAGMENTS == AT_STEP) {
            // loop over steps of a tile
#pragma unroll
            for (int p = 0; p < BK; ++p) {
                Fragment fragment;
                fragment.read(tile_a + p * STRIDE_A, tile_b + p * STRIDE_B);
                sums.combine(fragment);
            }
        } else {
            Fragment fragments[2];  // a double buffer in registers: of this step, and of the next
            fragments[0].read(tile_a, tile_b);
            // loop over steps of a tile
#pragma unroll
            for (int p = 0; p < BK; ++p) {
                const int now = p % 2, next = p + 1;
                if (next < BK) fragments[1 - now].read(tile_a + next * STRIDE_A, tile_b + next * STRIDE_B);
                sums.combine(fragments[now]);
            }
        }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
    store_tile(sums.x, c, m, n, ldc, tile.row + corner.row, tile.column + corner.column);
}
