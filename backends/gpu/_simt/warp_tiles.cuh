// Sizes of the tiles of warps and threads, and of the tiles that blocks keep in shared memory. A diagram in warp_tiled.cu
// shows the position of a warp and of a thread.
//
// Defined before this file: T; BM, BN, BK, the tile of a block; WM, WN, of a warp; TM, TN, of a thread; STEPS, the steps of
// k that are combined at once. May be defined:
//
//   SHARED_LOAD   bytes that a thread reads from shared memory at once, if not 16: at least one element
//   ROWS_OF_A     1: a tile of A lies as it does in A; PAD_A elements follow each of its rows
//   A_BY_COLUMNS, B_BY_COLUMNS   by_columns.cuh
//
// In shared memory a tile of A lies transposed: element (i, p) at [p * STRIDE_A + i], so that a column is contiguous;
// element (p, j) of B at [p * STRIDE_B + j]. With ROWS_OF_A element (i, p) of A is at [i * STRIDE_A + p].
//
// Source: CUTLASS, "Efficient GEMM in CUDA": warp-level and thread-level tiles.
#pragma once
#include "by_columns.cuh"

#ifndef SHARED_LOAD
#define SHARED_LOAD 16
#endif


// Elements that a thread reads from shared memory at once: 16 bytes; for small types at most 4 elements.
constexpr int GROUP_SIZE = SHARED_LOAD / (sizeof(T) >= 4 ? sizeof(T) : 4);

// Threads of a warp along m and n, warps of a block along n, and threads of a block.
constexpr int LANES_M = WM / TM, LANES_N = WN / TN, WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;

// With 16 bytes of padding a transposed store of 8 steps of k by 4 rows meets each bank once.
constexpr int PADDING = sizeof(T) >= 4 ? 16 / sizeof(T) : 4, STRIDE_B = BN + (B_BY_COLUMNS ? PADDING : 0);
#if ROWS_OF_A
constexpr int STRIDE_A = BK + PAD_A, TILE_A = BM * STRIDE_A;
#else
constexpr int STRIDE_A = BM + (A_BY_COLUMNS ? 0 : PADDING), TILE_A = BK * STRIDE_A;
#endif
constexpr int TILE_B = BK * STRIDE_B;

static_assert(LANES_M * LANES_N == 32, "a warp has 32 threads");
static_assert(TM % GROUP_SIZE == 0 && TN % GROUP_SIZE == 0, "a thread has whole groups");
static_assert(BK % STEPS == 0, "a tile has whole groups of steps");

// Distance of row r, or column s, of a thread from its first one: groups are LANES_M, or LANES_N, groups apart.
__device__ __forceinline__ constexpr int row_of(int r) { return r / GROUP_SIZE * LANES_M * GROUP_SIZE + r % GROUP_SIZE; }
__device__ __forceinline__ constexpr int column_of(int s)
{
    return s / GROUP_SIZE * LANES_N * GROUP_SIZE + s % GROUP_SIZE;
}
