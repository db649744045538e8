// Sums of a tile that each block of a cluster has for its part of k: added up where they lie in shared memory, and stored.
//
// They have the order of the blocks, and in a block that of its PARTS: the result is the same in every run.
//
// Defined before this file: CLUSTER; WIDTH, elements of a line of C that are stored at once, 4 or 1; ACCUMULATE.
#pragma once
#include "tma.cuh"

// Add up this block's part of LINES lines of LINE elements, and store what exists of them: `lines` of `elements`, at c, `ldc` apart.
// `parts` is where each block has its PARTS, one after the other, PITCH elements from line to line. Called by COUNT threads.
template <int LINES, int LINE, int PITCH, int PARTS, int COUNT>
__device__ __forceinline__ void add_up(const float* parts, int rank, int thread, float* c, int ldc, int lines, int elements,
                                       float alpha)
{
    constexpr int VECTORS = LINE / WIDTH, EACH = (LINES * VECTORS + CLUSTER - 1) / CLUSTER;
    for (int i = rank * EACH + thread; i < min((rank + 1) * EACH, LINES * VECTORS); i += COUNT) {
        const int line = i / VECTORS, first = i % VECTORS * WIDTH;
        if (line >= lines || first >= elements) continue;
        float total[WIDTH] = {};
#pragma unroll
        for (int block = 0; block < CLUSTER; ++block)
#pragma unroll
            for (int of = 0; of < PARTS; ++of) {
                float part[WIDTH];
                read_from_block<WIDTH>(part, parts + (of * LINES + line) * PITCH + first, block);
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) total[v] += part[v];
            }
        float* to = c + (long long)line * ldc + first;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) total[v] *= alpha;
        if (WIDTH == 4 && first + WIDTH <= elements) {
            struct alignas(16) Vector {
                float x[WIDTH];
            } vector;
            if (ACCUMULATE) vector = *(const Vector*)to;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) vector.x[v] = ACCUMULATE ? vector.x[v] + total[v] : total[v];
            *(Vector*)to = vector;
        } else {
#pragma unroll
            for (int v = 0; v < WIDTH; ++v)
                if (first + v < elements) to[v] = ACCUMULATE ? to[v] + total[v] : total[v];
        }
    }
}
