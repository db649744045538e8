// Layout of a stage of tiles in shared memory: rows of 128 bytes of the first operand, of BM rows of C, and then of the second, of
// BN columns. The blocks of a cluster fetch the second one for all: a part of it each, or if that is not possible all of it in turns.
//
//   FIRST_ALONG_K, SECOND_ALONG_K   how an operand lies in memory
//                                   1  along k: a box of BK steps of k in each row
//                                   0  along its side of C: boxes of BOX_COLUMNS of it and BK rows side by side, the last of
//                                      them maybe used in part
//
//   MAP_UNITS   elements of a tensor map that an element consists of, as a complex number of two
//
// Not defined, A comes first, B second, both lie by rows, and an element is one. Defined before this file: BK, BOX_COLUMNS (128 bytes
// of them).
// Source: PTX ISA, cp.async.bulk.tensor.
#pragma once
#include "layers.cuh"
#include "tma.cuh"

#ifndef FIRST_ALONG_K
#define FIRST_ALONG_K 1
#endif
#ifndef SECOND_ALONG_K
#define SECOND_ALONG_K 0
#endif

#ifndef MAP_UNITS
#define MAP_UNITS 1
#endif

constexpr int BOX = BK * 128, BOXES_FIRST = (BM + BOX_COLUMNS - 1) / BOX_COLUMNS, BOXES = (BN + BOX_COLUMNS - 1) / BOX_COLUMNS;
constexpr int BYTES_FIRST = FIRST_ALONG_K ? BM * 128 : BOXES_FIRST * BOX, BYTES_SECOND = SECOND_ALONG_K ? BN * 128 : BOXES * BOX;
constexpr int BYTES = BYTES_FIRST + BYTES_SECOND;
// What the second operand can be cut into: pieces of 8 rows, whose 16-byte pieces are permuted, or boxes.
constexpr bool IN_TURNS = (SECOND_ALONG_K ? BN / 8 : BOXES) % FETCHERS != 0;
constexpr int CUTS = IN_TURNS ? 1 : FETCHERS;

__device__ __forceinline__ void fill(unsigned to, const TensorMap* first, const TensorMap* second, unsigned barrier,
                                     const Place& place, const Layers&, int p, int, int, int rank)
{
    if (FIRST_ALONG_K) {
        copy_box(to, first, barrier, MAP_UNITS * p, place.row);
    } else {
#pragma unroll(BOXES_FIRST > 8 ? 4 : BOXES_FIRST)  // the addresses of 16 would not fit the registers of the producer
        for (int box = 0; box < BOXES_FIRST; ++box)
            copy_box(to + box * BOX, first, barrier, MAP_UNITS * (place.row + box * BOX_COLUMNS), p);
    }
    to += BYTES_FIRST;
    if (IN_TURNS && p / BK % FETCHERS != rank) return;
    const int part = IN_TURNS ? 0 : rank;
    if (SECOND_ALONG_K) {
        const int rows = BN / CUTS * part;
        copy_box_to_all(to + rows * 128, second, barrier, MAP_UNITS * p, place.column + rows);
    } else {
#pragma unroll
        for (int iteration = 0; iteration < BOXES / CUTS; ++iteration) {
            const int box = part * (BOXES / CUTS) + iteration;
            copy_box_to_all(to + box * BOX, second, barrier, MAP_UNITS * (place.column + box * BOX_COLUMNS), p);
        }
    }
}
