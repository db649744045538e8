// Asynchronous copies of tiles of A and B to shared memory (cp.async): the elements of a tile that a thread copies, their
// targets, and the treatment of edges of the matrices.
//
// In shared memory neighbours are rows of A, or columns of B, of one step of k (warp_tiles.cuh). In memory they are
//
//   B by rows, A by columns      the same: copies of WIDTH elements
//   A by rows, B by columns      steps of k: elements are copied one by one straight into the transposed tile, without
//                                registers or alignment. 8 threads along k by 4 rows meet every bank once
//
//   WIDTH_B, WIDTH_A   elements that such a copy moves: 16 bytes, or 1 where leading dimension or address are not aligned
//   LANES_K            threads of a copy that stand along k, where memory does
//   OFFSET             an integer type that holds distances within a tile
//
// Source: CUDA C++ Programming Guide, "Asynchronous Data Copies".
#pragma once
#include "edges.cuh"
#include "grid.cuh"
#include "stagger.cuh"
#include "warp_tiles.cuh"

#if B_BY_COLUMNS
#define WIDTH_B 1
#endif
#if !A_BY_COLUMNS
#define WIDTH_A 1
#endif

// Moves COUNT elements; through a register if they are smaller than the least that cp.async moves.
template <int COUNT> __device__ __forceinline__ void move(T* to, const T* from)
{
    if constexpr (sizeof(T) * COUNT >= 4) copy_async<sizeof(T) * COUNT>(to, from);
    else *to = *from;
}

template <int COUNT> __device__ __forceinline__ void move_if(T* to, const T* from, bool is_read)
{
    if (EDGE == REDIRECTED && K_TAIL != FILL) return move<COUNT>(to, from);  // all are read
    if constexpr (sizeof(T) * COUNT >= 4) copy_async_if<sizeof(T) * COUNT>(to, from, is_read);
    else *to = is_read ? *from : (T)0;
}

// The share of one thread in the copies of one operand: of SIDE rows of A, or columns of B, by BK steps of k, which lie STRIDE
// apart in shared memory. Addresses, with the edge of the side, are computed once.
template <bool ALONG_K, int SIDE, int WIDTH, int STRIDE> struct Share {
    static constexpr int VECTORS = SIDE / WIDTH;
    // Threads along a line of memory, lines that all threads copy in a pass, and passes along the side and along k
    static constexpr int ACROSS = ALONG_K ? LANES_K : THREADS < VECTORS ? THREADS : VECTORS, LINES = THREADS / ACROSS;
    static constexpr int STEP_SIDE = ALONG_K ? LINES : ACROSS * WIDTH, STEP_K = ALONG_K ? LANES_K : LINES;
    static constexpr int PASSES_SIDE = (SIDE + STEP_SIDE - 1) / STEP_SIDE, PASSES_K = (BK + STEP_K - 1) / STEP_K;
    static constexpr bool IS_EVEN = THREADS % ACROSS == 0 && SIDE % STEP_SIDE == 0 && BK % STEP_K == 0;
    static_assert(SIDE % WIDTH == 0 && (ALONG_K ? WIDTH == 1 && BK % LANES_K == 0 : VECTORS % ACROSS == 0), "whole lines");

    const T* x;  // where the next tile begins
    OFFSET from[PASSES_SIDE];
    bool reads[PASSES_SIDE];
    int p, i, ld;  // first step of k and first place along the side that it copies

    // `place` is where the tile begins along a side of `size`.
    __device__ __forceinline__ Share(const T* x_, int place, int size, int ld_)
        : x(x_ + (ALONG_K ? (long long)place * ld_ : place)), ld(ld_)
    {
        const int along = threadIdx.x % ACROSS, line = threadIdx.x / ACROSS;
        p = ALONG_K ? along : line, i = ALONG_K ? line : along * WIDTH;
#pragma unroll
        for (int q = 0; q < PASSES_SIDE; ++q) {
            const int j = place + i + q * STEP_SIDE;
            if (ALONG_K) from[q] = (OFFSET)(redirect_row(j, size) - place) * ld + p;
            else from[q] = redirect_columns<SIDE, WIDTH>(j, size) - place + (OFFSET)p * ld;
            reads[q] = is_inside(j, size);
        }
    }

    __device__ __forceinline__ OFFSET along_k(int steps) const { return ALONG_K ? steps : (OFFSET)steps * ld; }
    __device__ __forceinline__ void skip(int steps) { x += ALONG_K ? (long long)steps : (long long)steps * ld; }

    // Threads beyond whole lines copy nothing, nor do lines beyond the tile.
    __device__ __forceinline__ bool copies(int q, int u) const
    {
        return IS_EVEN || (threadIdx.x < LINES * ACROSS && (SIDE % STEP_SIDE == 0 || i + q * STEP_SIDE < SIDE) &&
                           (BK % STEP_K == 0 || p + u * STEP_K < BK));
    }

    // Copy a tile of which `steps` may exist; all of them unless IS_CAREFUL.
    template <bool IS_CAREFUL> __device__ __forceinline__ void copy(T* tile, int steps) const
    {
        tile += p * STRIDE + i;
#pragma unroll
        for (int pass = 0; pass < PASSES_SIDE * PASSES_K; ++pass) {
            const int q = ALONG_K ? pass / PASSES_K : pass % PASSES_SIDE, u = ALONG_K ? pass % PASSES_K : pass / PASSES_SIDE;
            if (!copies(q, u)) continue;
            T* to = tile + u * STEP_K * STRIDE + q * STEP_SIDE;
            const int step = p + u * STEP_K;
            if (IS_CAREFUL)
                move_if<WIDTH>(to, x + from[q] + along_k(source_step(step, steps) - p), reads[q] && is_step(step, steps));
            else
                move<WIDTH>(to, x + from[q] + along_k(u * STEP_K));
        }
    }
};

// The share of one thread in the copy of every tile.
struct Copier {
    Share<!A_BY_COLUMNS, BM, WIDTH_A, STRIDE_A> a;
    Share<B_BY_COLUMNS, BN, WIDTH_B, STRIDE_B> b;
    int left, all;  // whole tiles until the last one along k, and their number; of STAGGER alone

    __device__ __forceinline__ Copier(const T* a_, const T* b_, Tile tile, int m, int n, int lda, int ldb)
        : a(a_, tile.row, m, lda), b(b_, tile.column, n, ldb)
    {
    }

    __device__ __forceinline__ void skip(int steps) { a.skip(steps), b.skip(steps); }

    // Of the `tiles` whole ones that follow the first, begin where tile `number` of C does.
    __device__ __forceinline__ void stagger(int number, int tiles)
    {
        const int skipped = first_step(number, tiles);
        skip(skipped * BK);
        left = tiles - skipped, all = tiles;
    }

    // Start the copies of the next whole tile, and go on to the one after it.
    __device__ __forceinline__ void start(T* tile_a, T* tile_b)
    {
        copy<EDGE == CONDITIONAL>(tile_a, tile_b, BK);
        skip(STAGGER > 1 && --left == 0 ? BK - all * BK : BK);
    }

    // The same for the first tile, of which only `steps` may exist.
    __device__ __forceinline__ void start_first(T* tile_a, T* tile_b, int steps)
    {
        if (takes_care<BK>(steps)) copy<true>(tile_a, tile_b, steps);
        else copy<false>(tile_a, tile_b, BK);
        skip(steps);
    }

    template <bool IS_CAREFUL> __device__ __forceinline__ void copy(T* tile_a, T* tile_b, int steps)
    {
        a.template copy<IS_CAREFUL>(tile_a, steps), b.template copy<IS_CAREFUL>(tile_b, steps);
    }
};
