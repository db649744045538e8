// Copies and arithmetic at the same time: while one tile is computed, the next STAGES - 1 are on their way.
//
//   for p0 over k by BK          wait for the oldest tile; start the copy of the one that is STAGES - 1 ahead
//     for p over BK by STEPS     operands of the next steps are read while those of this one are combined
//
//   BM, BN, BK   tile of a block       WM, WN   tile of a warp       TM, TN   tile of a thread
//   STAGES       tiles in shared memory, 2 or more
//   WIDTH_B      elements of B that a copy moves: 16 bytes, or 1 where leading dimension or address are not aligned
//   LANES_K      threads of a copy of A that stand along k
//   BLOCKS       blocks that are to fit on a multiprocessor at once: bounds the registers of a thread
//   OFFSET       an integer type that holds distances within a tile
//   IS_SPLIT     1: several blocks compute each of the last tiles together; see below
//
// Elements of A are copied one by one straight into their transposed place, which takes no registers and no alignment:
// 8 threads along k by 4 rows meet every bank of shared memory once. There is one barrier a tile: what a stage held has
// been used by all when they have met after the copies into the next one were waited for.
//
// Where k is no multiple of BK it is the first tile that has fewer steps, before the loop, which so asks nothing about k:
// with the question in it, one H200 was 8 % slower over float32, at sizes that need no answer too.
//
// IS_SPLIT: one block computes each of the first `whole` tiles of C; of the `rest` after them each is computed by several,
// a share of `depth` steps of k each, whose sums become tiles (BM x BN) of their own at `parts`: share after share, and in
// each tile after tile, none empty. fold.cu adds them up. So the last tiles, too few to occupy every multiprocessor, take
// no more than their part of the time; and with `whole` = 0 a few tiles and a long k occupy a GPU.
//
// Source: CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUTLASS, multistage pipeline. Of IS_SPLIT: Osama,
// Merrill, Cecka, Garland, Owens, "Stream-K" (2023), its hybrid of whole tiles and a shared rest, by fixed shares.
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"
#include "fragments.cuh"

constexpr int ROWS_A = THREADS / LANES_K, PASSES_M = BM / ROWS_A, PASSES_K = BK / LANES_K;
constexpr int VECTORS_B = BN / WIDTH_B;  // in a row of a tile
constexpr int ACROSS = THREADS < VECTORS_B ? THREADS : VECTORS_B, ROWS_B = THREADS / ACROSS;
constexpr int PASSES_N = VECTORS_B / ACROSS, PASSES_P = BK / ROWS_B;

static_assert(THREADS % LANES_K == 0 && BM % ROWS_A == 0 && BK % LANES_K == 0, "whole passes over a tile of A");
static_assert(THREADS % ACROSS == 0 && VECTORS_B % ACROSS == 0 && BK % ROWS_B == 0, "whole passes over a tile of B");

// Moves COUNT elements; through a register where they are smaller than what cp.async can move.
template <int COUNT> __device__ __forceinline__ void move(T* to, const T* from)
{
    if constexpr (sizeof(T) * COUNT >= 4) copy_async<sizeof(T) * COUNT>(to, from);
    else *to = *from;
}

template <int COUNT> __device__ __forceinline__ void move_if(T* to, const T* from, bool is_read)
{
    if (EDGE == REDIRECTED && K_TAIL != FILL) return move<COUNT>(to, from);  // all are
    if constexpr (sizeof(T) * COUNT >= 4) copy_async_if<sizeof(T) * COUNT>(to, from, is_read);
    else *to = is_read ? *from : (T)0;
}

// What one thread copies of every tile. Places are computed once, edges in m and n with them.
struct Copier {
    const T *a, *b;  // where the next tile begins
    OFFSET from_a[PASSES_M], from_b[PASSES_N];
    bool reads_a[PASSES_M], reads_b[PASSES_N];
    int p_a, p_b;    // first step of k that it copies, of A and of B
    int to_a, to_b;
    int ldb;

    __device__ __forceinline__ Copier(const T* a_, const T* b_, Tile tile, int m, int n, int lda, int ldb_)
        : a(a_ + (long long)tile.row * lda), b(b_ + tile.column), ldb(ldb_)
    {
        const int me = threadIdx.x, row = me / LANES_K, column = me % ACROSS * WIDTH_B;
        p_a = me % LANES_K, p_b = me / ACROSS;
        to_a = p_a * STRIDE_A + row, to_b = p_b * STRIDE_B + column;
#pragma unroll
        for (int q = 0; q < PASSES_M; ++q) {
            const int i = tile.row + row + q * ROWS_A;
            from_a[q] = (OFFSET)(redirect_row(i, m) - tile.row) * lda + p_a, reads_a[q] = is_inside(i, m);
        }
#pragma unroll
        for (int q = 0; q < PASSES_N; ++q) {
            const int j = tile.column + column + q * ACROSS * WIDTH_B;
            from_b[q] = redirect_columns<BN, WIDTH_B>(j, n) - tile.column + (OFFSET)p_b * ldb, reads_b[q] = is_inside(j, n);
        }
    }

    // Start the copies of the next whole tile, and go on to the one after it.
    __device__ __forceinline__ void start(T* tile_a, T* tile_b)
    {
        if (EDGE == CONDITIONAL) copy_carefully(tile_a + to_a, tile_b + to_b, BK);
        else copy_plainly(tile_a + to_a, tile_b + to_b);
        a += BK, b += (long long)BK * ldb;
    }

    // The same for the first tile, of which only `steps` may exist.
    __device__ __forceinline__ void start_first(T* tile_a, T* tile_b, int steps)
    {
        if (takes_care<BK>(steps)) copy_carefully(tile_a + to_a, tile_b + to_b, steps);
        else copy_plainly(tile_a + to_a, tile_b + to_b);
        a += steps, b += (long long)steps * ldb;
    }

    __device__ __forceinline__ void copy_plainly(T* tile_a, T* tile_b)
    {
#pragma unroll
        for (int q = 0; q < PASSES_M; ++q)
#pragma unroll
            for (int u = 0; u < PASSES_K; ++u)
                move<1>(tile_a + u * LANES_K * STRIDE_A + q * ROWS_A, a + from_a[q] + u * LANES_K);
#pragma unroll
        for (int u = 0; u < PASSES_P; ++u)
#pragma unroll
            for (int q = 0; q < PASSES_N; ++q)
                move<WIDTH_B>(tile_b + u * ROWS_B * STRIDE_B + q * ACROSS * WIDTH_B,
                              b + from_b[q] + (OFFSET)u * ROWS_B * ldb);
    }

    __device__ __forceinline__ void copy_carefully(T* tile_a, T* tile_b, int left)
    {
#pragma unroll
        for (int q = 0; q < PASSES_M; ++q)
#pragma unroll
            for (int u = 0; u < PASSES_K; ++u) {
                const int p = p_a + u * LANES_K;
                move_if<1>(tile_a + u * LANES_K * STRIDE_A + q * ROWS_A, a + from_a[q] + (source_step(p, left) - p_a),
                        reads_a[q] && is_step(p, left));
            }
#pragma unroll
        for (int u = 0; u < PASSES_P; ++u)
#pragma unroll
            for (int q = 0; q < PASSES_N; ++q) {
                const int p = p_b + u * ROWS_B;
                move_if<WIDTH_B>(tile_b + u * ROWS_B * STRIDE_B + q * ACROSS * WIDTH_B,
                              b + from_b[q] + (OFFSET)(source_step(p, left) - p_b) * ldb, reads_b[q] && is_step(p, left));
            }
    }
};

template <bool SETTLED> __device__ __forceinline__ void compute_tile(Sums& sums, const T* tile_a, const T* tile_b)
{
    Fragment fragments[2];
    fragments[0].read(tile_a, tile_b);
#pragma unroll
    for (int p = 0; p < BK; p += STEPS) {
        const int now = p / STEPS % 2, next = p + STEPS;
        if (next < BK) fragments[1 - now].read(tile_a + next * STRIDE_A, tile_b + next * STRIDE_B);
#if SETTLES
        if (SETTLED) sums.combine_settled(fragments[now]);
        else
#endif
            sums.combine(fragments[now]);
    }
}

// A tile where only `steps` of it may be computed, or all of it written out is too much.
__device__ __forceinline__ void compute_part(Sums& sums, const T* tile_a, const T* tile_b, int steps)
{
    Fragment fragment;
#pragma unroll 1
    for (int p = 0; p < steps; p += STEPS) {
        fragment.read(tile_a + p * STRIDE_A, tile_b + p * STRIDE_B);
        sums.combine(fragment);
    }
}

// What goes on from tile to tile: which stage is read, and which is written.
struct Ring {
    T *tiles_a, *tiles_b;
    int reading, writing;

    __device__ __forceinline__ void advance()
    {
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
};

// Wait for the oldest tile, start the copy of a further one if `goes_on`, and compute the `steps` of the first.
template <bool SETTLED>
__device__ __forceinline__ void step(Sums& sums, Copier& copier, Ring& ring, Corner corner, bool goes_on, int steps)
{
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (goes_on) copier.start(ring.tiles_a + ring.writing * TILE_A, ring.tiles_b + ring.writing * TILE_B);
    commit_copies();  // an empty one, too: waiting counts them
    const T* tile_a = ring.tiles_a + ring.reading * TILE_A + corner.row;
    const T* tile_b = ring.tiles_b + ring.reading * TILE_B + corner.column;
    if (IS_LONG || (K_TAIL == LIMIT && steps < BK)) compute_part(sums, tile_a, tile_b, steps);
    else compute_tile<SETTLED>(sums, tile_a, tile_b);
    ring.advance();
}

#if IS_SPLIT
#define SPLIT_PARAMETERS , RESULT *__restrict__ parts, int whole, int rest, int depth
#else
#define SPLIT_PARAMETERS
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) gemm(GEMM_PARAMETERS SPLIT_PARAMETERS)
{
    if (!is_wanted(found)) return;
    int index = blockIdx.x;  // of the tile
#if IS_SPLIT
    const int part = index - whole;
    if (part >= 0) {
        const int begin = part / rest * depth;
        a += begin, b += (long long)begin * ldb, k = min(k - begin, depth), index = whole + part % rest;
    }
#endif
    DYNAMIC_SHARED(tiles_a);
    T* tiles_b = tiles_a + STAGES * TILE_A;
    Tile tile = tile_at<BM, BN, GROUP>(index, m, n);
    const Corner corner = corner_of_thread();
    const int tiles_k = (k + BK - 1) / BK;
    const int first = EDGE == PADDED ? BK : k - (tiles_k - 1) * BK;  // steps of the first tile
    Copier copier(a, b, tile, m, n, lda, ldb);
    Sums sums;
    sums.clear();

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s == 0) copier.start_first(tiles_a, tiles_b, first);
        else if (s < tiles_k) copier.start(tiles_a + s * TILE_A, tiles_b + s * TILE_B);
        commit_copies();
    }
    Ring ring{tiles_a, tiles_b, 0, STAGES - 1};
    int t = 0;
#if SETTLES
    // At the end of tiles 1, 2, 4, 8 ... all threads are asked: a question after every tile would cost more.
    for (bool are_settled = false; t < tiles_k && !are_settled; ++t) {
        step<false>(sums, copier, ring, corner, t + STAGES - 1 < tiles_k, BK);
        are_settled = (t & (t + 1)) == 0 && __syncthreads_and(sums.are_settled());
    }
    sums.turn();
    for (; t < tiles_k; ++t) step<true>(sums, copier, ring, corner, t + STAGES - 1 < tiles_k, BK);
    sums.turn();
#else
    for (; t < tiles_k; ++t) {
        const int steps = steps_of_tile<BK>(EDGE == PADDED ? k - t * BK : t == 0 ? first : BK);
        step<false>(sums, copier, ring, corner, t + STAGES - 1 < tiles_k, steps);
    }
#endif
#if IS_SPLIT
    if (part >= 0) return sums.store_aside(parts + (long long)part * (BM * BN), corner);
    if (sizeof(T) == 8) {  // the tile is computed anew, which spares registers, and costs floats 9 %
        index = blockIdx.x;
        forget(index);
        tile = tile_at<BM, BN, GROUP>(index, m, n);
    }
#endif
    sums.store_to(c, m, n, ldc, tile.row + corner.row, tile.column + corner.column);
}
