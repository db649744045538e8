// C := alpha A B, or C + alpha A B, with A and B in bfloat16 or float16 and sums in float32, where C is tall and narrow
// and k is short: mma.sync, row panels of A by bulk copies. For sm_90.
//
//   grid    persistent: warps compute panels of C, ROWS x BN, until none is left
//   block   all of B in shared memory, zeros beyond it
//   warp    panels of A that it alone waits for, STAGES ahead: ROWS whole rows are one run of memory;
//           so are rows of C without gaps, which pass through shared memory (WHOLE_ROWS)
//
// The copy engine brings tiles of 64 steps of k (tensor_core_half.cu). They begin within lines of memory where rows are
// no multiple of lines: each row of a tile is then two requests. A run is as many as it has lines. Rows may begin
// anywhere in it.
//
// With ROW_RUNS each row is a run of its own, and lies an odd number of granules from the next one. Else up to eight
// rows are in the same banks. Runs of less than some hundred bytes take longer than those conflicts.
//
// Edges: elements beyond k are masked in the last step. A run begins with the granule of 16 bytes that its first element
// is in: up to 14 bytes before A are read and not used. Lanes copy the elements behind its last whole granule.
//
// Defined by the host:
//   ROWS, BN              a panel: multiples of 16 and 8
//   WARPS, STAGES, MIN_BLOCKS, KIND
//   UNIT_A                bytes, 16, 4 or 2, whose multiples all rows of A begin at
//   B_BY_COLUMNS, UNIT_B  the same of the lines of B, 16 or 2
//   WIDTH                 elements of C that are stored at once, 2 or 1
//   ACCUMULATE
//   ROW_RUNS 1            rows of A are whole granules, `lda` apart
//   WHOLE_ROWS 1          rows of C begin where the ones before them end, and C is only written
//
// Source: PTX ISA, mma.sync, ldmatrix, cp.async.bulk.
#define T unsigned char
#define CLUSTER 1
#include "intrinsics.cuh"
#include "mma_intrinsics.cuh"
#include "half_intrinsics.cuh"
#include "tma.cuh"
#include "chain.cuh"

typedef unsigned short Narrow;  // the bits of an element
struct alignas(16) Granule {
    Narrow x[8];
};
struct alignas(8) Pair {
    float x[2];
};

constexpr int STEP = 16, BYTES = 2, GRANULE = 16, PER_GRANULE = GRANULE / BYTES;
constexpr int THREADS = 32 * WARPS, MI = ROWS / 16, NI = BN / 8;
static_assert(ROWS % 16 == 0 && BN % 8 == 0, "instructions cut a panel evenly");

// Elements between lines of B in shared memory: an odd number of granules, so that eight of them lie in different banks.
__device__ __forceinline__ constexpr int pitch_of(int elements)
{
    return (elements + PER_GRANULE - 1) / PER_GRANULE / 2 * 2 * PER_GRANULE + PER_GRANULE;
}

// Bring `lines` of `elements` each into shared memory, `pitch` apart, and zeros beyond them up to so many of both.
__device__ __forceinline__ void bring_lines(Narrow* to, int pitch, const Narrow* from, int ld, int lines, int elements,
                                            int all_lines, int all_elements)
{
    const int granules = all_elements / PER_GRANULE;
    for (int i = threadIdx.x; i < all_lines * granules; i += THREADS) {
        const int line = i / granules, first = i % granules * PER_GRANULE, left = line < lines ? elements - first : 0;
        const Narrow* x = from + (long long)line * ld + first;
        Granule granule = {};
        if (UNIT_B == GRANULE && left >= PER_GRANULE) granule = *(const Granule*)x;
        else
#pragma unroll
            for (int e = 0; e < PER_GRANULE; ++e)
                if (e < left) granule.x[e] = x[e];
        *(Granule*)(to + line * pitch + first) = granule;
    }
}

// Two neighbours of a row of A.
__device__ __forceinline__ unsigned two_of_row(const Narrow* x)
{
    return UNIT_A >= 4 ? *(const unsigned*)x : x[0] | (unsigned)x[1] << 16;
}

// The fragments of A of a step, `left` steps before the end of its rows, which lie `ld` elements apart.
__device__ __forceinline__ void load_rows(unsigned (*of_a)[4], const Narrow* panel, int ld, int p, int left)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < MI; ++i) {
        if (UNIT_A == GRANULE) load_matrices(of_a[i], panel + (i * 16 + lane % 16) * ld + p + lane / 16 * 8);
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (UNIT_A < GRANULE) of_a[i][v] = two_of_row(panel + (i * 16 + v % 2 * 8 + g) * ld + p + v / 2 * 8 + 2 * t);
            const int exist = left - (v / 2 * 8 + 2 * t);
            if (exist < 2) of_a[i][v] &= exist == 1 ? 0xffffu : 0u;
        }
    }
}

// The fragments of B of a step.
__device__ __forceinline__ void load_columns(unsigned (*of_b)[2], const Narrow* b, int pitch, int p)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j + 1 < NI; j += 2) {
        if (B_BY_COLUMNS) load_matrices(of_b[j], b + (j * 8 + lane / 16 * 8 + lane % 8) * pitch + p + lane / 8 % 2 * 8);
        else load_transposed(of_b[j], b + (p + lane % 16) * pitch + (j + lane / 16) * 8);
    }
    if (NI % 2) {
        const Narrow* last = B_BY_COLUMNS ? b + ((NI - 1) * 8 + lane % 8) * pitch + p + lane / 8 % 2 * 8
                                          : b + (p + lane % 16) * pitch + (NI - 1) * 8;
        B_BY_COLUMNS ? load_two_matrices(of_b[NI - 1], last) : load_two_transposed(of_b[NI - 1], last);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    gemm(const Narrow* __restrict__ a, const Narrow* __restrict__ b, float* __restrict__ c, int m, int n, int k, int lda,
         int ldb, int ldc, float alpha, int of_b_bytes, int stage_bytes, int apart)
{
    DYNAMIC_SHARED(memory);
    __shared__ __align__(8) unsigned long long barriers[WARPS * STAGES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const unsigned full = shared_address(barriers) + 8 * warp * STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < WARPS * STAGES; ++i) make_barrier(shared_address(barriers) + 8 * i, 1);
        publish_barriers();
    }
    __syncthreads();
    await_launch_before();

    const int panels = (m + ROWS - 1) / ROWS, next = gridDim.x * WARPS;
    // All panels begin alike in a granule.
    const int shift = UNIT_A == GRANULE ? 0 : (int)((unsigned long long)a % GRANULE) / BYTES;
    T* const stages = memory + of_b_bytes + warp * STAGES * stage_bytes;
    // Request a panel: a run, the last elements of which, less than a granule, lanes copy; or rows, a lane each.
    auto request = [&](int panel, int stage) {
        if (panel >= panels) return;
        if (ROW_RUNS) {
            const int rows = min(m - panel * ROWS, ROWS);
            const int run = k / PER_GRANULE * PER_GRANULE;
            if (lane == 0) expect(full + 8 * stage, rows * run * BYTES);
            __syncwarp();
            if (lane >= rows) return;
            const Narrow* from = a + ((long long)panel * ROWS + lane) * lda;
            Narrow* to = (Narrow*)(stages + stage * stage_bytes) + lane * apart;
            if (run) copy_run(shared_address(to), from, run * BYTES, full + 8 * stage);
            for (int e = run; e < k; ++e) to[e] = from[e];
            return;
        }
        const int elements = (min(m - panel * ROWS, ROWS) - 1) * lda + k + shift, run = elements / PER_GRANULE * PER_GRANULE;
        const Narrow* from = a + (long long)panel * ROWS * lda - shift;
        Narrow* to = (Narrow*)(stages + stage * stage_bytes);
        if (lane == 0) {
            expect(full + 8 * stage, run * BYTES);
            if (run) copy_run(shared_address(to), from, run * BYTES, full + 8 * stage);
        }
        if (run + lane < elements) to[run + lane] = from[run + lane];
    };
    int panel = blockIdx.x * WARPS + warp;
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) request(panel + stage * next, stage);

    const int steps = (k + STEP - 1) / STEP, pitch = pitch_of(B_BY_COLUMNS ? steps * STEP : BN);
    Narrow* const of_b = (Narrow*)memory;
    if (B_BY_COLUMNS) bring_lines(of_b, pitch, b, ldb, n, k, BN, steps * STEP);
    else bring_lines(of_b, pitch, b, ldb, k, n, steps * STEP, BN);
    __syncthreads();

    float* const whole_rows = (float*)(memory + of_b_bytes + WARPS * STAGES * stage_bytes) + warp * ROWS * n;
    for (int stage = 0, parity = 0; panel < panels; panel += next) {
        wait(full + 8 * stage, parity);
        __syncwarp();
        const Narrow* rows = (const Narrow*)(stages + stage * stage_bytes) + shift;
        float sums[MI][NI][4] = {};
        unsigned first[MI][4], second[NI + NI % 2][2];
#pragma unroll 2
        for (int p = 0; p < k; p += STEP) {
            load_rows(first, rows, apart, p, k - p);
            load_columns(second, of_b, pitch, p);
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int j = 0; j < NI; ++j) mma_half(sums[i][j], first[i], second[j]);
        }
        end_reads();
        __syncwarp();  // all lanes have read the stage
        request(panel + STAGES * next, stage);
        if (++stage == STAGES) stage = 0, parity ^= 1;
        if (WHOLE_ROWS) {
            if (lane == 0) await_stores();
            __syncwarp();
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int j = 0; j < NI; ++j)
#pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        const int column = j * 8 + 2 * t + v % 2;
                        if (column < n) whole_rows[(i * 16 + v / 2 * 8 + g) * n + column] = alpha * sums[i][j][v];
                    }
            end_writes();
            __syncwarp();
            const int elements = min(m - panel * ROWS, ROWS) * n, run = elements / 4 * 4;
            float* to = c + (long long)panel * ROWS * n;
            if (lane == 0 && run) store_run(to, shared_address(whole_rows), run * 4);
            if (run + lane < elements) to[run + lane] = whole_rows[run + lane];
            continue;
        }
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = panel * ROWS + i * 16 + half * 8 + g;
                if (row >= m) continue;
                float* to = c + (long long)row * ldc + 2 * t;
#pragma unroll
                for (int j = 0; j < NI; ++j) {
                    const int left = n - j * 8 - 2 * t;
                    const float x = alpha * sums[i][j][2 * half], y = alpha * sums[i][j][2 * half + 1];
                    if (WIDTH == 2 && left >= 2) {
                        Pair total = {x, y};
                        if (ACCUMULATE) total = {((Pair*)(to + j * 8))->x[0] + x, ((Pair*)(to + j * 8))->x[1] + y};
                        *(Pair*)(to + j * 8) = total;
                        continue;
                    }
                    if (left >= 1) to[j * 8] = ACCUMULATE ? to[j * 8] + x : x;
                    if (left >= 2) to[j * 8 + 1] = ACCUMULATE ? to[j * 8 + 1] + y : y;
                }
            }
    }
    if (WHOLE_ROWS && lane == 0) await_stores();
    leave_cluster();
}
