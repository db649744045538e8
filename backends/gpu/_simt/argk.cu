// C := A (x) B over a (+) that selects, and K: for each element the smallest p that attains it, or -1.
//
//   argk    the pipeline of pipelined.cu, with sums of one tile at a time
//     loop over tiles of k, by BK       copies of later tiles are on their way
//       loop over pairs of a tile       TM * TN sums of this tile; no p is stored, which would triple the work of a pair
//       totals := totals (+) sums of this tile; where that changes one, its tile is stored: later tiles must improve
//   search  another launch: the BK terms of each element's tile, for the first that equals it
//
// (x) of one pair rounds the same each time, so equality finds the term. A NaN equals nothing and is never named.
// The search has a launch of its own, since it waits for loads: a thread of the first kernel would do so for each of its
// elements in turn.
//
// IMPROVES 1: C := C (+) A (x) B, and of each element that is thereby better its predecessor, in place: that of the first
// pivot that attains it, from `before`, the predecessors of the rows of B. Few elements are, so that they stand in a queue,
// which the threads of a block share out; `search` is not launched. IS_RESIDENT 1: shared memory holds all tiles of k to the end.
//
//   BM, BN, BK, WM, WN, TM, TN, STAGES, BLOCKS   as in pipelined.cu
//   BITS_OF_PLACE                                of the number of a tile: 16 where those are enough, or 32
//   SEARCHERS, SEARCHED_ROWS                     threads of a block that search, and the rows of C that it takes
#include "semiring.cuh"
#define EDGE CONDITIONAL
#include "edges.cuh"
#include "grid.cuh"
#include "fragments.cuh"
#include "async_tiles.cuh"
#include "memory.cuh"

#ifndef IMPROVES
#define IMPROVES 0
#endif

// For each element the number of the tile that improved it last. With 16 BITS_OF_PLACE two share a register.
struct Places {
    static constexpr int EACH = 32 / BITS_OF_PLACE;
    static constexpr unsigned NONE = BITS_OF_PLACE == 16 ? 0xffff : ~0u;
    unsigned x[TM][TN / EACH];

    __device__ __forceinline__ void set(int r, int s, unsigned t)
    {
        unsigned& both = x[r][s / EACH];
        both = EACH == 1 ? t : __byte_perm(both, t, s % 2 ? 0x5410 : 0x3254);
    }
    __device__ __forceinline__ unsigned get(int r, int s) const
    {
        const unsigned both = x[r][s / EACH];
        return EACH == 1 ? both : s % 2 ? both >> 16 : both & 0xffff;
    }
};

#if IMPROVES
#define IMPROVES_PARAMETER , const int *__restrict__ before STEP_PARAMETERS(before)
#else
#define IMPROVES_PARAMETER
#endif

#define ARGK_PARAMETERS                                                                                           \
    const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c, int *__restrict__ which, int m, int n, \
        int k, int lda, int ldb, int ldc, const T *__restrict__ extremes                                          \
            BATCH_PARAMETERS STEP_PARAMETERS(a) STEP_PARAMETERS(b) STEP_PARAMETERS(c) STEP_PARAMETERS(which) IMPROVES_PARAMETER

// Sums := those of the `steps` steps of a tile alone.
__device__ __forceinline__ void sum_tile(Sums& sums, const T* tile_a, const T* tile_b, int steps)
{
    sums.clear();
    if (IS_LONG || (K_TAIL == LIMIT && steps < BK)) return sums.combine_steps(tile_a, tile_b, steps);
    Fragment fragments[2];  // of these steps, and of the next
    fragments[0].read(tile_a, tile_b);
    // loop over steps of a tile
#pragma unroll
    for (int p = 0; p < BK; p += STEPS) {
        const int now = p / STEPS % 2, next = p + STEPS;
        if (next < BK) fragments[1 - now].read(tile_a + next * STRIDE_A, tile_b + next * STRIDE_B);
        sums.combine(fragments[now]);
    }
}

#if IMPROVES
// C := C (+) totals. Of the elements that are better the queue becomes the number of the tile, row and column.
__device__ __forceinline__ void improve(const T (&totals)[TM][TN], const Places& places, T* c, int ldc, Corner corner,
    int rows, int columns, int* queue, unsigned* count)
{
    static_assert(TM * TN <= 64, "a bit for each element");
    unsigned long long are_better = 0;
#pragma unroll
    for (int e = 0; e < TM * TN; ++e) {
        const int r = e / TN, s = e % TN, i = corner.row + row_of(r), j = corner.column + column_of(s);
        if (i >= rows || j >= columns) continue;
        T* const at = c + (long long)i * ldc + j;
        const T now = *at, better = ADD(now, totals[r][s]);
        if (places.get(r, s) == Places::NONE || better == now) continue;
        *at = better, are_better |= 1ull << e;
    }
    int* const mine = queue + atomicAdd(count, (unsigned)__popcll(are_better));
#pragma unroll
    for (int e = 0; e < TM * TN; ++e) {
        const int r = e / TN, s = e % TN, i = corner.row + row_of(r), j = corner.column + column_of(s);
        if (are_better >> e & 1) mine[__popcll(are_better & ((1ull << e) - 1))] = (places.get(r, s) * BM + i) * BN + j;
    }
}

// Of `steps` terms the first that attains their sum.
__device__ __forceinline__ int first_of(const T* x, long long step_x, const T* y, long long step_y, int steps)
{
    T best = ZERO;
    int found = 0;
#pragma unroll 4
    for (int p = 0; p < steps; ++p) {
        const T better = ADD(best, MULTIPLY(x[p * step_x], y[p * step_y]));
        found = better != best ? p : found;
        best = better;
    }
    return found;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) argk(ARGK_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    MOVE_TO_PRODUCT(which)
#if IMPROVES
    MOVE_TO_PRODUCT(before)
#endif
    DYNAMIC_SHARED(tiles_a);
    T* tiles_b = tiles_a + STAGES * TILE_A;
    const Tile tile = tile_of_block<BM, BN, GROUP>(m, n);
    const Corner corner = corner_of_thread();
    const int tiles_k = (k + BK - 1) / BK, first = k - (tiles_k - 1) * BK;  // steps of the first tile
    Copier copier(a, b, tile, m, n, lda, ldb);
    Sums sums;
    T totals[TM][TN];
    Places places;
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; ++s) totals[r][s] = ZERO, places.set(r, s, Places::NONE);
#if IMPROVES
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
#endif
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s == 0 && tiles_k > 0) copier.start_first(tiles_a, tiles_b, first);
        else if (s < tiles_k) copier.start(tiles_a + s * TILE_A, tiles_b + s * TILE_B);
        commit_copies();
    }
    // loop over tiles of k
    int reading = 0, writing = STAGES - 1;  // the stages
    for (int t = 0; t < tiles_k; ++t) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (t + STAGES - 1 < tiles_k) copier.start(tiles_a + writing * TILE_A, tiles_b + writing * TILE_B);
        commit_copies();
        sum_tile(sums, tiles_a + reading * TILE_A + corner.row, tiles_b + reading * TILE_B + corner.column,
                 steps_of_tile<BK>(t == 0 ? first : BK));
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int s = 0; s < TN; ++s) {
                const T better = ADD(totals[r][s], sums.x[r][s]);
                if (better != totals[r][s]) places.set(r, s, t);
                totals[r][s] = better;
            }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
#if IMPROVES
#if IS_RESIDENT
    int* const queue = (int*)(tiles_b + STAGES * TILE_B);
#else
    int* const queue = (int*)tiles_a;
    __syncthreads();  // no tile is needed any more
#endif
    improve(totals, places, c + (long long)tile.row * ldc + tile.column, ldc, corner, m - tile.row, n - tile.column, queue, &count);
    __syncthreads();
    for (unsigned at = threadIdx.x; at < count; at += THREADS) {
        const unsigned e = queue[at], t = e / (BM * BN), i = e / BN % BM, j = e % BN;
        const int steps = t == 0 ? first : BK, begin = t == 0 ? 0 : first + (t - 1) * BK;
        const long long row = tile.row + i, column = tile.column + j;
#if IS_RESIDENT
        const int found = first_of(tiles_a + t * TILE_A + i, STRIDE_A, tiles_b + t * TILE_B + j, STRIDE_B, steps);
#else
        const int found = first_of(a + row * lda + begin, 1, b + (long long)begin * ldb + column, ldb, steps);
#endif
        which[row * n + column] = before[(long long)(begin + found) * n + column];
    }
#else
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; ++s) {
            const int i = tile.row + corner.row + row_of(r), j = tile.column + corner.column + column_of(s);
            if (i >= m || j >= n) continue;
            c[(long long)i * ldc + j] = totals[r][s];
            const unsigned place = places.get(r, s);
            which[(long long)i * n + j] = place == Places::NONE ? -1 : (int)place;
        }
#endif
}

// `which`: from the number of a tile to the first step that equals the element. A warp takes 32 elements of a row: its
// lanes share a row of A, and those of the same tile rows of B. Blocks that run together take the same columns, since the
// loads of B are scattered: its columns stay in the cache of a multiprocessor.
extern "C" __global__ void __launch_bounds__(SEARCHERS) search(ARGK_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    MOVE_TO_PRODUCT(which)
    const int parts = (m + SEARCHED_ROWS - 1) / SEARCHED_ROWS;
    const int j = blockIdx.x / parts * 32 + threadIdx.x % 32;
    const int top = blockIdx.x % parts * SEARCHED_ROWS, bottom = min(top + SEARCHED_ROWS, m);
    const int first = k - (k - 1) / BK * BK;  // steps of the first tile
    if (j >= n) return;
    for (int i = top + threadIdx.x / 32; i < bottom; i += SEARCHERS / 32) {
        int* const place = which + (long long)i * n + j;
        const int tile = *place, begin = tile > 0 ? first + (tile - 1) * BK : 0, end = tile > 0 ? begin + BK : first;
        if (tile < 0) continue;
        const T total = c[(long long)i * ldc + j], *row = a + (long long)i * lda;
        const T* column = b + (long long)begin * ldb + j;
        int found = -1;
#pragma unroll 4
        for (int p = begin; p < end && found < 0; ++p, column += ldb)
            if (MULTIPLY(row[p], *column) == total) found = p;
        *place = found;
    }
}
