// The inner loop of warp_tiled.cu as types: the values that a thread reads for one step of k, and its sums.
//
//   Corner     position of a thread's first element in the tile of its block
//   Fragment   its TM values of A and TN of B, of STEPS steps of k
//   Sums       its tile of C in registers
//
// warp_tiled.cu shows the positions of warps and threads in a diagram, and has the same loops written out.
//
// Source: CUTLASS, "Efficient GEMM in CUDA": warp-level and thread-level tiles.
#pragma once
#include "warp_tiles.cuh"
#include "vectors.cuh"
#include "order.cuh"
#include "store_tile.cuh"

struct Corner {
    int row, column;
};

__device__ __forceinline__ Corner corner_of_thread()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return Corner{warp / WARPS_N * WM + lane / LANES_N * GROUP_SIZE, warp % WARPS_N * WN + lane % LANES_N * GROUP_SIZE};
}

struct Fragment {
    T a[STEPS][TM], b[STEPS][TN];

    // `from_a` and `from_b`: this thread's corner of the tiles, at the first of the steps.
    __device__ __forceinline__ void read(const T* from_a, const T* from_b)
    {
#pragma unroll
        for (int u = 0; u < STEPS; ++u) {
#pragma unroll
            for (int r = 0; r < TM; r += GROUP_SIZE) read_group(a[u] + r, from_a + u * STRIDE_A + row_of(r));
#pragma unroll
            for (int s = 0; s < TN; s += GROUP_SIZE) read_group(b[u] + s, from_b + u * STRIDE_B + column_of(s));
        }
    }
};

struct Sums {
    T x[TM][TN];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int s = 0; s < TN; ++s) x[r][s] = ZERO;
    }

    __device__ __forceinline__ void combine(const Fragment& f)
    {
        // loop over pairs of a step
#pragma unroll
        for (int t = 0; t < TM * TN; ++t) {
            const Element e = element_of(t);
#if STEPS == 2
            const T first = MULTIPLY(f.a[0][e.r], f.b[0][e.s]), second = MULTIPLY(f.a[1][e.r], f.b[1][e.s]);
            COMBINE_TWO(x[e.r][e.s], first, second);
#else
            COMBINE(x[e.r][e.s], f.a[0][e.r], f.b[0][e.s]);
#endif
        }
    }

    // Combine `steps` steps of a tile, one after the other: if it has fewer than BK, or if unrolling all would be too long.
    // `tile_a` and `tile_b`: this thread's corner of the tiles.
    __device__ __forceinline__ void combine_steps(const T* tile_a, const T* tile_b, int steps)
    {
        Fragment fragment;
        // loop over steps of a tile
#pragma unroll 1
        for (int p = 0; p < steps; p += STEPS) {
            fragment.read(tile_a + p * STRIDE_A, tile_b + p * STRIDE_B);
            combine(fragment);
        }
    }
};
