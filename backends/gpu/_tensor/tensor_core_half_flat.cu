// C := alpha A B, or C + alpha A B, in bfloat16 or float16 with sums in float32, where C has few rows: C^T = B^T A^T, for sm_90a.
//
// An instruction takes 64 rows of its first operand, and of its second as many columns as it is made for, from 8 on. With C as it
// is, most of 64 rows would be empty, and be added up and moved all the same. So B comes first here, A second, and the tiles are
// those of C^T: `m` counts columns of C and `n` rows, `a` is the map of B and `b` that of A. Each is read as it lies: half_boxes.cuh.
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma.
#define BY_COLUMNS 1
#define STORE_ROWS store
__device__ __forceinline__ void store(void*, const float* sums, float alpha, float* c, int ldc, int rows, int columns, int, int);

#include "half_boxes.cuh"

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
