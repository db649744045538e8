// C := alpha A B, or C + alpha A B, with A and B in bfloat16 or float16 and sums in float32: TMA and wgmma, for sm_90a.
//
//   grid       persistent: a block computes one tile of C, BM x BN, after the other until none is left
//   producer   one thread asks the copy engine (TMA) for tiles of A and B, STAGES ahead
//   consumers  two warpgroups, 64 rows of the tile each: wgmma reads both operands from shared memory
//   barriers   full[stage]: the bytes are there; empty[stage]: both consumers are done with them
//
// No element passes through registers on its way in: the copy engine writes rows of 128 bytes, swizzled as wgmma reads them,
// while the consumers compute. Registers go to those who need them (setmaxnreg).
//
// Edges: the copy engine clips, and writes zeros for what lies outside. Rows begin at multiples of 16 bytes: the host's care.
//
//   KIND "bf16" or "f16"    BN 256 or 128    STAGES    ACCUMULATE 1: C := C + alpha A B
//
// Source: PTX ISA, wgmma and cp.async.bulk.tensor; CUTLASS 3, warp-specialised persistent kernels.
#include "wgmma.cuh"

struct alignas(64) TensorMap {
    char opaque[128];
};

constexpr int BM = 128, BK = 64, GROUP = 8;
constexpr int ROW_BYTES = 128;  // of a tile: 64 elements, the widest that is swizzled
constexpr int BYTES_A = BM * ROW_BYTES, BYTES_B = BK * BN * 2, BYTES = BYTES_A + BYTES_B;
constexpr int BOX_B = BK * ROW_BYTES;  // B comes in boxes of 64 columns
constexpr int CONSUMERS = 2, THREADS = 128 * (1 + CONSUMERS);

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void make_barrier(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, int parity)
{
    int is_done = 0;
    while (!is_done)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                 : "=r"(is_done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void copy_box(unsigned to, const TensorMap* from, unsigned barrier, int column, int row)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        ::"r"(to), "l"(from), "r"(barrier), "r"(column), "r"(row)
        : "memory");
}

// Which stage of the ring, and the parity of the round through it.
struct Ring {
    int stage = 0, parity;
    __device__ explicit Ring(int first) : parity(first) {}
    __device__ void advance() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

// Where the tile of C with this number begins: GROUP tile rows, column by column, then the next GROUP.
__device__ __forceinline__ void locate(int index, int m, int n, int& row, int& column)
{
    const int rows = (m + BM - 1) / BM, columns = (n + BN - 1) / BN;
    const int first = index / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    const int place = index % (GROUP * columns);
    row = (first + place % height) * BM;
    column = place / height * BN;
}

// Two neighbours of a row, of which `left` exist.
__device__ __forceinline__ void store(float* c, float x, float y, int left)
{
    if (left > 0) c[0] = ACCUMULATE ? c[0] + x : x;
    if (left > 1) c[1] = ACCUMULATE ? c[1] + y : y;
}

__device__ __forceinline__ void produce(const TensorMap* a, const TensorMap* b, unsigned tiles, unsigned full,
                                        unsigned empty, int m, int n, int steps, int count)
{
    Ring ring(1);  // in the first round every stage is empty
    int row, column;
    for (int index = blockIdx.x; index < count; index += gridDim.x) {
        locate(index, m, n, row, column);
        for (int step = 0; step < steps; ++step) {
            const unsigned to = tiles + ring.stage * BYTES, barrier = full + 8 * ring.stage;
            wait(empty + 8 * ring.stage, ring.parity);
            expect(barrier, BYTES);
            copy_box(to, a, barrier, step * BK, row);
            for (int box = 0; box < BN / 64; ++box)
                copy_box(to + BYTES_A + box * BOX_B, b, barrier, column + box * 64, step * BK);
            ring.advance();
        }
    }
}

__device__ __forceinline__ void consume(unsigned tiles, unsigned full, unsigned empty, float* c, int ldc, int m, int n,
                                        int steps, int count, float alpha)
{
    const int part = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, g = thread % 32 / 4, t = thread % 4;
    Ring ring(0);
    int row, column;
    for (int index = blockIdx.x; index < count; index += gridDim.x) {
        locate(index, m, n, row, column);
        float sums[BN / 2];
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) sums[i] = 0;
        int before = -1;
        for (int step = 0; step < steps; ++step) {
            wait(full + 8 * ring.stage, ring.parity);
            const unsigned tile = tiles + ring.stage * BYTES;
            const unsigned long long a = describe(tile + part * (64 * ROW_BYTES), 16, 8 * ROW_BYTES);
            const unsigned long long b = describe(tile + BYTES_A, BOX_B, 8 * ROW_BYTES);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int p = 0; p < BK / 16; ++p)  // on by 32 bytes of a row of A, by 16 rows of B
                multiply(sums, a + 2 * p, b + ROW_BYTES * p, step > 0 || p > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");  // the step before this one is complete
            if (before >= 0 && thread == 0) arrive(empty + 8 * before);
            before = ring.stage;
            ring.advance();
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (thread == 0) arrive(empty + 8 * before);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = row + part * 64 + thread / 32 * 16 + half * 8 + g;
            if (i >= m) continue;
#pragma unroll
            for (int j = 0; j < BN / 8; ++j) {
                const int at = column + 8 * j + 2 * t, from = 4 * j + 2 * half;
                store(c + (long long)i * ldc + at, alpha * sums[from], alpha * sums[from + 1], n - at);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int m, int n, int k, int ldc,
         float alpha)
{
    extern __shared__ unsigned char memory[];
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    const unsigned tiles = (shared_address(memory) + 1023) & ~1023u;  // swizzling goes by the address
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            make_barrier(full + 8 * stage, 1);
            make_barrier(empty + 8 * stage, CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const int steps = (k + BK - 1) / BK, count = ((m + BM - 1) / BM) * ((n + BN - 1) / BN);
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) produce(&a, &b, tiles, full, empty, m, n, steps, count);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(tiles, full, empty, c, ldc, m, n, steps, count, alpha);
    }
}
