// The number of moduli with which A B is as accurate as a product in float64, or 0 where none is. Nobody waits for it: the
// kernels that follow read it from memory.
//
// Spreads and trial are statistics of the whole (look.cuh). The proof is of every element. Let x of norm 2^X and y of norm 2^Y
// be a row of A and a column of B after scaling, with X and Y in (HALF_BITS - 1, HALF_BITS]. If f and g of their k elements
// are large, f + g - k large ones meet, and
//
//   |x| |y| >= SHARE^2 (f + g - k) 2^(X + Y) / k        the error is at most sqrt(k) (2^X + 2^Y) / 2
//
// but for roundings that every sum has. So it is within k u |A| |B|, the bound of sums in any order, if
//
//   (f + g - k) SHARE^2 >= sqrt(k) 2^(UNIT_BITS + 1 - HALF_BITS)
//
//   one block, the last of the pass over A and B; it leaves zeros in everything that the passes count
//
// Defined before this file: THREADS
#pragma once
#include "look.cuh"

// The fewest large elements of a vector; `large` is zero then.
__device__ __forceinline__ int fewest(unsigned* large, int vectors, int k)
{
    int found = k;
#pragma unroll 8
    for (int i = threadIdx.x; i < vectors; i += THREADS) found = min(found, (int)large[i]), large[i] = 0;
    return found;
}

__device__ __forceinline__ bool is_proven(int common, int count, int k)
{
    const float share = share_of(count);
    return (double)common * share * share >= sqrt((double)k) * exp2(UNIT_BITS + 1 - half_bits(count)) * 1.0001;
}

__device__ __forceinline__ void decide(Look* look, unsigned* large_a, int m, unsigned* large_b, int n, int k, int* moduli)
{
    __shared__ int least[2][THREADS];
    const int count = moduli_for(*look, k), me = threadIdx.x;
    if (PROVES) {
        least[0][me] = fewest(large_a, m, k);
        least[1][me] = fewest(large_b, n, k);
    }
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (PROVES && me < half)
            for (int side = 0; side < 2; ++side) least[side][me] = min(least[side][me], least[side][me + half]);
    }
    if (me == 0) {
        *moduli = count && (!PROVES || is_proven(least[0][0] + least[1][0] - k, count, k)) ? count : 0;
        *look = Look{0, 0, 0, 0};
    }
}
