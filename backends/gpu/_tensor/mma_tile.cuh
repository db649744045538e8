// C := A (x) B by tensor cores, the part that kernels of all element types share:
//
//   grid    tiles of C, BM x BN a block, GROUP rows of tiles at a time: neighbours share rows of A and columns of B in L2
//   loop    p over k by BK: tiles of A and B in shared memory, STAGES of them, filled by cp.async while others are in use
//   warps   WM x WN of the tile: sums in registers, MI x NI fragments of 16 x 8
//   loop    over BK by DEPTH: fragments of A and B from shared memory, one step ahead of the instruction
//
// One block of 8 warps fills a multiprocessor, so no other block hides the latency of a new tile. Its first fragments are
// loaded before the old tile's last instructions: on one H200, 0.97 of cuBLAS in float64 instead of 0.85.
//
// Zeros fill A and B beyond the end of k; of a vector across the end, only existing elements are read.
//
// Defined before this file: T (of an element), Sum, Result, DEPTH (steps of k in a fragment); `multiply`, `is_chosen`;
// `joined`, which makes an element of C of a sum, or STORE_TILE, which stores sums in another way than by fragments. Defined
// by the host: BM, BN, BK, WM, WN, STAGES, MIN_BLOCKS; EDGE; PAD_A, PAD_B: padding between lines of a tile that lie along k, as
// those of A by rows, and of others, in elements, against bank conflicts. VA, VB: elements of A and of B in one copy: 1, or 16
// bytes if aligned. PAIRS: whether two elements of C may be stored at once. OFFSET: an integer type that holds distances within
// a tile. GROUP: rows of tiles that are traversed column by column. Optional: IS_SPLIT 1: several blocks compute each tile, a
// share of `depth` steps of k each; they store tiles of BM x BN at `c`, what exists of them, share after share, which fold.cu adds
// up. STAGGER: at how many steps of k tiles begin (stagger.cuh). A_BY_COLUMNS, B_BY_COLUMNS: by_columns.cuh.
// Source: PTX ISA, mma.sync; CUTLASS 2, efficient GEMM in CUDA, for the pipeline of fragments.
#undef K_TAIL
#define K_TAIL FILL
#include "intrinsics.cuh"
#include "mma_intrinsics.cuh"
#include "by_columns.cuh"
#include "edges.cuh"
#include "grid.cuh"
#include "stagger.cuh"

#ifndef IS_SPLIT
#define IS_SPLIT 0
#endif
#if IS_SPLIT
#define SPLIT_PARAMETERS , int tiles_c, int depth
#define TILES_C tiles_c
#else
#define SPLIT_PARAMETERS
#define TILES_C 1
#endif

constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int MI = WM / 16, NI = WN / 8;
constexpr int OF_A = DEPTH / 2, OF_B = DEPTH / 4;  // registers of a fragment

static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 8 == 0, "warps cut the tile evenly");
static_assert(BK % (2 * DEPTH) == 0, "an even number of steps, so that each has a fixed buffer");
static_assert(STAGES >= 2, "one tile is used while another is copied");

__device__ constexpr int ceiling(int x, int y) { return (x + y - 1) / y; }

// Bytes of a vector of WIDTH elements of which `left` exist
template <int WIDTH> __device__ __forceinline__ int size_of(int left)
{
    return max(min(left, WIDTH), 0) * (int)sizeof(T);
}

// The share of a thread in the copies of one operand: SIDE rows of A, or columns of B, by BK steps of k. Lines of a tile lie in
// shared memory as they do in memory: along k, SIDE of them, or along the side, BK of them. Addresses are computed once.
template <bool ALONG_K, int SIDE, int WIDTH> struct Share {
    static constexpr int LENGTH = ALONG_K ? BK : SIDE, COUNT = ALONG_K ? SIDE : BK;
    static constexpr int STRIDE = LENGTH + (ALONG_K ? PAD_A : PAD_B), TILE = COUNT * STRIDE, SIZE = WIDTH * sizeof(T);
    // Copies of a line, threads of a line and the parts of it where it is longer than a block, lines of a pass, and passes.
    // Threads beyond whole lines copy nothing, nor do lines beyond the tile.
    static constexpr int COPIES = LENGTH / WIDTH, ACROSS = COPIES < THREADS ? COPIES : THREADS, PARTS = ceiling(COPIES, ACROSS);
    static constexpr int LINES = THREADS / ACROSS, PASSES = ceiling(COUNT, LINES);
    static_assert(LENGTH % WIDTH == 0, "copies cut lines evenly");

    const T* next;                               // where the next tile begins
    OFFSET offsets[ALONG_K ? PASSES : PARTS];    // of the places along the side
    int exist[ALONG_K ? 1 : PARTS];              // bytes of a copy along the side
    int line, column, to, place, size, ld;

    // `place` is where the tile begins along a side of `size`, `begin` where k does.
    __device__ __forceinline__ Share(const T* x, int place_, int size_, int ld_, int begin)
        : line(threadIdx.x / ACROSS), column(threadIdx.x % ACROSS * WIDTH), place(place_), size(size_), ld(ld_)
    {
        to = line * STRIDE + column;
        next = x + (ALONG_K ? (long long)place * ld + begin : place + (long long)begin * ld);
#pragma unroll
        for (int i = 0; i < (ALONG_K ? PASSES : PARTS); ++i)
            if (ALONG_K) {
                offsets[i] = (OFFSET)(redirect_row(place + line + i * LINES, size) - place) * ld + column;
            } else {
                const int j = place + column + i * ACROSS * WIDTH;
                offsets[i] = redirect_columns<SIDE, WIDTH>(j, size) - place;
                exist[i] = EDGE == CONDITIONAL ? size_of<WIDTH>(size - j) : SIZE;
            }
    }

    __device__ __forceinline__ void skip(int steps) { next += ALONG_K ? (long long)steps : (long long)steps * ld; }

    __device__ __forceinline__ bool copies(int pass, int part) const
    {
        return (THREADS % ACROSS == 0 || line < LINES) && (COUNT % LINES == 0 || line + pass * LINES < COUNT) &&
               (COPIES % ACROSS == 0 || threadIdx.x + part * ACROSS < COPIES);
    }

    // Copy a tile of which `left` steps of k exist: no byte past the end is read. Checking this at every tile is cheaper than two
    // kinds of tiles.
    __device__ __forceinline__ void copy(T* tile, int left) const
    {
        tile += to;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const int along = part * ACROSS * WIDTH, of_line = EDGE == PADDED ? SIZE : size_of<WIDTH>(left - column - along);
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                if (!copies(pass, part)) continue;
                const int p = line + pass * LINES;
                const T* from = ALONG_K ? next + offsets[ALONG_K ? pass : 0] + along
                                        : next + offsets[ALONG_K ? 0 : part] + (OFFSET)p * ld;
                const int bytes = EDGE == PADDED ? SIZE
                                  : ALONG_K      ? (is_inside(place + p, size) ? of_line : 0)
                                                 : (is_step(p, left) ? exist[ALONG_K ? 0 : part] : 0);
                copy_part<SIZE>(tile + pass * LINES * STRIDE + along, from, bytes);
            }
        }
    }

    // Distance in a tile of an element `i` further along the side and `p` steps of k further on.
    static __device__ constexpr int at(int i, int p) { return ALONG_K ? i * STRIDE + p : p * STRIDE + i; }
};

typedef Share<!A_BY_COLUMNS, BM, VA> OfA;
typedef Share<B_BY_COLUMNS, BN, VB> OfB;
constexpr int TILE_A = OfA::TILE, TILE_B = OfB::TILE;

#ifndef STORE_TILE
#define STORE_TILE store_fragments

struct alignas(2 * sizeof(Result)) Pair {
    Result x, y;
};

// Store the sums of a warp that begin at its row and column of the tile at c, of which `rows` and `columns` exist. The tile
// begins `below` rows below the diagonal.
__device__ __forceinline__ void store_fragments(const Sum (*sums)[NI][4], void*, Result* c, int ldc, int rows, int columns,
                                                int warp_row, int warp_column, int below)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_row + i * 16 + half * 8 + g;
            if (row >= rows) continue;
            const int end = end_of_row(below + row, columns);
#pragma unroll
            for (int j = 0; j < NI; ++j) {
                const int column = warp_column + j * 8 + 2 * t;
                Result* place = c + (long long)row * ldc + column;
                const Sum *sum = sums[i][j] + 2 * half;
                if (PAIRS && column + 1 < end) {
                    *(Pair*)place = Pair{joined(place, sum[0]), joined(place + 1, sum[1])};
                } else {
                    if (column < end) place[0] = joined(place, sum[0]);
                    if (column + 1 < end) place[1] = joined(place + 1, sum[1]);
                }
            }
        }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    gemm(const T* __restrict__ a, const T* __restrict__ b, Result* __restrict__ c, int m, int n, int k,
         int lda, int ldb, int ldc, const float* __restrict__ extremes SPLIT_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
#if IS_SPLIT
    const int begin = blockIdx.x / tiles_c * depth;
    k = min(k - begin, depth);
    const Tile tile = tile_at<BM, BN, GROUP>(blockIdx.x % tiles_c, m, n);
#else
    const int begin = 0;
    const Tile tile = tile_of_block<BM, BN, GROUP>(m, n);
#endif
    DYNAMIC_SHARED(tiles_a);
    T* tiles_b = tiles_a + STAGES * TILE_A;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int warp_row = warp / (BN / WN) * WM, warp_column = warp % (BN / WN) * WN;

    // Tiles of k are copied in turn from one on, and after the last one from the first.
    const int tiles = (k + BK - 1) / BK;
    int coming = first_step(IS_SPLIT ? blockIdx.x % TILES_C : blockIdx.x, tiles);
    OfA copier_a(a, tile.row, m, lda, begin);
    OfB copier_b(b, tile.column, n, ldb, begin);
    copier_a.skip(coming * BK), copier_b.skip(coming * BK);

    auto copy_tile = [&](int stage) {
        const int left = k - coming * BK;
        copier_a.copy(tiles_a + stage * TILE_A, left), copier_b.copy(tiles_b + stage * TILE_B, left);
        // A choice between numbers: with a branch the copies would no longer run between the instructions of this tile.
        const int after = STAGGER > 1 && coming + 1 == tiles ? 0 : coming + 1, steps = (after - coming) * BK;
        copier_a.skip(steps), copier_b.skip(steps), coming = after;
    };

    auto load_fragments = [&](int stage, int p, T(*of_a)[OF_A], T(*of_b)[OF_B]) {
        const T* from_a = tiles_a + stage * TILE_A + OfA::at(warp_row + g, p + t);
        const T* from_b = tiles_b + stage * TILE_B + OfB::at(warp_column + g, p + t);
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int v = 0; v < OF_A; ++v) of_a[i][v] = from_a[OfA::at(i * 16 + v % 2 * 8, v / 2 * 4)];
#pragma unroll
        for (int j = 0; j < NI; ++j)
#pragma unroll
            for (int v = 0; v < OF_B; ++v) of_b[j][v] = from_b[OfB::at(j * 8, v * 4)];
    };

    Sum sums[MI][NI][4] = {};

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < tiles) copy_tile(stage);
        commit_copies();
    }
    wait_copies<STAGES - 2>();
    __syncthreads();
    T of_a[2][MI][OF_A], of_b[2][NI][OF_B];
    load_fragments(0, 0, of_a[0], of_b[0]);
    int reading = 0, writing = STAGES - 1;
    for (int index = 0; index < tiles; ++index) {
        const int next = reading + 1 == STAGES ? 0 : reading + 1;
#pragma unroll
        for (int p = 0; p < BK; p += DEPTH) {
            const int now = p / DEPTH % 2;
            const bool is_last = p + DEPTH == BK;
            if (is_last) {
                wait_copies<STAGES - 2>();
                __syncthreads();
            }
            load_fragments(is_last ? next : reading, is_last ? 0 : p + DEPTH, of_a[1 - now], of_b[1 - now]);
            if (p == 0) {
                if (index + STAGES - 1 < tiles) copy_tile(writing);
                commit_copies();
                writing = writing + 1 == STAGES ? 0 : writing + 1;
            }
            multiply(sums, of_a[now], of_b[now]);
        }
        reading = next;
    }

#if IS_SPLIT || TRIANGLE  // the tile is computed anew: saves registers, of which the loop has none to spare
    int index = blockIdx.x;
    forget(index);
    const Tile to = tile_at<BM, BN, GROUP>(IS_SPLIT ? index % TILES_C : index, m, n);
#else
    const Tile to = tile;
#endif
    const int rows = m - to.row, columns = n - to.column;
#if IS_SPLIT
    STORE_TILE(sums, tiles_a, c + (long long)index * (BM * BN), BN, min(rows, BM), min(columns, BN), warp_row, warp_column, BN);
#else
    STORE_TILE(sums, tiles_a, c + (long long)to.row * ldc + to.column, ldc, rows, columns, warp_row, warp_column,
               to.row - to.column);
#endif
}
