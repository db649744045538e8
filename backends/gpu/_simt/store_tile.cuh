// Store the tile of a thread to C, in groups.
//
// Defined before this file: what semiring.cuh and warp_tiles.cuh ask for, and
//
//   C_VECTORS   1: groups of C are aligned, and those inside of C are read and written at once
#pragma once
#include "warp_tiles.cuh"
#include "vectors.cuh"
#include "triangle.cuh"

// `row` and `column`: the position of this thread's first element in C.
__device__ __forceinline__ void store_tile(const T (&sums)[TM][TN], RESULT* c, int m, int n, int ldc, int row, int column)
{
    // loop over the rows of a thread, and over their groups
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const int i = row + row_of(r);
        if (i >= m) continue;
        const int end = end_of_row(i, n);
#pragma unroll
        for (int s = 0; s < TN; s += GROUP_SIZE) {
            const int j = column + column_of(s);
            RESULT* address = c + (long long)i * ldc + j;
            if (C_VECTORS && j + GROUP_SIZE <= end) {
                Vector<RESULT, GROUP_SIZE> group;
#if ACCUMULATE
                group = read_vector<GROUP_SIZE>(address);
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = ADD(group.x[v], FINISHED(sums[r][s + v]));
#else
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = FINISHED(sums[r][s + v]);
#endif
                write_vector<GROUP_SIZE>(address, group);
            } else {
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v)
                    if (j + v < end) store(address + v, FINISHED(sums[r][s + v]));
            }
        }
    }
}
