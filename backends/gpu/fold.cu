// The sums of shares of k, added up in their order: the same result every time, whichever block was done first.
//
//   parts   matrix after matrix of m x n, a share each; out := parts[0] (+) parts[1] (+) ..., or out (+) all of that
//
// Source: CUTLASS, "Efficient GEMM in CUDA": parallel reductions over k, "split-K".
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(256)
    fold(const T* __restrict__ parts, int shares, T* __restrict__ out, int ld, int m, int n, const T* __restrict__ found)
{
    if (!is_wanted(found)) return;
    const long long size = (long long)m * n, stride = (long long)gridDim.x * blockDim.x;
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < size; index += stride) {
        T total = parts[index];
#pragma unroll 8
        for (int share = 1; share < shares; ++share) total = ADD(total, parts[share * size + index]);
        store(out + index / n * ld + index % n, total);
    }
}
