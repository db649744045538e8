// C := alpha A B, or C + alpha A B, by the warpgroup instructions of Hopper: the part that kernels of all element types
// share. For sm_90a.
//
//   consumers  two warpgroups, 64 rows of a tile BM x BN each: wgmma reads both operands from shared memory
//
// Results pass through shared memory: a fragment holds two neighbours of a row, and storing it directly took a sixth of the
// time at n = 4096. If rows of A and B cross lines, clusters are faster, since they fetch less.
//
// Defined before this file: BK, BYTES, FLUSHES; `begin_step`, and those of tma_tile.cuh except `compute`. Optional:
// Result (of an element of C, else float) with STORE_ROWS, another way to store sums than as floats, in ROOM_BYTES a warp.
// Defined by the host: BN 256 or 128; STAGES, CLUSTER, GROUP; WIDTH: elements of C that are stored at once, 4 (of bytes 16)
// where its rows allow; ACCUMULATE 1: C := C + alpha A B.
//
// Producer, tiles and edges: tma_tile.cuh. Source: PTX ISA, wgmma; CUTLASS 3, warp-specialised persistent kernels.
#pragma once
#ifndef STORE_ROWS
typedef float Result;
#endif
constexpr int ARRIVALS = 2;  // of the warpgroups

#include "tma_tile.cuh"
#include "wgmma.cuh"

constexpr int SUMS = BN / 2;  // of a thread
constexpr int ROOM_BYTES = 16 * 40 * 4;  // of a warp: staging of its rows of C

// Begin the instructions of a stage for `part` of the tile; `is_first`: sums begin anew.
__device__ __forceinline__ void begin_step(Sum* sums, unsigned tile, int part, bool is_first);

#ifndef STORE_ROWS
#define STORE_ROWS store_floats

struct alignas(8) Pair {
    float x, y;
};
struct alignas(16) Vector {
    float x[4];
};

// Store `sums` of a warp, alpha times: `rows` and `columns` exist from c on, which lies `below` rows below the diagonal.
// `memory` is the warp's own.
__device__ __forceinline__ void store_floats(void* memory, const float* sums, float alpha, float* c, int ldc, int rows,
                                             int columns, int below)
{
    // The 16 rows are stored CHUNK columns at a time; the distance of rows avoids bank conflicts of half a warp.
    constexpr int CHUNK = 32, PITCH = CHUNK + 8;
    static_assert(16 * PITCH * sizeof(float) <= ROOM_BYTES, "the rows have room");
    float* room = (float*)memory;
    constexpr int ACROSS = CHUNK / WIDTH;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, i = lane / ACROSS, j = lane % ACROSS * WIDTH;
#pragma unroll
    for (int chunk = 0; chunk < BN / CHUNK; ++chunk) {
        __syncwarp();
#pragma unroll
        for (int v = 0; v < CHUNK / 8; ++v)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* from = sums + chunk * (CHUNK / 2) + 4 * v + 2 * half;
                *(Pair*)(room + (half * 8 + g) * PITCH + 8 * v + 2 * t) = Pair{alpha * from[0], alpha * from[1]};
            }
        __syncwarp();
#pragma unroll
        for (int first = 0; first < 16; first += 32 / ACROSS) {
            const int left = end_of_row(below + first + i, columns) - chunk * CHUNK - j;
            if (first + i >= rows || left <= 0) continue;
            const float* from = room + (first + i) * PITCH + j;
            float* to = c + (long long)(first + i) * ldc + chunk * CHUNK + j;
            if (WIDTH == 4 && left >= WIDTH) {
                Vector x = *(const Vector*)from;
                if (ACCUMULATE) {
                    const Vector before = *(const Vector*)to;
                    for (int v = 0; v < 4; ++v) x.x[v] += before.x[v];
                }
                *(Vector*)to = x;
            } else {
                for (int v = 0; v < min(left, WIDTH); ++v) to[v] = ACCUMULATE ? to[v] + from[v] : from[v];
            }
        }
    }
}
#endif

__device__ __forceinline__ void compute(Ring& ring, unsigned char* memory, Result* c, int ldc, int index, int m, int n,
                                        int steps, float alpha)
{
    const int part = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32;
    const unsigned tiles = shared_address(memory);
    Sum sums[SUMS], terms[FLUSHES ? SUMS : 1];  // their first instruction clears them
    if (FLUSHES)
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    int before = -1;
    for (int step = 0; step < steps; ++step) {
        wait(ring.full + 8 * ring.stage, ring.parity);
        begin_group();
        begin_step(FLUSHES ? terms : sums, tiles + ring.stage * BYTES, part, FLUSHES || step == 0);
        end_group();
        if (FLUSHES) {
            wait_groups<0>();
            release(ring, ring.stage, thread);
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[i] += terms[FLUSHES ? i : 0];
        } else {
            wait_groups<1>();  // the step before this one is complete
            if (before >= 0) release(ring, before, thread);
            before = ring.stage;
        }
        ring.advance();
    }
    int row, column;
    locate(index, m, n, row, column);
    wait_groups<0>();
    if (!FLUSHES) release(ring, before, thread);
    const int i = row + part * 64 + warp * 16;
    unsigned char* room = memory + STAGES * BYTES + (part * 4 + warp) * ROOM_BYTES;
    STORE_ROWS(room, sums, alpha, c + (long long)i * ldc + column, ldc, m - i, n - column, i - column);
}
