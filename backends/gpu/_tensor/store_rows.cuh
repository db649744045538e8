// Rows of C from the registers of a warp to memory: three ways to store sums, of which STORE names one (wgmma_tile.cuh).
//
//   store_fours    rows are aligned: two lanes exchange pairs of neighbours, so that each stores four
//   store_lines    rows begin anywhere: a ring in shared memory collects whole lines of 128 bytes
//   store_staged   any rows, elements and triangle: a warp's 16 rows pass through shared memory, some columns at a time
//
// A warp has 16 rows and BN columns: `sums` of a thread are pairs of neighbours, for each 8 columns one in row g and one in row
// g + 8, g = lane / 4 (PTX ISA, fragments of wgmma). Of C `rows` and `columns` exist from c on, which lies `below` rows below the
// diagonal.
//
// Defined before this file: Result, Sum, FACTOR, BN, WIDTH, ACCUMULATE, ROOM_BYTES, STORE and its values, `plus`.
#pragma once
#include "lanes.cuh"
#include "triangle.cuh"

struct alignas(4 * sizeof(Result)) Four {
    Result x[4];
};

// A thread has pairs of neighbours. Two lanes exchange pairs, so that each stores four neighbours, and a warp 64 bytes of each of
// eight rows: with pairs alone the whole product of bytes took 7 % longer at n = 4096.
__device__ __forceinline__ void store_fours(const Sum* sums, FACTOR alpha, Result* c, int ldc, int rows, int columns, int below)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bool is_odd = t % 2;
    const int first = is_odd * 8 + t / 2 * 4;  // of the four, of 16 columns
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int i = half * 8 + g, left = i < rows ? end_of_row(below + i, columns) - first : 0;
        Result* row = c + (long long)i * ldc + first;
#pragma unroll
        for (int v = 0; v < BN / 16; ++v) {
            const Sum* pairs = sums + 8 * v + 2 * half;  // one in each half of the 16 columns
            Sum four[4];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const Sum taken = of_lane_across(is_odd ? pairs[e] : pairs[e + 4], 1);
                four[e] = is_odd ? taken : pairs[e];
                four[e + 2] = is_odd ? pairs[e + 4] : taken;
            }
            Four total;
            if (ACCUMULATE && 16 * v + 4 <= left) total = *(const Four*)(row + 16 * v);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const Result x = (Result)(alpha * four[e]);
                const bool is_alone = 16 * v + 4 > left;
                total.x[e] = ACCUMULATE && !is_alone ? plus(total.x[e], x) : x;
                if (is_alone && 16 * v + e < left) row[16 * v + e] = ACCUMULATE ? plus(row[16 * v + e], x) : x;
            }
            if (16 * v + 4 <= left) *(Four*)(row + 16 * v) = total;
        }
    }
}
// Place in the ring of a row, 64 elements, of which two lines of memory are half each. Rows exchange their fours, against conflicts
// of banks.
__device__ __forceinline__ int in_ring(int row, int p) { return row * 64 + ((p & 63) ^ (row % 8 * 4)); }

// Rows begin `shift` elements after a line of 32. So a line of row `row` is the end of a chunk of 32 columns and the beginning of the
// next one: the ring holds both. Element by element, with a store of a row at once, the whole product of bytes took a tenth longer at
// n = 4095. Not for triangles.
__device__ __forceinline__ void store_lines(void* memory, const Sum* sums, FACTOR alpha, Result* c, int ldc, int rows, int columns)
{
    constexpr int LINE = 32, CHUNKS = BN / LINE;
    static_assert(STORE != WHOLE_LINES || sizeof(Result) == 4, "a line is 32 elements");
    Result* ring = (Result*)memory;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, begin = (int)((unsigned long long)c / sizeof(Result) % LINE);
    const int end = min(columns, BN);
#pragma unroll
    for (int chunk = 0; chunk <= CHUNKS; ++chunk) {
        __syncwarp();
#pragma unroll
        for (int v = 0; chunk < CHUNKS && v < LINE / 8; ++v)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int row = half * 8 + g, shift = (begin + (unsigned)row * ldc) % LINE;
                    ring[in_ring(row, chunk * LINE + 8 * v + 2 * t + e + shift)] =
                        (Result)(alpha * sums[chunk % CHUNKS * (LINE / 2) + 4 * v + 2 * half + e]);
                }
        __syncwarp();
#pragma unroll
        for (int first = 0; first < 16; first += 4) {
            const int row = first + lane / 8, p = chunk * LINE + lane % 8 * 4, j = p - (int)((begin + (unsigned)row * ldc) % LINE);
            if (row >= rows || j + 4 <= 0 || j >= end) continue;
            Four four = *(const Four*)(ring + in_ring(row, p));
            Result* to = c + (long long)row * ldc + j;
            if (j >= 0 && j + 4 <= end) {
                Four total;
                if (ACCUMULATE) total = *(const Four*)to;
#pragma unroll
                for (int e = 0; e < 4; ++e) total.x[e] = ACCUMULATE ? plus(total.x[e], four.x[e]) : four.x[e];
                *(Four*)to = total;
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (j + e >= 0 && j + e < end) to[e] = ACCUMULATE ? plus(to[e], four.x[e]) : four.x[e];
            }
        }
    }
}

template <class X, int COUNT> struct alignas(COUNT * sizeof(X)) Several {
    X x[COUNT];
};

// Store `sums` of a warp, alpha times: `rows` and `columns` exist from c on, which lies `below` rows below the diagonal.
// `memory` is the warp's own.
__device__ __forceinline__ void store_staged(void* memory, const Sum* sums, FACTOR alpha, Result* c, int ldc, int rows,
                                             int columns, int below)
{
    // The 16 rows are stored CHUNK columns at a time; the distance of rows avoids bank conflicts of half a warp.
    constexpr int CHUNK = BN % 32 == 0 ? 32 : BN % 16 == 0 ? 16 : 8, PITCH = CHUNK + 8;
    static_assert(16 * PITCH * sizeof(Sum) <= ROOM_BYTES, "the rows have room");
    Sum* room = (Sum*)memory;
    constexpr int ACROSS = CHUNK / WIDTH;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, i = lane / ACROSS, j = lane % ACROSS * WIDTH;
#pragma unroll
    for (int chunk = 0; chunk < BN / CHUNK; ++chunk) {
        __syncwarp();
#pragma unroll
        for (int v = 0; v < CHUNK / 8; ++v)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const Sum* from = sums + chunk * (CHUNK / 2) + 4 * v + 2 * half;
                *(Several<Sum, 2>*)(room + (half * 8 + g) * PITCH + 8 * v + 2 * t) = {(Sum)(alpha * from[0]),
                                                                                      (Sum)(alpha * from[1])};
            }
        __syncwarp();
#pragma unroll
        for (int first = 0; first < 16; first += 32 / ACROSS) {
            const int left = end_of_row(below + first + i, columns) - chunk * CHUNK - j;
            if (first + i >= rows || left <= 0) continue;
            const Sum* from = room + (first + i) * PITCH + j;
            Result* to = c + (long long)(first + i) * ldc + chunk * CHUNK + j;
            if (WIDTH == 4 && left >= WIDTH) {
                const auto x = *(const Several<Sum, WIDTH>*)from;
                Several<Result, WIDTH> total;
                if (ACCUMULATE) total = *(const Several<Result, WIDTH>*)to;
                for (int v = 0; v < WIDTH; ++v)
                    total.x[v] = ACCUMULATE ? plus(total.x[v], (Result)x.x[v]) : (Result)x.x[v];
                *(Several<Result, WIDTH>*)to = total;
            } else {
                for (int v = 0; v < min(left, WIDTH); ++v)
                    to[v] = ACCUMULATE ? plus(to[v], (Result)from[v]) : (Result)from[v];
            }
        }
    }
}

__device__ __forceinline__ void store_sums(void* memory, const Sum* sums, FACTOR alpha, Result* c, int ldc, int rows,
                                           int columns, int below, int)
{
#if STORE == FOURS
    store_fours(sums, alpha, c, ldc, rows, columns, below);
#elif STORE == WHOLE_LINES
    store_lines(memory, sums, alpha, c, ldc, rows, columns);
#else
    store_staged(memory, sums, alpha, c, ldc, rows, columns, below);
#endif
}
