// The sums of blocks of a cluster that share k of a tile: put down in shared memory, added up, and stored.
//
// Defined before this file: Result, Sum, SUMS, FACTOR, BM, BN, STAGES, BYTES, THREADS, BY_COLUMNS, WIDTH, ACCUMULATE, TOGETHER.
#pragma once
#include "cluster_sums.cuh"

#if TOGETHER
// The sums of blocks that share k: put down where the tiles were, once no block reads these, and added up.
__device__ __forceinline__ void store_together(float* parts, const Sum* sums, FACTOR alpha, Result* c, int ldc, int rows, int columns)
{
    constexpr int LINE = BY_COLUMNS ? BM : BN, LINES = BY_COLUMNS ? BN : BM, PITCH = LINE + (BY_COLUMNS ? 4 : 8);
    static_assert(PITCH * LINES * sizeof(Sum) <= STAGES * BYTES, "sums take the place of tiles");
    const int thread = threadIdx.x - 128, lane = thread % 32, first = thread / 32 * 16 + lane / 4, t = lane % 4;
    meet_cluster();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        const int row = first + i % 4 / 2 * 8, column = i / 4 * 8 + 2 * t + i % 2;
        parts[BY_COLUMNS ? column * PITCH + row : row * PITCH + column] = sums[i];
    }
    meet_cluster();
    add_up<LINES, LINE, PITCH, 1, THREADS - 128>(parts, rank_in_cluster(), thread, c, ldc, BY_COLUMNS ? columns : rows,
                                                BY_COLUMNS ? rows : columns, alpha);
}
#endif
