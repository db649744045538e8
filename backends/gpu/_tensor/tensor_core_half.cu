// C := alpha A B, or C + alpha A B, with A and B in bfloat16 or float16 and sums in float32: TMA and wgmma, for sm_90a.
//
// A stage is 64 steps of k. A row of A's tile is 128 bytes; B, whose rows run along n, is fetched in boxes of 64 columns.
// The instructions of a stage still execute while those of the next are issued.
//
//   KIND  "bf16" or "f16"
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma; CUTLASS 3, warp-specialised persistent kernels.
#define T float
#define DEPTH 16
#define FLAGS ", 0, 1"  // of the instruction: A along k, B along n

typedef float Result;

constexpr int BK = 64, BOX_COLUMNS = 64;
constexpr bool FLUSHES = false;

#include "boxes.cuh"
#include "wgmma_tile.cuh"

__device__ __forceinline__ bool is_chosen(const float*) { return true; }

__device__ __forceinline__ void begin_step(float* sums, unsigned tile, int part, bool is_first)
{
    const unsigned long long a = describe(tile + part * (64 * ROW_BYTES), 16, 8 * ROW_BYTES);
    const unsigned long long b = describe(tile + BYTES_A, BOX, 8 * ROW_BYTES);
#pragma unroll
    for (int p = 0; p < BK / DEPTH; ++p)  // advance by 32 bytes of a row of A, by 16 rows of B
        multiply(sums, a + 2 * p, b + ROW_BYTES * p, !is_first || p > 0);
}
