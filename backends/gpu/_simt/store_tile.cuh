// Store the tile of a warp to C: by vectors where rows of C are aligned, else by neighbours along its rows.
//
// Defined before this file: what semiring.cuh and warp_tiles.cuh ask for, and
//
//   C_VECTORS   1: groups of C are aligned, and those inside of C are read and written at once
#pragma once
#include "warp_tiles.cuh"
#include "vectors.cuh"
#include "triangle.cuh"
#include "lanes.cuh"

// Copy x of 4 bytes to another register; `zero` is 0, which the compiler does not know. A vector is stored from registers side
// by side. Were the sums to lie so, up to 85 of 1024 pairs of tuned.cu's loop would find all operands in one bank of registers,
// which costs 2 to 10 % of the time; by copies none does.
__device__ __forceinline__ RESULT in_own_register(RESULT x, unsigned zero)
{
    if constexpr (sizeof(RESULT) == 4) {
        unsigned word;
        memcpy(&word, &x, sizeof x);
        word ^= zero;
        memcpy(&x, &word, sizeof x);
    }
    return x;
}

__device__ __forceinline__ void store_by_vectors(const T (&sums)[TM][TN], RESULT* c, int m, int n, int ldc, int row, int column)
{
    const unsigned zero = min(m, 0);
    // loop over the rows of a thread, and over their groups
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const int i = row + row_of(r);
        if (i >= m) continue;
        const int end = end_of_row(i, n);
#pragma unroll
        for (int s = 0; s < TN; s += GROUP_SIZE) {
            const int j = column + column_of(s);
            RESULT* address = c + (long long)i * ldc + j;
            Vector<RESULT, GROUP_SIZE> group;
            if (j + GROUP_SIZE <= end) {
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = in_own_register(FINISHED(sums[r][s + v]), zero);
#if ACCUMULATE
                const auto before = read_vector<GROUP_SIZE>(address);
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = ADD(before.x[v], group.x[v]);
#endif
                write_vector<GROUP_SIZE>(address, group);
            } else {
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v)
                    if (j + v < end) store(address + v, FINISHED(sums[r][s + v]));
            }
        }
    }
}

// The rows of the threads pass through shared memory, one after the other, so that a store of the warp writes 32 neighbours.
// Groups of single threads leave gaps, so that a sector of memory is written several times: 4001 x 4001 x 64 over float32
// 85 us, by neighbours 65; 2001 x 2001 x 64 28 and 18 (H200, 2026-11-24).
__device__ __forceinline__ void store_by_neighbours(const T (&sums)[TM][TN], RESULT* c, int m, int n, int ldc, int row, int column)
{
    constexpr int PIECE = LANES_N * GROUP_SIZE;  // neighbours along a row among the groups of a warp
    // Column s of each lane; eight more places, so that neighbours lie in different banks.
    __shared__ RESULT rows[THREADS / 32][TN][32 + 8];
    RESULT(*of_warp)[32 + 8] = rows[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    row -= lane / LANES_N * GROUP_SIZE, column -= lane % LANES_N * GROUP_SIZE;  // of the first lane
    // loop over the rows of a thread
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        meet_lanes();
#pragma unroll
        for (int s = 0; s < TN; ++s) of_warp[s][lane] = FINISHED(sums[r][s]);
        meet_lanes();
#pragma unroll
        for (int u = 0; u < TN; ++u) {
            const int s = u / GROUP_SIZE * GROUP_SIZE, e = u % GROUP_SIZE * 32 + lane;  // element e of the groups from s on
            const int i = row + row_of(r) + e / PIECE * GROUP_SIZE, j = column + column_of(s) + e % PIECE;
            if (i < m && j < end_of_row(i, n))
                store(c + (long long)i * ldc + j, of_warp[s + e % GROUP_SIZE][e / GROUP_SIZE]);
        }
    }
}

// `row` and `column`: the position of this thread's first element in C.
__device__ __forceinline__ void store_tile(const T (&sums)[TM][TN], RESULT* c, int m, int n, int ldc, int row, int column)
{
    if (C_VECTORS) store_by_vectors(sums, c, m, n, ldc, row, column);
    else store_by_neighbours(sums, c, m, n, ldc, row, column);
}

// The same to a tile of its own, whole and aligned, whose rows have LD elements. `zero` is 0.
template <int LD>
__device__ __forceinline__ void store_aside(const T (&sums)[TM][TN], RESULT* tile, int row, int column, unsigned zero)
{
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; s += GROUP_SIZE) {
            Vector<RESULT, GROUP_SIZE> group;
#pragma unroll
            for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = in_own_register(FINISHED(sums[r][s + v]), zero);
            write_vector<GROUP_SIZE>(tile + (row + row_of(r)) * LD + column + column_of(s), group);
        }
}
