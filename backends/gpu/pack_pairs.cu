// Matrices of 16-bit elements, to words of two neighbours along k.
//
//   join         of A: a word holds elements 2 q and 2 q + 1 of a row
//   interleave   of B: word j of row q holds elements j of rows 2 q and 2 q + 1; beyond the matrix the last column again
//
// Where k is odd, the last step of it is there twice. Threads stand along rows of words, and gridDim.y rows are walked
// through at once: dividing an index by the width of a row took as long as the copy.
#include "semiring.cuh"

__device__ __forceinline__ unsigned pair_of(T low, T high) { return (unsigned short)low | (unsigned)(unsigned short)high << 16; }

extern "C" __global__ void __launch_bounds__(256)
    join(const T* __restrict__ a, int lda, int m, int k, unsigned* __restrict__ words)
{
    const int width = k / 2 + k % 2, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= width) return;
    for (int i = blockIdx.y; i < m; i += gridDim.y) {
        const T* row = a + (long long)i * lda;
        words[(long long)i * width + q] = pair_of(row[2 * q], row[min(2 * q + 1, k - 1)]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    interleave(const T* __restrict__ b, int ldb, int k, int n, unsigned* __restrict__ words, int width)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= width) return;
    const T* column = b + min(j, n - 1);
    for (int q = blockIdx.y; q < k / 2 + k % 2; q += gridDim.y)
        words[(long long)q * width + j] =
            pair_of(column[(long long)(2 * q) * ldb], column[(long long)min(2 * q + 1, k - 1) * ldb]);
}
