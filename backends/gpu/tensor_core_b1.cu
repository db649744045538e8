// C := A (x) B over bools, 32 of them a word, on tensor cores, which count in how many places along k both have a one:
//
//   or-and    the count is not 0          xor-and   the count is odd
//
//   IS_XOR      1: xor-and
//   ACCUMULATE  1: C := C (+) A (x) B
//
// A word holds neighbours along k, of A (m, words) and of B (words, n): pack_bits.cu. k counts words here. Loops, tiles and
// edges: mma_tile.cuh. Source: PTX ISA, mma.m16n8k256 .b1 .and.popc.
#define T unsigned
#include "intrinsics.cuh"

typedef int Sum;
typedef unsigned char Result;
constexpr int DEPTH = 8;

__device__ __forceinline__ void multiply(int (*sums)[WN / 8][4], const unsigned (*a)[4], const unsigned (*b)[2]);
__device__ __forceinline__ bool is_wanted(const float*) { return true; }

__device__ __forceinline__ void store(unsigned char* place, int count)
{
    const unsigned char value = IS_XOR ? count % 2 : count != 0, before = ACCUMULATE ? *place : 0;
    *place = IS_XOR ? before ^ value : before | value;
}

#include "mma_tile.cuh"

__device__ __forceinline__ void multiply(int (*sums)[NI][4], const unsigned (*a)[OF_A], const unsigned (*b)[OF_B])
{
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int step = 0; step < NI; ++step) {
            const int j = i % 2 ? NI - 1 - step : step;
            mma_b1(sums[i][j], a[i], b[j]);
        }
}
