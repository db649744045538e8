// Matrices of 16-bit elements, to words of two neighbours along k.
//
//   join         of A: a word holds elements 2 q and 2 q + 1 of a row
//   interleave   of B: word j of row q holds elements j of rows 2 q and 2 q + 1; beyond the matrix the last column again
//
// Where k is odd, the last step of it is there twice.
#include "semiring.cuh"

#define FOR_EACH(index, count) \
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < (count); \
         index += (long long)gridDim.x * blockDim.x)

__device__ __forceinline__ unsigned pair_of(T low, T high) { return (unsigned short)low | (unsigned)(unsigned short)high << 16; }

extern "C" __global__ void __launch_bounds__(256)
    join(const T* __restrict__ a, int lda, int m, int k, unsigned* __restrict__ words)
{
    const int width = k / 2 + k % 2;
    FOR_EACH(index, (long long)m * width)
    {
        const int p = index % width * 2;
        const T* row = a + index / width * lda;
        words[index] = pair_of(row[p], row[min(p + 1, k - 1)]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    interleave(const T* __restrict__ b, int ldb, int k, int n, unsigned* __restrict__ words, int width)
{
    FOR_EACH(index, (long long)(k / 2 + k % 2) * width)
    {
        const int p = index / width * 2;
        const T* column = b + min((int)(index % width), n - 1);
        words[index] = pair_of(column[(long long)p * ldb], column[(long long)min(p + 1, k - 1) * ldb]);
    }
}
