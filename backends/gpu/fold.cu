// The sums of shares of k, added up in their order: the same result every time, whichever block was done first.
//
//   parts   tile after tile of BM x BN, of the `rest` tiles of C from tile `whole` on; then the same of the next share
//   out     of each of those tiles parts[0] (+) parts[1] (+) ..., or out (+) all of that, where it lies inside
//
// Source: CUTLASS, "Efficient GEMM in CUDA": parallel reductions over k, "split-K".
#include "semiring.cuh"
#include "grid.cuh"

extern "C" __global__ void __launch_bounds__(256)
    fold(const T* __restrict__ parts, int shares, int whole, int rest, T* __restrict__ out, int ld, int m, int n,
         const T* __restrict__ found)
{
    if (!is_wanted(found)) return;
    const long long size = (long long)rest * (BM * BN), stride = (long long)gridDim.x * blockDim.x;
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < size; index += stride) {
        const Tile tile = tile_at<BM, BN, GROUP>(whole + (int)(index / (BM * BN)), m, n);
        const int element = index % (BM * BN), i = tile.row + element / BN, j = tile.column + element % BN;
        if (i >= m || j >= n) continue;
        T total = parts[index];
#pragma unroll 8
        for (int share = 1; share < shares; ++share) total = ADD(total, parts[share * size + index]);
        store(out + (long long)i * ld + j, total);
    }
}
