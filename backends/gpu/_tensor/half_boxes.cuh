// Tiles of bfloat16 or float16 as wgmma reads them, 64 steps of k a stage, for both orders of each operand in memory.
//
//   KIND  "bf16" or "f16"
//
// Layout of a stage: boxes.cuh. Source: PTX ISA, wgmma, "transpose" of its operands.
#pragma once
#define T float
#define DEPTH 16

typedef float Result;

constexpr int BK = 64, BOX_COLUMNS = 64;
constexpr bool FLUSHES = false;

#include "boxes.cuh"

// Of the instruction: 1 for an operand that does not lie along k.
#if FIRST_ALONG_K
#define FIRST_FLAG ", 0"
#else
#define FIRST_FLAG ", 1"
#endif
#if SECOND_ALONG_K
#define FLAGS FIRST_FLAG ", 0"
#else
#define FLAGS FIRST_FLAG ", 1"
#endif

#include "wgmma_tile.cuh"

__device__ __forceinline__ bool is_chosen(const float*) { return true; }

// An operand that begins at a shared address, and the distance of its next DEPTH steps of k in units of the descriptor: 32 bytes
// of a row, or 16 rows.
template <bool ALONG_K> __device__ __forceinline__ unsigned long long operand_at(unsigned address)
{
    return describe(address, ALONG_K ? 16 : BOX, 8 * ROW_BYTES);
}
template <bool ALONG_K> constexpr int NEXT_STEPS = ALONG_K ? 2 : ROW_BYTES;

// 64 rows of the first operand are 64 rows along k, or a box.
static_assert(BOX == 64 * ROW_BYTES, "both take as many bytes");

__device__ __forceinline__ void begin_step(float* sums, unsigned tile, int part, bool is_first)
{
    const unsigned long long first = operand_at<FIRST_ALONG_K>(tile + part * BOX);
    const unsigned long long second = operand_at<SECOND_ALONG_K>(tile + BYTES_FIRST);
#pragma unroll
    for (int p = 0; p < BK / DEPTH; ++p)
        multiply(sums, first + NEXT_STEPS<FIRST_ALONG_K> * p, second + NEXT_STEPS<SECOND_ALONG_K> * p, !is_first || p > 0);
}
