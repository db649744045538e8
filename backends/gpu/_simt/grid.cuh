// Map from blocks to tiles of C. Grids are one-dimensional, so that no size is too large for them.
//
//   GROUP   rows of tiles that are walked through column by column, so that blocks which run at the same time share
//           rows of A and columns of B in L2; 1: row by row
#pragma once

struct Tile {
    int row, column;  // of its first element
};

template <int BM_, int BN_, int GROUP_> __device__ __forceinline__ Tile tile_at(int index, int m, int n)
{
    const int tiles_n = (n + BN_ - 1) / BN_;
    if (GROUP_ == 1) return Tile{index / tiles_n * BM_, index % tiles_n * BN_};
    const int tiles_m = (m + BM_ - 1) / BM_, per_group = GROUP_ * tiles_n, first = index / per_group * GROUP_;
    const int rows = min(tiles_m - first, GROUP_), rest = index % per_group;
    return Tile{(first + rest % rows) * BM_, rest / rows * BN_};
}

template <int BM_, int BN_, int GROUP_> __device__ __forceinline__ Tile tile_of_block(int m, int n)
{
    return tile_at<BM_, BN_, GROUP_>(blockIdx.x, m, n);
}
