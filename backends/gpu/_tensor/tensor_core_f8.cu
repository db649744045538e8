// C := alpha A B, or C + alpha A B, with A and B in float8 and sums in float32, by TMA and wgmma, for sm_90a. A lies by rows, B
// by columns, since the instruction takes bytes along k alone (digits.cu turns what lies otherwise).
//
//   KIND, NUMBER  "e4m3" and E4M3, or "e5m2" and E5M2
//   FLUSHES       1: sums are taken out of the tensor cores every 128 steps of k, by additions of float32; 0: never
//   EDGE_LINES    as in tensor_core_s8.cu
//
// Tensor cores add up products of float8 in 14 bits: of each product, and of the sum so far, what lies below 2^-13 of the
// greatest of them is cut off.
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma .e4m3; DeepSeek-V3 (2024), section 3.3.2, for FLUSHES.
#define T float
#define DEPTH 32
#define FLAGS ""  // both along k, the only layout of this instruction
#define FACTOR float
#define ALTERNATES (FLUSHES && BN <= 128)  // of wider tiles the terms do not fit the registers twice

typedef float Result;

constexpr int BK = 128, BYTES = (BM + BN) * 128;

#include "float8.cuh"
#include "lanes.cuh"
#if EDGE_LINES
typedef float Total;

// sum + the products of four pairs of numbers
__device__ __forceinline__ float dot_of_words(unsigned x, unsigned y, float sum)
{
    float of_x[4], of_y[4];
    read_float8<NUMBER>(x, of_x), read_float8<NUMBER>(y, of_y);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += of_x[e] * of_y[e];
    return sum;
}

__device__ __forceinline__ float total_of_lanes(float sum)
{
#pragma unroll
    for (int distance = 16; distance; distance /= 2) sum += of_lane_across(sum, distance);
    return sum;
}
#define EDGE_PIECES 1
#include "edge_lines.cuh"
#endif
#include "byte_tiles.cuh"

__device__ __forceinline__ bool is_chosen(const float*) { return true; }
