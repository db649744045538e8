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
// by the host: BM, BN, BK, WM, WN, STAGES, MIN_BLOCKS; EDGE; PAD_A, PAD_B: padding between rows of the tiles, in elements,
// against bank conflicts. VA, VB: elements of A and of B in one copy: 1, or 16 bytes if aligned. PAIRS: whether two elements
// of C may be stored at once. OFFSET: an integer type that holds distances within a tile. GROUP: rows of tiles that are
// traversed column by column. Optional: IS_SPLIT 1: several blocks compute each tile, a share of `depth` steps of k each;
// they store tiles of BM x BN at `c`, what exists of them, share after share, which fold.cu adds up.
// STAGGER: at how many steps of k tiles begin (stagger.cuh).
// Source: PTX ISA, mma.sync; CUTLASS 2, efficient GEMM in CUDA, for the pipeline of fragments.
#undef K_TAIL
#define K_TAIL FILL
#include "intrinsics.cuh"
#include "mma_intrinsics.cuh"
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
constexpr int STRIDE_A = BK + PAD_A, STRIDE_B = BN + PAD_B;
constexpr int TILE_A = BM * STRIDE_A, TILE_B = BK * STRIDE_B;
// Threads of a row of a tile, rows of a pass, and passes; of B also the parts of a row, where it is longer than a block.
// Threads beyond whole rows copy nothing, nor do rows beyond the tile.
__device__ constexpr int ceiling(int x, int y) { return (x + y - 1) / y; }
constexpr int ACROSS_A = BK / VA, ROWS_A = THREADS / ACROSS_A, PASSES_A = ceiling(BM, ROWS_A);
constexpr int COPIES_B = BN / VB, ACROSS_B = COPIES_B < THREADS ? COPIES_B : THREADS, PARTS_B = ceiling(COPIES_B, ACROSS_B);
constexpr int ROWS_B = THREADS / ACROSS_B, PASSES_B = ceiling(BK, ROWS_B);
constexpr int SIZE_A = VA * sizeof(T), SIZE_B = VB * sizeof(T);

static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 8 == 0, "warps cut the tile evenly");
static_assert(BK % VA == 0 && BN % VB == 0 && ROWS_A > 0, "copies cut rows evenly");
static_assert(BK % (2 * DEPTH) == 0, "an even number of steps, so that each has a fixed buffer");
static_assert(STAGES >= 2, "one tile is used while another is copied");

// Whether a thread copies a row of a tile of ROWS rows, `row` in the first pass.
template <int ROWS, int OF_PASS, int ACROSS> __device__ __forceinline__ bool is_copied(int row, int pass)
{
    return (THREADS % ACROSS == 0 || row < OF_PASS) && (ROWS % OF_PASS == 0 || row + pass * OF_PASS < ROWS);
}

// Whether a thread copies a vector of a row of B, in this part of the row.
__device__ __forceinline__ bool is_in_row(int part)
{
    return COPIES_B % ACROSS_B == 0 || threadIdx.x + part * ACROSS_B < COPIES_B;
}

// Bytes of a vector of WIDTH elements of which `left` exist
template <int WIDTH> __device__ __forceinline__ int size_of(int left)
{
    return max(min(left, WIDTH), 0) * (int)sizeof(T);
}

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
    a += begin, b += (long long)begin * ldb, k = min(k - begin, depth);
    const Tile tile = tile_at<BM, BN, GROUP>(blockIdx.x % tiles_c, m, n);
#else
    const Tile tile = tile_of_block<BM, BN, GROUP>(m, n);
#endif
    DYNAMIC_SHARED(tiles_a);
    T* tiles_b = tiles_a + STAGES * TILE_A;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int warp_row = warp / (BN / WN) * WM, warp_column = warp % (BN / WN) * WN;

    // Addresses are computed once.
    const int column_a = threadIdx.x % ACROSS_A * VA, row_a = threadIdx.x / ACROSS_A;
    const int column_b = threadIdx.x % ACROSS_B * VB, row_b = threadIdx.x / ACROSS_B;
    OFFSET offsets_a[PASSES_A];
#pragma unroll
    for (int pass = 0; pass < PASSES_A; ++pass)
        offsets_a[pass] = (OFFSET)(redirect_row(tile.row + row_a + pass * ROWS_A, m) - tile.row) * lda + column_a;
    int offsets_b[PARTS_B], exist_b[PARTS_B];
#pragma unroll
    for (int part = 0; part < PARTS_B; ++part) {
        const int column = tile.column + column_b + part * ACROSS_B * VB;
        offsets_b[part] = redirect_columns<BN, VB>(column, n) - tile.column;
        exist_b[part] = EDGE == CONDITIONAL ? size_of<VB>(n - column) : SIZE_B;
    }
    const T* next_a = a + (long long)tile.row * lda;
    const T* next_b = b + tile.column;
    T* to_a = tiles_a + row_a * STRIDE_A + column_a;
    T* to_b = tiles_b + row_b * STRIDE_B + column_b;

    // Tiles of k are copied in turn from one on, and after the last one from the first.
    const int tiles = (k + BK - 1) / BK;
    int coming = first_step(IS_SPLIT ? blockIdx.x % TILES_C : blockIdx.x, tiles);
    next_a += coming * BK, next_b += (long long)coming * BK * ldb;

    auto copy_tile = [&](int stage) {
        const int left = k - coming * BK;
        T* stage_a = to_a + stage * TILE_A;
        T* stage_b = to_b + stage * TILE_B;
        if (EDGE == PADDED) {
#pragma unroll
            for (int pass = 0; pass < PASSES_A; ++pass)
                if (is_copied<BM, ROWS_A, ACROSS_A>(row_a, pass))
                    copy_part<SIZE_A>(stage_a + pass * ROWS_A * STRIDE_A, next_a + offsets_a[pass], SIZE_A);
#pragma unroll
            for (int pass = 0; pass < PASSES_B; ++pass)
#pragma unroll
                for (int part = 0; part < PARTS_B; ++part)
                    if (is_copied<BK, ROWS_B, ACROSS_B>(row_b, pass) && is_in_row(part))
                        copy_part<SIZE_B>(stage_b + pass * ROWS_B * STRIDE_B + part * ACROSS_B * VB,
                                          next_b + offsets_b[part] + (OFFSET)(row_b + pass * ROWS_B) * ldb, SIZE_B);
        } else {
            // No byte past the end is read; checking this at every tile is cheaper than two kinds of tiles.
            const int exist_a = size_of<VA>(left - column_a);
#pragma unroll
            for (int pass = 0; pass < PASSES_A; ++pass)
                if (is_copied<BM, ROWS_A, ACROSS_A>(row_a, pass))
                    copy_part<SIZE_A>(stage_a + pass * ROWS_A * STRIDE_A, next_a + offsets_a[pass],
                                      is_inside(tile.row + row_a + pass * ROWS_A, m) ? exist_a : 0);
#pragma unroll
            for (int pass = 0; pass < PASSES_B; ++pass) {
                const int p = row_b + pass * ROWS_B;
#pragma unroll
                for (int part = 0; part < PARTS_B; ++part)
                    if (is_copied<BK, ROWS_B, ACROSS_B>(row_b, pass) && is_in_row(part))
                        copy_part<SIZE_B>(stage_b + pass * ROWS_B * STRIDE_B + part * ACROSS_B * VB,
                                          next_b + offsets_b[part] + (OFFSET)p * ldb, is_step(p, left) ? exist_b[part] : 0);
            }
        }
        next_a += BK;
        next_b += (long long)BK * ldb;
        if (++coming == tiles && STAGGER > 1) coming = 0, next_a -= tiles * BK, next_b -= (long long)tiles * BK * ldb;
    };

    auto load_fragments = [&](int stage, int p, T(*of_a)[OF_A], T(*of_b)[OF_B]) {
        const T* from_a = tiles_a + stage * TILE_A + (warp_row + g) * STRIDE_A + p + t;
        const T* from_b = tiles_b + stage * TILE_B + (p + t) * STRIDE_B + warp_column + g;
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int v = 0; v < OF_A; ++v) of_a[i][v] = from_a[(i * 16 + v % 2 * 8) * STRIDE_A + v / 2 * 4];
#pragma unroll
        for (int j = 0; j < NI; ++j)
#pragma unroll
            for (int v = 0; v < OF_B; ++v) of_b[j][v] = from_b[v * 4 * STRIDE_B + j * 8];
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
