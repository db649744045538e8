// C := alpha A B, or C + alpha A B, by the copy engine and the warpgroup instructions of Hopper: what the kernels have in
// common whatever their elements are. For sm_90a.
//
//   grid       persistent: clusters of CLUSTER blocks compute tiles of C, one above the other, until none is left. Each
//              block fetches its share of B's tile for all of them, and A's for itself
//   producer   one thread asks the copy engine (TMA) for tiles of A and B, STAGES ahead, across the ends of tiles of C
//   consumers  two warpgroups, 64 rows of a tile BM x BN each: wgmma reads both operands from shared memory
//   barriers   full[stage]: the bytes are there; empty[stage]: the consumers of the cluster are done with them
//
// No element passes through registers on its way in: the copy engine writes rows of 128 bytes, swizzled as wgmma reads them,
// while the consumers compute. Registers go to those who need them (setmaxnreg). On its way out a tile passes through
// shared memory: a fragment holds two neighbours of a row, and stored as such they took a sixth of the time at n = 4096.
//
// Edges: the copy engine clips, and writes zeros for what lies outside. Rows must begin at multiples of 16 bytes, and should
// at multiples of 128: a row of a box is 128 bytes, and where it lies across two lines everything takes a quarter longer.
// That is where clusters pay, which fetch less.
//
// Defined before this file: BK (steps of k of a stage), BYTES (of a stage), FLUSHES; `fill`, `begin_step`.
// Defined by the host: BN 256 or 128; STAGES; CLUSTER; GROUP (rows of clusters that are walked through column by column);
// WIDTH: elements of C that are stored at once, 4 where its rows allow; ACCUMULATE 1: C := C + alpha A B.
//
// Source: PTX ISA, wgmma and cp.async.bulk.tensor; CUTLASS 3, warp-specialised persistent kernels.
#pragma once
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int BM = 128, ROW_BYTES = 128;  // of a row of a tile in shared memory, the widest that is swizzled
constexpr int CONSUMERS = 2, THREADS = 128 * (1 + CONSUMERS);
constexpr int SUMS = BN / 2;  // of a thread
constexpr int SWIZZLED = 1024;  // bytes that the swizzle repeats after
// A warp's 16 rows leave by CHUNK columns; rows so far apart that no two lanes of half a warp meet in a bank.
constexpr int CHUNK = 32, PITCH = CHUNK + 8, ROOM = 16 * PITCH;

// Ask for the tiles of A at `row`, of B at `column`, and of k at `p`: BYTES in all, counted at `barrier`.
__device__ __forceinline__ void fill(unsigned to, const TensorMap* a, const TensorMap* b, unsigned barrier, int row,
                                     int column, int p, int m, int n, int rank);
// Begin the instructions of a stage for `part` of the tile; `is_first`: sums begin anew.
__device__ __forceinline__ void begin_step(float* sums, unsigned tile, int part, bool is_first);
__device__ __forceinline__ bool is_wanted(const float* found);

// Which stage of a ring of them, and the parity of the round through it.
struct Ring {
    int stage = 0, parity;
    __device__ explicit Ring(int first) : parity(first) {}
    __device__ void advance()
    {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

struct alignas(8) Pair {
    float x, y;
};
struct alignas(16) Vector {
    float x[4];
};

// Where the tile of this block begins in the cluster's work of this number: GROUP rows of clusters, column by column, then
// the next GROUP.
__device__ __forceinline__ void locate(int index, int m, int n, int& row, int& column)
{
    constexpr int HEIGHT = CLUSTER * BM;
    const int rows = (m + HEIGHT - 1) / HEIGHT, columns = (n + BN - 1) / BN;
    const int first = index / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    const int place = index % (GROUP * columns);
    row = (first + place % height) * HEIGHT + rank_in_cluster() * BM;
    column = place / height * BN;
}

// Store `sums` of a warp, alpha times: `rows` and `columns` exist from c on. `room` is the warp's own.
__device__ __forceinline__ void store_rows(float* room, const float* sums, float alpha, float* c, int ldc, int rows,
                                           int columns)
{
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
        const int left = columns - chunk * CHUNK - j;
#pragma unroll
        for (int first = 0; first < 16; first += 32 / ACROSS) {
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

__device__ __forceinline__ void produce(const TensorMap* a, const TensorMap* b, unsigned tiles, unsigned full,
                                        unsigned empty, int m, int n, int steps, int count)
{
    Ring ring(1);  // in the first round every stage is empty
    const int rank = rank_in_cluster();
    int row, column;
    for (int index = blockIdx.x / CLUSTER; index < count; index += gridDim.x / CLUSTER) {
        locate(index, m, n, row, column);
        for (int step = 0; step < steps; ++step) {
            const unsigned barrier = full + 8 * ring.stage;
            wait(empty + 8 * ring.stage, ring.parity);
            expect(barrier, BYTES);
            fill(tiles + ring.stage * BYTES, a, b, barrier, row, column, step * BK, m, n, rank);
            ring.advance();
        }
    }
}

__device__ __forceinline__ void consume(unsigned tiles, float* rooms, unsigned full, unsigned empty, float* c, int ldc,
                                        int m, int n, int steps, int count, float alpha)
{
    const int part = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32;
    float* room = rooms + (part * 4 + warp) * ROOM;
    Ring ring(0);
    int row, column;
    auto release = [&](int stage) {
        if (thread >= CLUSTER) return;
        if (CLUSTER == 1) arrive(empty + 8 * stage);
        else arrive_at(empty + 8 * stage, thread);
    };
    for (int index = blockIdx.x / CLUSTER; index < count; index += gridDim.x / CLUSTER) {
        locate(index, m, n, row, column);
        float sums[SUMS], terms[FLUSHES ? SUMS : 1];
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = 0;
#pragma unroll
        for (int i = 0; i < (FLUSHES ? SUMS : 1); ++i) terms[i] = 0;
        int before = -1;
        for (int step = 0; step < steps; ++step) {
            wait(full + 8 * ring.stage, ring.parity);
            begin_group();
            begin_step(FLUSHES ? terms : sums, tiles + ring.stage * BYTES, part, FLUSHES || step == 0);
            end_group();
            if (FLUSHES) {
                wait_groups<0>();
                release(ring.stage);
#pragma unroll
                for (int i = 0; i < SUMS; ++i) sums[i] += terms[FLUSHES ? i : 0];
            } else {
                wait_groups<1>();  // the step before this one is complete
                if (before >= 0) release(before);
                before = ring.stage;
            }
            ring.advance();
        }
        wait_groups<0>();
        if (!FLUSHES) release(before);
        const int i = row + part * 64 + warp * 16;
        store_rows(room, sums, alpha, c + (long long)i * ldc + column, ldc, m - i, n - column);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTER(CLUSTER)
    gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int m, int n, int k, int ldc,
         float alpha, const float* found)
{
    DYNAMIC_SHARED(dynamic);
    unsigned char* memory = (unsigned char*)dynamic;
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    if (!is_wanted(found)) return;
    const unsigned skipped = -shared_address(memory) % SWIZZLED;  // swizzling goes by the address
    const unsigned tiles = shared_address(memory) + skipped;
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            make_barrier(full + 8 * stage, 1);
            make_barrier(empty + 8 * stage, CONSUMERS * CLUSTER);
        }
        publish_barriers();
    }
    meet_cluster();
    const int steps = (k + BK - 1) / BK;
    const int count = ((m + CLUSTER * BM - 1) / (CLUSTER * BM)) * ((n + BN - 1) / BN);
    if (threadIdx.x < 128) {
        leave_registers<40>();
        if (threadIdx.x == 0) produce(&a, &b, tiles, full, empty, m, n, steps, count);
    } else {
        take_registers<232>();
        float* rooms = (float*)(memory + skipped + STAGES * BYTES);
        consume(tiles, rooms, full, empty, c, ldc, m, n, steps, count, alpha);
    }
    leave_cluster();
}
