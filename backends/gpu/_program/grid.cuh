// Map from blocks to tiles of C. Grids are one-dimensional, so that no size is too large for them.
//
//   GROUP   rows of tiles that are walked through column by column, so that blocks which run at the same time share
//           rows of A and columns of B in L2; 1: row by row
//
// Of a triangle (triangle.cuh) the grid has no tile above the diagonal. Rows of a group end at different columns: first come
// the columns that all of them have, column by column, then the rest, row by row:
//
//     | 0 2 | 4        GROUP = 2, tiles as wide as high: the group has two rows, and all its rows have two columns
//     | 1 3 | 5 6
//
// Source of the triangular root: Ries, De Marco, Guerrieri, "Triangular matrix inversion on heterogeneous multicore
// systems" (2012), block index reordering.
#pragma once
#include "triangle.cuh"

struct Tile {
    int row, column;  // of its first element
};

// Of a triangle: tiles of row number `row` of tiles, and of all rows above it, which are whole.
template <int BM_, int BN_> __device__ __forceinline__ int tiles_of_row(int row, int m)
{
    return (min((row + 1) * BM_, m) - 1) / BN_ + 1;
}

template <int BM_, int BN_> __device__ __forceinline__ int tiles_above(int row)
{
    static_assert(BM_ % BN_ == 0 || BN_ % BM_ == 0, "one side of a tile is a multiple of the other");
    if (BM_ >= BN_) return BM_ / BN_ * (row * (row + 1) / 2);
    constexpr int RATIO = BM_ >= BN_ ? 1 : BN_ / BM_;  // rows of one length
    const int steps = row / RATIO;
    return (RATIO * steps + 2 * (row % RATIO)) * (steps + 1) / 2;
}

// How many tiles there are.
template <int BM_, int BN_> __device__ __forceinline__ int count_tiles(int m, int n)
{
    const int tiles_m = (m + BM_ - 1) / BM_;
    if constexpr (!TRIANGLE) return tiles_m * ((n + BN_ - 1) / BN_);
    else return tiles_above<BM_, BN_>(tiles_m - 1) + tiles_of_row<BM_, BN_>(tiles_m - 1, m);
}

template <int BM_, int BN_, int GROUP_> __device__ __forceinline__ Tile tile_of_triangle(int index, int m)
{
    const int tiles_m = (m + BM_ - 1) / BM_;
    // The root is the row up to a few: the group is found by comparison.
    int first = (int)sqrtf(2.0f * BN_ / BM_ * index) / GROUP_ * GROUP_;
    while (first > 0 && tiles_above<BM_, BN_>(first) > index) first -= GROUP_;
    while (first + GROUP_ < tiles_m && tiles_above<BM_, BN_>(first + GROUP_) <= index) first += GROUP_;
    const int rows = min(tiles_m - first, GROUP_), columns = tiles_of_row<BM_, BN_>(first, m);
    int place = index - tiles_above<BM_, BN_>(first);
    if (place < rows * columns) return Tile{(first + place % rows) * BM_, place / rows * BN_};
    place -= rows * columns;
    int row = first;
    for (int more; place >= (more = tiles_of_row<BM_, BN_>(row, m) - columns); ++row) place -= more;
    return Tile{row * BM_, (columns + place) * BN_};
}

template <int BM_, int BN_, int GROUP_> __device__ __forceinline__ Tile tile_at(int index, int m, int n)
{
#if TRIANGLE
    return tile_of_triangle<BM_, BN_, GROUP_>(index, m);
#else
    const int tiles_n = (n + BN_ - 1) / BN_;
    if (GROUP_ == 1) return Tile{index / tiles_n * BM_, index % tiles_n * BN_};
    const int tiles_m = (m + BM_ - 1) / BM_, per_group = GROUP_ * tiles_n, first = index / per_group * GROUP_;
    const int rows = min(tiles_m - first, GROUP_), rest = index % per_group;
    return Tile{(first + rest % rows) * BM_, rest / rows * BN_};
#endif
}

template <int BM_, int BN_, int GROUP_> __device__ __forceinline__ Tile tile_of_block(int m, int n)
{
    return tile_at<BM_, BN_, GROUP_>(blockIdx.x, m, n);
}
