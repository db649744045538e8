// The double buffer of pipelined.cu, with three additions for speed: two steps of k at once, sums that settle, tiles that
// blocks share.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over tiles of k, by BK              wait for the oldest tile; start the copy of the one that is STAGES - 1 ahead
//     loop over steps of a tile, by STEPS    the operands of the next steps are read while those of these are combined
//       loop over pairs of a step        TM * TN sums in registers
//
//   BM, BN, BK, WM, WN, TM, TN, STAGES, BLOCKS   as in pipelined.cu
//   STEPS      steps of k that are combined at once; semiring.cuh
//   SETTLES    1: sums of one sign are combined by a faster form
//   IS_SPLIT   1: several blocks compute each of the last tiles together
//   STAGGER    at how many steps of k tiles begin; stagger.cuh
//
// SETTLES: over floats of any sign the careful form of min_plus and max_plus starts with one step after the other. Once
// all sums of a block have the sign that (+) leads to, two steps take one integer instruction (min_of_negative below).
// All threads vote at the end of tiles 1, 2, 4, 8 ...: a vote after every tile would cost more.
//
// IS_SPLIT: one block computes each of the first `whole` tiles of C. Several blocks compute each of the `rest` after them, a
// share of `depth` steps of k each, none empty. Their sums become tiles (BM x BN) at `parts`: share after share, and in each
// share tile after tile. fold.cu adds them up. So the last tiles, too few to occupy every multiprocessor, take only their
// part of the time. With `whole` = 0, few tiles and a long k occupy a GPU.
//
// Source: that of pipelined.cu. Of IS_SPLIT: Osama, Merrill, Cecka, Garland, Owens, "Stream-K" (2023), its hybrid of whole
// tiles and a shared rest, by fixed shares. Of SETTLES: measured, docs/gpu.md.
#define WORD_INSTRUCTIONS (TM * TN >= 64 && !IS_LONG)  // where compiling takes long, and the loop over k is the same
#include "semiring.cuh"
#include "chain.cuh"
#include "edges.cuh"
#include "grid.cuh"
#include "fragments.cuh"
#include "async_tiles.cuh"

#if SETTLES
// Whether all sums of this thread have the sign that (+) leads to.
__device__ __forceinline__ bool are_settled(const Sums& sums)
{
    bool all = true;
#pragma unroll
    for (int t = 0; t < TM * TN; ++t) all = all && FLIPPED(sums.x[t / TN][t % TN]) < 0;
    return all;
}

__device__ __forceinline__ void flip_signs(Sums& sums)
{
#pragma unroll
    for (int t = 0; t < TM * TN; ++t) sums.x[t / TN][t % TN] = FLIPPED(sums.x[t / TN][t % TN]);
}

// Floats of any sign: once a sum is negative, only negative terms can lower it, and of negative floats the least has the
// greatest bits. The bits of non-negative terms, and of the one NaN that an addition gives, are less. A sum does not become
// non-negative again. For max the signs of sums and terms are flipped, at no cost.
__device__ __forceinline__ float min_of_negative(float c, float s, float t)
{
    return __uint_as_float(max_of_3(__float_as_uint(c), __float_as_uint(s), __float_as_uint(t)));
}

// Sums::combine for sums that are settled and flipped.
__device__ __forceinline__ void combine_settled(Sums& sums, const Fragment& f)
{
    // loop over pairs of a step
#pragma unroll
    for (int t = 0; t < TM * TN; ++t) {
        const Element e = element_of(t);
        const T first = sum_or_nan(FLIPPED(f.a[0][e.r]), FLIPPED(f.b[0][e.s]));
        const T second = sum_or_nan(FLIPPED(f.a[1][e.r]), FLIPPED(f.b[1][e.s]));
        sums.x[e.r][e.s] = min_of_negative(sums.x[e.r][e.s], first, second);
    }
}
#endif

// All steps of a tile; `tile_a` and `tile_b`: this thread's corner of the tiles.
template <bool SETTLED> __device__ __forceinline__ void combine_tile(Sums& sums, const T* tile_a, const T* tile_b)
{
    // Few tiles are combined before sums settle: as a loop they take the compiler half of the time.
    constexpr int UNROLL = SETTLES && !SETTLED ? 2 : BK / (2 * STEPS);
    Fragment fragments[2];
    fragments[0].read(tile_a, tile_b);
    // loop over steps of a tile, two at a time, for each fragment one
#pragma unroll(UNROLL)
    for (int pair = 0; pair < BK; pair += 2 * STEPS)
#pragma unroll
        for (int now = 0; now < 2; ++now) {
            const int next = pair + (now + 1) * STEPS;
            if (next < BK) fragments[1 - now].read(tile_a + next * STRIDE_A, tile_b + next * STRIDE_B);
#if SETTLES
            if (SETTLED) combine_settled(sums, fragments[now]);
            else
#endif
                sums.combine(fragments[now]);
        }
}

// The stages in shared memory, and the indices of those that are read and written.
struct Stages {
    T *tiles_a, *tiles_b;
    int reading, writing;

    __device__ __forceinline__ void advance()
    {
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
};

// One iteration of the loop over tiles of k, as in pipelined.cu. It starts the copy of a further tile if `goes_on`, and
// combines the `steps` of the oldest.
template <bool SETTLED>
__device__ __forceinline__ void next_tile(Sums& sums, Copier& copier, Stages& stages, Corner corner, bool goes_on, int steps)
{
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (goes_on) copier.start(stages.tiles_a + stages.writing * TILE_A, stages.tiles_b + stages.writing * TILE_B);
    commit_copies();
    const T* tile_a = stages.tiles_a + stages.reading * TILE_A + corner.row;
    const T* tile_b = stages.tiles_b + stages.reading * TILE_B + corner.column;
    if (IS_LONG || (K_TAIL == LIMIT && steps < BK)) sums.combine_steps(tile_a, tile_b, steps);
    else combine_tile<SETTLED>(sums, tile_a, tile_b);
    stages.advance();
}

#if IS_SPLIT
#define SPLIT_PARAMETERS , RESULT *__restrict__ parts, int whole, int rest, int depth
#else
#define SPLIT_PARAMETERS
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) gemm(GEMM_PARAMETERS SPLIT_PARAMETERS)
{
    await_launch_before();
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    int index = blockIdx.x, begin = 0;  // of the tile, and of its steps of k
#if IS_SPLIT
    const int part = index - whole;
    if (part >= 0) {
        begin = part / rest * depth, k = min(k - begin, depth), index = whole + part % rest;
    }
#endif
    DYNAMIC_SHARED(tiles_a);
    T* tiles_b = tiles_a + STAGES * TILE_A;
    const Tile tile = tile_at<BM, BN, GROUP>(index, m, n);
    const Corner corner = corner_of_thread();
    const int tiles_k = (k + BK - 1) / BK;
    const int first = EDGE == PADDED ? BK : k - (tiles_k - 1) * BK;  // steps of the first tile
    Copier copier(a, b, tile, m, n, lda, ldb);
    copier.skip(begin);
    Sums sums;
    sums.clear();

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s == 0) copier.start_first(tiles_a, tiles_b, first), copier.stagger(index, tiles_k - 1);
        else if (s < tiles_k) copier.start(tiles_a + s * TILE_A, tiles_b + s * TILE_B);
        commit_copies();
    }
    Stages stages{tiles_a, tiles_b, 0, STAGES - 1};
    int t = 0;
#if SETTLES
    // loop over tiles of k, until the sums have settled
    for (bool is_settled = false; t < tiles_k && !is_settled; ++t) {
        next_tile<false>(sums, copier, stages, corner, t + STAGES - 1 < tiles_k, BK);
        is_settled = (t & (t + 1)) == 0 && __syncthreads_and(are_settled(sums));
    }
    flip_signs(sums);
    // loop over tiles of k, by the faster form
    for (; t < tiles_k; ++t) next_tile<true>(sums, copier, stages, corner, t + STAGES - 1 < tiles_k, BK);
    flip_signs(sums);
#else
    // loop over tiles of k
    for (; t < tiles_k; ++t) {
        const int steps = steps_of_tile<BK>(EDGE == PADDED ? k - t * BK : t == 0 ? first : BK);
        next_tile<false>(sums, copier, stages, corner, t + STAGES - 1 < tiles_k, steps);
    }
#endif
#if IS_SPLIT
    int number = blockIdx.x;  // once more: to keep the place of the tile would cost the loop registers
    forget(number);
    if (number >= whole) {
        RESULT* part = parts + (long long)(number - whole) * (BM * BN);
        return store_aside<BN>(sums.x, part, corner.row, corner.column, min(m, 0));
    }
    const Tile to = tile_at<BM, BN, GROUP>(number, m, n);
#else
    const Tile to = tile;
#endif
    store_tile(sums.x, c, m, n, ldc, to.row + corner.row, to.column + corner.column);
}
