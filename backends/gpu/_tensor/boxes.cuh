// Layout of a stage of tiles in shared memory: A's rows along k are one box. B's rows along n are boxes of BOX_COLUMNS
// columns side by side, the last of them maybe used in part. The blocks of a cluster take turns to fetch the boxes of B for all.
//
// Defined before this file: BK (rows of a box of B), BOX_COLUMNS (128 bytes of them).
// Source: PTX ISA, cp.async.bulk.tensor.
#pragma once
#include "layers.cuh"
#include "tma.cuh"

constexpr int BOX = BK * 128, BOXES = (BN + BOX_COLUMNS - 1) / BOX_COLUMNS, BYTES_A = BM * 128, BYTES = BYTES_A + BOXES * BOX;
static_assert(BOXES % FETCHERS == 0, "blocks of a cluster fetch equally many boxes");

__device__ __forceinline__ void fill(unsigned to, const TensorMap* a, const TensorMap* b, unsigned barrier,
                                     const Place& place, const Layers&, int p, int, int, int rank)
{
    copy_box(to, a, barrier, p, place.row);
#pragma unroll
    for (int iteration = 0; iteration < BOXES / FETCHERS; ++iteration) {
        const int box = rank * (BOXES / FETCHERS) + iteration;
        copy_box_to_all(to + BYTES_A + box * BOX, b, barrier, place.column + box * BOX_COLUMNS, p);
    }
}
