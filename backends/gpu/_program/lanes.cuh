// Values of other lanes of a warp. Tests that run kernels on a CPU have their own such file.
#pragma once

// Return when all 32 lanes have come here; what each has written to memory before, all may read.
__device__ __forceinline__ void meet_lanes() { __syncwarp(); }

// The value that lane `lane ^ mask` passes. All 32 lanes call it together.
template <class E> __device__ __forceinline__ E of_lane_across(E x, int mask)
{
    if constexpr (sizeof(E) < 4) return (E)__shfl_xor_sync(~0u, (int)x, mask);
    else return __shfl_xor_sync(~0u, x, mask);
}

// The value that the next lane passes; lane 31 takes that of lane 0. All 32 lanes call it together.
__device__ __forceinline__ unsigned of_next_lane(unsigned x) { return __shfl_sync(~0u, x, threadIdx.x % 32 + 1 & 31); }
