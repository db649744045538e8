// Tiles of A and B by the copy engine of Hopper: the part that all its kernels share. For sm_90a.
//
//   grid       persistent: clusters of CLUSTER blocks compute tiles of C, one above the other, until none is left. Each
//              block fetches its share of B's tile for all of them, and A's for itself. With TOGETHER not so: each cluster
//              computes one tile, and each of its blocks has a part of the steps
//   producer   one thread asks the copy engine (TMA) for tiles of A and B, STAGES ahead, across the ends of tiles of C
//   consumers  two warpgroups compute tiles of C, BM x BN each; one if BM is 64
//   barriers   full[stage]: the bytes have arrived; empty[stage]: the consumers of the cluster have read them
//
// No element passes through registers on its way in. The copy engine writes rows of 128 bytes, their pieces of 16 bytes
// permuted (swizzled), while the consumers compute. setmaxnreg moves registers to the consumers.
//
// Edges: the copy engine clips, and writes zeros for elements outside. Rows must begin at multiples of 16 bytes, better of
// 128: a row of a box is 128 bytes, and if it crosses a line the whole product takes a quarter longer.
//
// Layers: A and B may be stacks of matrices, the third dimension of their tensor maps. A launch then computes a stack of C,
// its layers one after the other, each a sum of terms: products of a layer of A and one of B (LAYERED).
//
// Defined before this file: T; Result (of an element of C); BK (steps of k of a stage), BYTES (of a stage), ARRIVALS (of
// consumers at an empty stage); `fill`, `compute`, `is_chosen`. Optional: FACTOR, the type of alpha, else float;
// LAYERED 1, with `count_layers`, `count_terms` and `layers_of`.
// Defined by the host: BM, 128 or 64; BN; RESIDENT: blocks of a multiprocessor at once; STAGES; CLUSTER; GROUP: rows of
// clusters that are walked through column by column; TRIANGLE.
// Optional: BY_COLUMNS 1: C lies by columns, as the tiles see it. STAGGER: at how many steps of k tiles begin (stagger.cuh).
// IS_SPLIT 1: several clusters compute each tile, a share of `depth` stages each, of `shares`. They store tiles of FETCHERS *
// BM x BN, which lie like C, at `c`, what exists of them, share after share, which fold.cu adds up.
// TAKES_TURNS 1: of two consumers one begins the steps of its tile after the other's, and stores meanwhile; a tile has at most
// STAGES steps.
// BESIDE: a statement for the three warps that have no tiles to ask for; BESIDE_PARAMETERS, of the kernel, which it uses; and
// OF_PRODUCER, the registers that it needs.
//
// Source: PTX ISA, cp.async.bulk.tensor; CUTLASS 3, warp-specialised persistent kernels.
#pragma once
#include "chain.cuh"
#include "layers.cuh"
#include "stagger.cuh"
#include "tma.cuh"
#include "grid.cuh"

#ifndef FACTOR
#define FACTOR float
#endif
#ifndef LAYERED
#define LAYERED 0
#endif
#ifndef BY_COLUMNS
#define BY_COLUMNS 0
#endif
#ifndef IS_SPLIT
#define IS_SPLIT 0
#endif
#if IS_SPLIT
#define SPLIT_PARAMETERS , int shares, int depth
#else
#define SPLIT_PARAMETERS
#endif
#ifndef BESIDE
#define BESIDE_PARAMETERS
#endif
#ifndef TAKES_TURNS
#define TAKES_TURNS 0
#endif

constexpr int ROW_BYTES = 128;  // of a row of a tile in shared memory, the widest that is swizzled
constexpr int GROUPS = 1 + BM / 64, THREADS = GROUPS * 128;

// Registers of a thread: at the launch, of the producer, and of the consumers, which share what it leaves.
#ifndef OF_PRODUCER
#define OF_PRODUCER (TOGETHER ? 40 : 24)
#endif
constexpr int GIVEN = 65536 / (RESIDENT * THREADS) / 8 * 8;
constexpr int LEFT = (GIVEN * GROUPS - OF_PRODUCER) / (GROUPS - 1) / 8 * 8, OF_CONSUMER = LEFT < 240 ? LEFT : 240;
constexpr int SWIZZLED = 1024;  // period of the swizzle in bytes

// The current stage of a ring of stages, and the parity of the round through it.
struct Ring {
    unsigned full, empty, turns;  // barriers of stage 0, and of the first consumer
    int parity, stage = 0, round = 0;
    __device__ Ring(unsigned barriers, int first)
        : full(barriers), empty(barriers + 8 * STAGES), turns(barriers + 16 * STAGES), parity(first)
    {
    }
    __device__ void advance()
    {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    // Wait for the turn of consumer `part`, of two; the first one has the first. One thread gives the turn to the other.
    __device__ void await_turn(int part)
    {
        if (TAKES_TURNS) wait(turns + 8 * part, round++ + part + 1 & 1);
    }
    __device__ void give_turn(int part, int thread) const
    {
        if (TAKES_TURNS && thread == 0) arrive(turns + 8 * (1 - part));
    }
};

// Request the tiles of A and B for a place in C, from these layers and from step `p` of k on: BYTES in all, counted at
// `barrier`.
__device__ __forceinline__ void fill(unsigned to, const TensorMap* a, const TensorMap* b, unsigned barrier,
                                     const Place& place, const Layers& layers, int p, int m, int n, int rank);
// Compute tile number `index` of C from stages of the ring, `steps` a term, each of which is waited for and released. The
// stages begin at `memory`; the scratch that the host has reserved follows them.
__device__ __forceinline__ void compute(Ring& ring, unsigned char* memory, Result* c, int ldc, int index, int m, int n,
                                        int steps, FACTOR alpha);

#if LAYERED
// How many layers of C are computed, with `given` as the host has it; 0: the kernel returns at once.
__device__ __forceinline__ int count_layers(const float* given);
// How many terms layer `layer` of C is the sum of, and the layers of A and B of such a term.
__device__ __forceinline__ int count_terms(int layer);
__device__ __forceinline__ Layers layers_of(int layer, int term);
#else
__device__ __forceinline__ bool is_chosen(const float* extremes);
__device__ __forceinline__ int count_layers(const float* extremes) { return is_chosen(extremes); }
__device__ __forceinline__ constexpr int count_terms(int) { return 1; }
__device__ __forceinline__ Layers layers_of(int, int) { return Layers{0, 0}; }
#endif

// The layer of the cluster's work of this number.
__device__ __forceinline__ int layer_of(int index, int m, int n)
{
    return LAYERED ? index / count_tiles<FETCHERS * BM, BN>(m, n) : 0;
}

// Position of the tile of this block in the cluster's work of this number (grid.cuh). It is complete when this returns:
// divisions are slow, and consumers have time during a tile's last instructions. The compiler would put the divisions after
// those.
__device__ __forceinline__ Place locate(int index, int m, int n)
{
    const int layer = layer_of(index, m, n);
    if (LAYERED) index -= layer * count_tiles<FETCHERS * BM, BN>(m, n);
    const Tile tile = tile_at<FETCHERS * BM, BN, GROUP>(index, m, n);
    Place place = {tile.row + (TOGETHER ? 0 : rank_in_cluster() * BM), tile.column, layer};
    forget(place.row), forget(place.column);
    if (LAYERED) forget(place.layer);
    return place;
}

// Tell the blocks of the cluster that one of their consumers is done with a stage; `thread` of it.
__device__ __forceinline__ void release(const Ring& ring, int stage, int thread)
{
    if (thread >= FETCHERS) return;
    if (FETCHERS == 1) arrive(ring.empty + 8 * stage);
    else arrive_at(ring.empty + 8 * stage, thread);
}

__device__ __forceinline__ void produce(Ring& ring, unsigned tiles, const TensorMap* a, const TensorMap* b, int index,
                                        int m, int n, int first, int steps)
{
    const int rank = FETCHERS > 1 ? rank_in_cluster() : 0;
    const Place place = locate(index, m, n);
#pragma unroll 1
    for (int term = 0; term < count_terms(place.layer); ++term) {
        const Layers layers = layers_of(place.layer, term);
        int at = first_step(index, steps);
        for (int step = 0; step < steps; ++step) {
            const unsigned barrier = ring.full + 8 * ring.stage;
            wait(ring.empty + 8 * ring.stage, ring.parity);
            expect(barrier, BYTES);
            fill(tiles + ring.stage * BYTES, a, b, barrier, place, layers, (first + at) * BK, m, n, rank);
            ring.advance();
            if (++at == steps) at = 0;
        }
    }
}

struct Steps {
    int first, count;
};

// Which of so many steps of k this block computes: all, or TOGETHER a part, which is empty if there are fewer than blocks.
__device__ __forceinline__ Steps steps_of(int first, int count)
{
    if (!TOGETHER) return Steps{first, count};
    const int rank = rank_in_cluster(), begin = count * rank / CLUSTER;
    return Steps{first + begin, count * (rank + 1) / CLUSTER - begin};
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) IN_CLUSTER(CLUSTER)
    gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, Result* c, int m, int n, int k, int ldc,
         FACTOR alpha, const float* extremes SPLIT_PARAMETERS BESIDE_PARAMETERS)
{
    DYNAMIC_SHARED(dynamic);
    unsigned char* memory = (unsigned char*)dynamic;
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES + 2 * TAKES_TURNS];
    memory += -shared_address(memory) % SWIZZLED;  // swizzling depends on the address
    const unsigned tiles = shared_address(memory), full = shared_address(barriers);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            make_barrier(full + 8 * stage, 1);
            make_barrier(full + 8 * (STAGES + stage), ARRIVALS * FETCHERS);
        }
        for (int part = 0; part < 2 * TAKES_TURNS; ++part) make_barrier(full + 8 * (2 * STAGES + part), 1);
        publish_barriers();
    }
    meet_cluster();
    await_launch_before();
    const int layers = count_layers(extremes);
    if (!layers) return leave_cluster();
    const int steps = (k + BK - 1) / BK;
    const int tiles_c = count_tiles<FETCHERS * BM, BN>(m, n);
#if IS_SPLIT
    const int count = tiles_c * shares;
#else
    const int count = layers * tiles_c;
#endif
    if (threadIdx.x < 128) {
        leave_registers<OF_PRODUCER>();
        Ring ring(full, 1);  // in the first round every stage is empty
        if (threadIdx.x == 0)
            for (int index = blockIdx.x / CLUSTER; index < count; index += gridDim.x / CLUSTER) {
#if IS_SPLIT
                const Steps of_share = steps_of(index / tiles_c * depth, min(steps - index / tiles_c * depth, depth));
                produce(ring, tiles, &a, &b, index % tiles_c, m, n, of_share.first, of_share.count);
#else
                const Steps of_tile = steps_of(0, steps);
                produce(ring, tiles, &a, &b, index, m, n, of_tile.first, of_tile.count);
#endif
            }
        if (TOGETHER) meet_cluster(), meet_cluster();  // as consumers do, before and after they put down their sums
#ifdef BESIDE
        if (threadIdx.x >= 32) BESIDE;
#endif
    } else {
        take_registers<OF_CONSUMER>();
        Ring ring(full, 0);
        for (int index = blockIdx.x / CLUSTER; index < count; index += gridDim.x / CLUSTER) {
#if IS_SPLIT
            const Tile tile = tile_at<FETCHERS * BM, BN, GROUP>(index % tiles_c, m, n);  // as a matrix of its own
            const Steps of_share = steps_of(index / tiles_c * depth, min(steps - index / tiles_c * depth, depth));
            compute(ring, memory, c + (long long)index * (FETCHERS * BM * BN), BY_COLUMNS ? FETCHERS * BM : BN, 0,
                    min(m - tile.row, FETCHERS * BM), min(n - tile.column, BN), of_share.count, alpha);
#else
            compute(ring, memory, c, ldc, index, m, n, steps_of(0, steps).count, alpha);
#endif
        }
    }
    leave_cluster();
}
