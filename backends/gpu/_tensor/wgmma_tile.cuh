// C := alpha A B, or C + alpha A B, by the warpgroup instructions of Hopper: the part that kernels of all element types
// share. For sm_90a.
//
//   consumers  warpgroups, 64 rows of a tile BM x BN each: wgmma reads both operands from shared memory
//
// A fragment holds two neighbours of a row of C, and storing it directly took a sixth of the time at n = 4096. If rows of A and B
// cross lines, clusters are faster, since they fetch less.
//
//   STORE     STAGED, FOURS or WHOLE_LINES: how rows of C are stored (store_rows.cuh)
//   TOGETHER  1: blocks of a cluster share k, and add up their sums (store_together.cuh)
//   ALTERNATES  1, if FLUSHES: terms of two steps in turn are added to the sums (alternate.cuh)
//
// Defined before this file: BK, BYTES, FLUSHES; `begin_step`, and those of tma_tile.cuh except `compute`. Optional:
// STORE_ROWS, another way to store sums, in ROOM_BYTES a warp; READ_ROWS, a statement that reads what it needs of C while
// the last sums are computed; PER_RESULT, columns of C that an element of it holds; if LAYERED, `is_shifted`.
// Defined by the host: BN, as in wgmma.cuh; STAGES, CLUSTER, GROUP; WIDTH: elements of C that are stored at once, 4 (of bytes 16)
// where its rows allow; ACCUMULATE 1: C := C + alpha A B.
//
// Producer, tiles and edges: tma_tile.cuh. Source: PTX ISA, wgmma; CUTLASS 3, warp-specialised persistent kernels.
#pragma once
constexpr int ARRIVALS = BM / 64;  // of the warpgroups

#include "tma_tile.cuh"
#include "wgmma.cuh"

#define STAGED 0
#define FOURS 1
#define WHOLE_LINES 2
#ifndef STORE
#define STORE STAGED
#endif
#ifndef ALTERNATES
#define ALTERNATES 0
#endif

constexpr int SUMS = BN / 2;  // of a thread
#ifndef PER_RESULT
#define PER_RESULT 1
#endif
#ifndef READ_ROWS
#define READ_ROWS(c, ldc, rows)
#endif
#define ROOM_BYTES (STORE == WHOLE_LINES ? 16 * 64 * 4 : 16 * 40 * 4)  // of a warp: staging of its rows of C

// Begin the instructions of a stage for `part` of the tile; `is_first`: sums begin anew.
__device__ __forceinline__ void begin_step(Sum* sums, unsigned tile, int part, bool is_first);

#if LAYERED
// Whether the sums so far are multiplied by 256 before a term of a layer is added.
__device__ __forceinline__ bool is_shifted(int layer, int term);
#else
__device__ __forceinline__ constexpr bool is_shifted(int, int) { return false; }
#endif

// Sums of integers wrap: signed ones must not overflow.
__device__ __forceinline__ float plus(float x, float y) { return x + y; }
template <class X> __device__ __forceinline__ X plus(X x, X y) { return (X)((unsigned)x + (unsigned)y); }

#ifndef STORE_ROWS
#define STORE_ROWS store_sums
#include "store_rows.cuh"
#endif
#include "store_together.cuh"
#if ALTERNATES
#include "alternate.cuh"
#endif

__device__ __forceinline__ void compute(Ring& ring, unsigned char* memory, Result* c, int ldc, int index, int m, int n,
                                        int steps, FACTOR alpha)
{
    const int part = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32;
    const int layer = layer_of(index, m, n);
    const unsigned tiles = shared_address(memory);
    Sum sums[SUMS];  // their first instruction clears them
    if (FLUSHES)
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    int before = -1;
    ring.await_turn(part);
#if ALTERNATES
    add_alternately(ring, tiles, steps, part, sums);
#else
    Sum terms[FLUSHES ? SUMS : 1];
#pragma unroll 1
    for (int term = 0; term < count_terms(layer); ++term) {
        if (is_shifted(layer, term)) {
            wait_groups<0>();
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[i] = (unsigned)sums[i] * 256;
        }
        for (int step = 0; step < steps; ++step) {
            wait(ring.full + 8 * ring.stage, ring.parity);
            begin_group();
            begin_step(FLUSHES ? terms : sums, tiles + ring.stage * BYTES, part, FLUSHES || (term == 0 && step == 0));
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
    }
#endif
    ring.give_turn(part, thread);
    const Place place = locate(index, m, n);
    const int i = place.row + part * 64 + warp * 16;
    Result* to = c + (BY_COLUMNS ? (long long)place.column * ldc + i
                                 : ((long long)place.layer * m + i) * ldc + place.column / PER_RESULT);
    READ_ROWS(to, ldc, m - i)
    wait_groups<0>();
    if (!FLUSHES && before >= 0) release(ring, before, thread);
#if TOGETHER
    if (steps == 0)
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    store_together((float*)memory, sums, alpha, c + (long long)place.row * (BY_COLUMNS ? 1 : ldc) +
                   (long long)place.column * (BY_COLUMNS ? ldc : 1), ldc, m - place.row, n - place.column);
    return;
#endif
    STORE_ROWS(memory + STAGES * BYTES + (part * 4 + warp) * ROOM_BYTES, sums, alpha, to, ldc, m - i, n - place.column, i - place.column, place.layer);
}
