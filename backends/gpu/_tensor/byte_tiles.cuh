// Tiles of bytes along k as wgmma reads them, 128 steps of k a stage: A by rows, B by columns, the layers of stacks of both.
//
// Defined before this file: what wgmma_tile.cuh needs but `fill` and `begin_step`.
#pragma once
#include "wgmma_tile.cuh"

constexpr int BYTES_A = BM * ROW_BYTES;

__device__ __forceinline__ void fill(unsigned to, const TensorMap* a, const TensorMap* b, unsigned barrier,
                                     const Place& place, const Layers& layers, int p, int, int, int rank)
{
    constexpr int SHARE = BN / FETCHERS;  // rows of B's tile, that is, columns of B
    copy_box(to, a, barrier, p, place.row, layers.of_a);
    copy_box_to_all(to + BYTES_A + rank * SHARE * ROW_BYTES, b, barrier, p, place.column + rank * SHARE, layers.of_b);
}

__device__ __forceinline__ void begin_step(Sum* sums, unsigned tile, int part, bool is_first)
{
    const unsigned long long a = describe(tile + part * (64 * ROW_BYTES), 16, 8 * ROW_BYTES);
    const unsigned long long b = describe(tile + BYTES_A, 16, 8 * ROW_BYTES);
#pragma unroll
    for (int p = 0; p < BK / DEPTH; ++p)  // advance by 32 bytes of a row
        multiply(sums, a + 2 * p, b + 2 * p, !is_first || p > 0);
}
