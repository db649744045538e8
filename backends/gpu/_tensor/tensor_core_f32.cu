// C := A B, or C + A B, in float32 by three TF32 products on tensor cores.
//
//   x = high + low      high: x rounded to the 11 significant bits of TF32; low: the remainder, rounded likewise
//   a b ~ high(a) high(b) + high(a) low(b) + low(a) high(b)      the omitted term is below 2^-22 of |a b|
//
// A tensor core truncates when it adds: the error of sums kept there would grow with k (3e-5 at k = 4096). So sums of DEPTH
// terms are taken out and added by ordinary float32 additions: the flush.
//
//   FLUSH       steps of k between two flushes: 8 or 16
//   FORM        IF_SAFE: return at once unless `extremes` says that high and low are finite, normal numbers (semiring.cuh)
//
// Loops, tiles and edges: mma_tile.cuh. Source: Markidis et al. (2018), section V; Ootomo and Yokota, "Recovering single
// precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance" (2022), section 3.
#include "intrinsics.cuh"

typedef float Sum;
typedef float Result;
constexpr int DEPTH = FLUSH;

__device__ __forceinline__ void multiply(float (*sums)[WN / 8][4], const float (*a)[DEPTH / 2], const float (*b)[DEPTH / 4]);

#include "semiring.cuh"

__device__ __forceinline__ float joined(const float* place, float sum) { return ACCUMULATE ? ADD(*place, sum) : sum; }

#include "mma_tile.cuh"

#include "tf32.cuh"

// Splits bits of floats; the instruction ignores the last 13 bits.
__device__ __forceinline__ void split_bits(float x, unsigned& high, unsigned& low)
{
    high = (__float_as_uint(x) + HALF) & KEPT;
    low = __float_as_uint(x - __uint_as_float(high)) + HALF;
}

__device__ __forceinline__ void multiply(float (*sums)[NI][4], const float (*a)[OF_A], const float (*b)[OF_B])
{
    constexpr int PARTS = DEPTH / 8;
    unsigned high_b[NI][OF_B], low_b[NI][OF_B];
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
        for (int v = 0; v < OF_B; ++v) split_bits(b[j][v], high_b[j][v], low_b[j][v]);
#pragma unroll
    for (int i = 0; i < MI; ++i) {
        unsigned high_a[OF_A], low_a[OF_A];
#pragma unroll
        for (int v = 0; v < OF_A; ++v) split_bits(a[i][v], high_a[v], low_a[v]);
#pragma unroll
        for (int step = 0; step < NI; ++step) {
            const int j = i % 2 ? NI - 1 - step : step;
            float terms[4] = {0, 0, 0, 0};
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {  // the small products first
                mma_tf32(terms, low_a + 4 * part, high_b[j] + 2 * part);
                mma_tf32(terms, high_a + 4 * part, low_b[j] + 2 * part);
            }
#pragma unroll
            for (int part = 0; part < PARTS; ++part) mma_tf32(terms, high_a + 4 * part, high_b[j] + 2 * part);
#pragma unroll
            for (int v = 0; v < 4; ++v) sums[i][j][v] += terms[v];
        }
    }
}
