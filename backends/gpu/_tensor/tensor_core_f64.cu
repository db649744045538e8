// C := A B, or C + A B, in float64 on tensor cores. Each instruction computes 16 x 8 sums of K_STEP fused multiply-adds,
// with the rounding of ordinary float64: no accuracy is lost.
//
//   K_STEP      steps of k of an instruction: 4, 8 or 16
//   ACCUMULATE  1: C := C + A B
//
// Loops, tiles and edges: mma_tile.cuh. Source: PTX ISA, mma.m16n8k4, k8, k16 .f64.
#define T double
#include "intrinsics.cuh"

typedef double Sum;
typedef double Result;
constexpr int DEPTH = K_STEP;

__device__ __forceinline__ void multiply(double (*sums)[WN / 8][4], const double (*a)[DEPTH / 2],
                                         const double (*b)[DEPTH / 4]);
__device__ __forceinline__ bool is_chosen(const float*) { return true; }
__device__ __forceinline__ double joined(const double* place, double sum) { return ACCUMULATE ? *place + sum : sum; }

#include "mma_tile.cuh"

__device__ __forceinline__ void multiply(double (*sums)[NI][4], const double (*a)[OF_A], const double (*b)[OF_B])
{
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int step = 0; step < NI; ++step) {
            const int j = i % 2 ? NI - 1 - step : step;  // there and back: reuses the last fragment of B
            mma_f64<DEPTH>(sums[i][j], a[i], b[j]);
        }
}
