// The extremes of A and of B, by which the fast forms of (x) are chosen: low and high of A, then of B, in `found`.
//
// First every block reduces a share of one matrix, blockIdx.y saying which; then one block reduces what they found. Over
// floats a NaN comes through, and no comparison with it is true.
//
//   LOOKS_AT(x)  what is looked at of each element; x itself if it is not defined
#include "semiring.cuh"

#ifndef LOOKS_AT
#define LOOKS_AT(x) (x)
#endif
#define THREADS 256

__device__ __forceinline__ T least(T x, T y) { return x < y || x != x ? x : y; }
__device__ __forceinline__ T most(T x, T y) { return x > y || x != x ? x : y; }

__device__ __forceinline__ void reduce_block(T low, T high, T* place)
{
    __shared__ T lows[THREADS], highs[THREADS];
    const int me = threadIdx.x;
    lows[me] = low, highs[me] = high;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (me < half) lows[me] = least(lows[me], lows[me + half]), highs[me] = most(highs[me], highs[me + half]);
    }
    if (me == 0) place[0] = lows[0], place[1] = highs[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    look(const T* a, int lda, int m, const T* b, int ldb, int n, int k, T* shares)
{
    const T* x = blockIdx.y ? b : a;
    const int ld = blockIdx.y ? ldb : lda, rows = blockIdx.y ? k : m, columns = blockIdx.y ? n : k;
    T low = LOOKS_AT(x[0]), high = low;
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int j = threadIdx.x; j < columns; j += THREADS) {
            const T value = LOOKS_AT(x[(long long)i * ld + j]);
            low = least(low, value), high = most(high, value);
        }
    reduce_block(low, high, shares + 2 * (blockIdx.y * gridDim.x + blockIdx.x));
}

// `shares` holds `count` pairs of A, then as many of B; block 0 reduces those of A, block 1 those of B.
extern "C" __global__ void __launch_bounds__(THREADS) conclude(const T* shares, int count, T* found)
{
    shares += 2 * blockIdx.x * count;
    T low = shares[0], high = shares[1];
    for (int i = threadIdx.x; i < count; i += THREADS)
        low = least(low, shares[2 * i]), high = most(high, shares[2 * i + 1]);
    reduce_block(low, high, found + 2 * blockIdx.x);
}
