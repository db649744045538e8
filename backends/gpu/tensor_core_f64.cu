// C := A B, or C + A B, in float64 on tensor cores. Each instruction computes 16 x 8 sums of 4 fused multiply-adds, with
// the rounding of ordinary float64: no accuracy is given up.
//
//   ACCUMULATE  1: C := C + A B
//
// Loops, tiles and edges: mma_tile.cuh. Source: PTX ISA, mma.m16n8k4 .f64.
#define T double
#include "intrinsics.cuh"

typedef double Sum;
typedef double Result;
constexpr int DEPTH = 4;

__device__ __forceinline__ void multiply(double (*sums)[WN / 8][4], const double (*a)[2], const double (*b)[1]);
__device__ __forceinline__ bool is_wanted(const float*) { return true; }
__device__ __forceinline__ void store(double* place, double sum) { *place = ACCUMULATE ? *place + sum : sum; }

#include "mma_tile.cuh"

__device__ __forceinline__ void multiply(double (*sums)[NI][4], const double (*a)[OF_A], const double (*b)[OF_B])
{
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int step = 0; step < NI; ++step) {
            const int j = i % 2 ? NI - 1 - step : step;  // there and back: the last fragment of B is used twice in a row
            mma_f64(sums[i][j], a[i], b[j]);
        }
}
