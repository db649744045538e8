// Asynchronous copies of tiles of A and B to shared memory (cp.async): the elements of a tile that a thread copies, their
// targets, and the treatment of edges of the matrices.
//
//   WIDTH_B   elements of B that a copy moves: 16 bytes, or 1 where leading dimension or address are not aligned
//   LANES_K   threads of a copy of A that stand along k
//   OFFSET    an integer type that holds distances within a tile
//
// Elements of A are copied one by one straight into the transposed tile, without registers or alignment. 8 threads along k
// by 4 rows meet every bank of shared memory once.
//
// Source: CUDA C++ Programming Guide, "Asynchronous Data Copies".
#pragma once
#include "edges.cuh"
#include "grid.cuh"
#include "stagger.cuh"
#include "warp_tiles.cuh"

constexpr int ROWS_A = THREADS / LANES_K, PASSES_M = BM / ROWS_A, PASSES_K = BK / LANES_K;
constexpr int VECTORS_B = BN / WIDTH_B;  // in a row of a tile
constexpr int ACROSS = THREADS < VECTORS_B ? THREADS : VECTORS_B, ROWS_B = THREADS / ACROSS;
constexpr int PASSES_N = VECTORS_B / ACROSS, PASSES_P = (BK + ROWS_B - 1) / ROWS_B;

static_assert(THREADS % LANES_K == 0 && BM % ROWS_A == 0 && BK % LANES_K == 0, "whole passes over a tile of A");
static_assert(VECTORS_B % ACROSS == 0, "whole passes over a row of B");

// Whether a thread copies a row of B in pass `u`, `p` its row in the first one: threads beyond whole rows copy nothing.
__device__ __forceinline__ bool copies_row(int p, int u)
{
    return (THREADS % ACROSS == 0 || p < ROWS_B) && (BK % ROWS_B == 0 || p + u * ROWS_B < BK);
}

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

// The share of one thread in the copy of every tile. Addresses, with edges in m and n, are computed once.
struct Copier {
    const T *a, *b;  // where the next tile begins
    OFFSET from_a[PASSES_M], from_b[PASSES_N];
    bool reads_a[PASSES_M], reads_b[PASSES_N];
    int p_a, p_b;    // first step of k that it copies, of A and of B
    int to_a, to_b;
    int ldb;
    int left, all;   // whole tiles until the last one along k, and their number; of STAGGER alone

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

    // Of the `tiles` whole ones that follow the first, begin where tile `number` of C does.
    __device__ __forceinline__ void stagger(int number, int tiles)
    {
        const int skipped = first_step(number, tiles);
        a += skipped * BK, b += (long long)skipped * BK * ldb;
        left = tiles - skipped, all = tiles;
    }

    // Start the copies of the next whole tile, and go on to the one after it.
    __device__ __forceinline__ void start(T* tile_a, T* tile_b)
    {
        if (EDGE == CONDITIONAL) copy_carefully(tile_a + to_a, tile_b + to_b, BK);
        else copy_plainly(tile_a + to_a, tile_b + to_b);
        a += BK, b += (long long)BK * ldb;
        if (STAGGER > 1 && --left == 0) a -= all * BK, b -= (long long)all * BK * ldb;
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
                if (copies_row(p_b, u))
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
                if (copies_row(p_b, u))
                    move_if<WIDTH_B>(tile_b + u * ROWS_B * STRIDE_B + q * ACROSS * WIDTH_B,
                                     b + from_b[q] + (OFFSET)(source_step(p, left) - p_b) * ldb,
                                     reads_b[q] && is_step(p, left));
            }
    }
};

