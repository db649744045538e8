// C := alpha A B, or C + alpha A B, in bfloat16 or float16 with sums in float32, where C has few rows: C^T = B^T A^T, for sm_90a.
//
// An instruction takes 64 rows of its first operand, and of its second as many columns as it is made for, from 8 on. With C as it
// is, most of 64 rows would be empty, and be added up and moved all the same. So B comes first here, A second, and the tiles are
// those of C^T: `m` counts columns of C and `n` rows, `a` is the map of B and `b` that of A, a box each of BN rows.
//
//   KIND  "bf16" or "f16"
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma, "transpose" of its operands.
#define T float
#define DEPTH 16
#define FLAGS ", 1, 0"  // of the instruction: B along n, A along k
#define BY_COLUMNS 1

typedef float Result;

constexpr int BK = 64, BOX_COLUMNS = 64, BOX = BK * 128, BYTES_B = BM / BOX_COLUMNS * BOX, BYTES = BYTES_B + BN * 128;
constexpr bool FLUSHES = false;

#define STORE_ROWS store
__device__ __forceinline__ void store(void*, const float* sums, float alpha, float* c, int ldc, int rows, int columns, int, int);

#include "wgmma_tile.cuh"

static_assert(FETCHERS == 1, "a block fetches all that it needs");

__device__ __forceinline__ bool is_chosen(const float*) { return true; }

__device__ __forceinline__ void fill(unsigned to, const TensorMap* map_b, const TensorMap* map_a, unsigned barrier,
                                     const Place& place, const Layers&, int p, int, int, int)
{
#pragma unroll
    for (int box = 0; box < BM / BOX_COLUMNS; ++box)
        copy_box(to + box * BOX, map_b, barrier, place.row + box * BOX_COLUMNS, p);
    copy_box(to + BYTES_B, map_a, barrier, p, place.column);
}

__device__ __forceinline__ void begin_step(float* sums, unsigned tile, int part, bool is_first)
{
    const unsigned long long b = describe(tile + part * BOX, BOX, 8 * ROW_BYTES);
    const unsigned long long a = describe(tile + BYTES_B, 16, 8 * ROW_BYTES);
#pragma unroll
    for (int p = 0; p < BK / DEPTH; ++p)  // advance by 16 rows of B, by 32 bytes of a row of A
        multiply(sums, b + ROW_BYTES * p, a + 2 * p, !is_first || p > 0);
}

// Eight lanes have neighbours of a row of C, a sector of memory.
__device__ __forceinline__ void store(void*, const float* sums, float alpha, float* c, int ldc, int rows, int columns, int, int)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        const int row = i % 4 / 2 * 8 + g, column = i / 4 * 8 + 2 * t + i % 2;
        float* to = c + (long long)column * ldc + row;
        if (row < rows && column < columns) *to = ACCUMULATE ? *to + alpha * sums[i] : alpha * sums[i];
    }
}
