// The least and the greatest of the values of all threads of a block. Over floats a NaN among them is the result.
//
//   THREADS  of a block, a power of two; defined before this file
#pragma once

__device__ __forceinline__ T least(T x, T y) { return x < y || x != x ? x : y; }
__device__ __forceinline__ T most(T x, T y) { return x > y || x != x ? x : y; }

// Reduce `low` and `high` of all threads of the block to pair[0] and pair[1].
__device__ __forceinline__ void reduce_block(T low, T high, T* pair)
{
    __shared__ T lows[THREADS], highs[THREADS];
    const int me = threadIdx.x;
    lows[me] = low, highs[me] = high;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (me < half) lows[me] = least(lows[me], lows[me + half]), highs[me] = most(highs[me], highs[me + half]);
    }
    if (me == 0) pair[0] = lows[0], pair[1] = highs[0];
}
