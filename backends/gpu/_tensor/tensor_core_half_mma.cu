// C := alpha A B, or C + alpha A B, with A and B in bfloat16 or float16 and sums in float32, for products that move more
// than they compute: mma.sync, tiles by cp.async, clusters of blocks that share k.
//
//   grid    a cluster for each tile of C, BM x BN, and each share of k; its CLUSTER blocks share the steps of the share
//   block   STAGES tiles of A and B along k in shared memory, BK steps each; the first is used while others are copied
//   warps   WM x WN of the tile; SLICES of them for the same part, each of which takes some of the steps
//   end     sums meet in shared memory. Each block adds up and stores its part of the tile, in the order of the blocks of
//           the cluster and of their slices: the result is the same in every run, and no second launch is needed
//
// Rows may begin anywhere. Where they do (UNIT_A, UNIT_B), whole granules of 16 bytes are copied, from the one in which a
// row of the tile begins. Fragments then are read from as many bytes further on as the row begins in its granule: 14 bytes
// before a row are read from memory and not used. What lies beyond the end of k and n is zero, and beyond the end of a
// matrix nothing is read.
//
// Defined by the host: BM, BN, BK, WM, WN, SLICES, STAGES, MIN_BLOCKS, CLUSTER, GROUP, KIND; UNIT_A: bytes, 16, 4 or 2,
// whose multiples all rows of A begin at; UNIT_B the same, 16 or 2; WIDTH: elements of C that are stored at once, 4 or 1;
// ACCUMULATE. Optional: IS_SPLIT 1: `shares` of k for each tile, each stored as a tile of BM x BN at `c`, share after share,
// which fold.cu adds up.
//
// Source: PTX ISA, mma.sync, ldmatrix, distributed shared memory; CUTLASS 2, "slice-K".
#define T unsigned char
#include "intrinsics.cuh"
#include "mma_intrinsics.cuh"
#include "half_intrinsics.cuh"
#include "tma.cuh"
#include "cluster_sums.cuh"
#include "grid.cuh"

#ifndef IS_SPLIT
#define IS_SPLIT 0
#endif

constexpr int STEP = 16, BYTES = 2, GRANULE = 16, PER_GRANULE = GRANULE / BYTES;
constexpr int ACROSS = BN / WN, THREADS = 32 * (BM / WM) * ACROSS * SLICES, MI = WM / 16, NI = WN / 8;
constexpr bool MOVES_A = UNIT_A < GRANULE, MOVES_B = UNIT_B < GRANULE;
// Rows of the tiles, in bytes. The granule more avoids bank conflicts, or holds the end of a row.
constexpr int STRIDE_A = BK * BYTES + GRANULE, STRIDE_B = BN * BYTES + GRANULE;
constexpr int TILE_A = BM * STRIDE_A, STAGE = TILE_A + BK * STRIDE_B;
constexpr int PITCH = BN + 8;  // of the rows of sums

static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 8 == 0, "warps cut the tile evenly");
static_assert(BK % (STEP * SLICES) == 0, "slices have the same number of steps");
static_assert(STAGES >= 2, "one tile is used while another is copied");

__device__ __forceinline__ int shift_of(const T* row) { return (int)((unsigned long long)row % GRANULE); }

// Copies of tiles of ROWS rows of BYTES_ bytes, `ld` bytes apart in memory and STRIDE in a tile. A thread has one granule of
// every STEP_-th row. All its rows begin alike in a granule, and those of a tile further on do, too.
template <int ROWS, int BYTES_, int STRIDE, bool MOVES> struct Copies {
    static constexpr int ACROSS_ = BYTES_ / GRANULE, STEP_ = THREADS / ACROSS_, PASSES = (ROWS + STEP_ - 1) / STEP_;
    static_assert(BYTES_ % GRANULE == 0 && THREADS % ACROSS_ == 0 && STEP_ % 8 == 0, "threads have whole rows, all alike");
    const T *x, *end;  // where the first tile begins, and where the matrix ends
    long long ld;
    int row, granule, shift;

    __device__ __forceinline__ Copies(const T* x, const T* end, long long ld)
        : x(x), end(end), ld(ld), row(threadIdx.x / ACROSS_), granule(threadIdx.x % ACROSS_),
          shift(MOVES ? shift_of(x + row * ld) : 0)
    {
    }

    // Copy granule `index` of a row of `bytes`, and zeros beyond it; of one that ends beyond the matrix zeros alone (Rest).
    __device__ __forceinline__ void copy(T* to, const T* from, int shift, int index, int bytes) const
    {
        const int size = max(min(shift + bytes - index * GRANULE, GRANULE), 0);
        from += index * GRANULE;
        copy_part<GRANULE>(to + index * GRANULE, from, from + GRANULE <= end ? size : 0);
    }

    // Copy the tile `begin` bytes further on, of which there are `rows` of `bytes`.
    __device__ __forceinline__ void copy_tile(T* to, long long begin, int rows, int bytes) const
    {
        const T* from = x + begin + row * ld - shift;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int r = row + pass * STEP_;
            if (ROWS % STEP_ && r >= ROWS) break;
            copy(to + r * STRIDE, from + pass * STEP_ * ld, shift, granule, r < rows ? bytes : -GRANULE);
        }
        if (!MOVES) return;
#pragma unroll
        for (int pass = 0; pass < (ROWS + THREADS - 1) / THREADS; ++pass) {  // the granule more
            const int r = threadIdx.x + pass * THREADS;
            if (r >= ROWS) break;
            const T* begins = x + begin + r * ld;
            copy(to + r * STRIDE, begins - shift_of(begins), shift_of(begins), ACROSS_, r < rows ? bytes : -GRANULE);
        }
    }
};

// What a matrix holds of the granule in which it ends, an element for each of eight threads. No copy takes that granule: a copy
// of a part counts as one of all of it. It is asked for first, and put into its tile when copies have come.
struct Rest {
    int row, column;  // from where the first tile begins; a row of -1: none
    unsigned short value;

    // Thread `place` of those that have one. The matrix ends at `end`, and there has `rows` rows of `columns` elements.
    __device__ __forceinline__ Rest(const T* end, long long ld, int rows, int columns, int place) : row(-1), column(0), value(0)
    {
        const T* x = (const T*)((size_t)(end - 1) / GRANULE * GRANULE) + place * BYTES;
        const int after = (int)(end - x) / BYTES;  // elements from this one on
        if (after <= 0 || shift_of(end) == 0) return;
        row = rows - 1, column = columns - after;
        for (; column < 0 && row >= 0; --row) column += (int)(ld / BYTES);
        if (column >= columns) row = -1;  // in a gap between rows
        if (row >= 0) value = *(const unsigned short*)x;
    }
};

// Two elements that are neighbours in memory, or lie `apart`
__device__ __forceinline__ unsigned two_at(const T* x, int apart = BYTES)
{
    return *(const unsigned short*)x | (unsigned)*(const unsigned short*)(x + apart) << 16;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) IN_CLUSTER(CLUSTER)
    gemm(const T* __restrict__ a, const T* __restrict__ b, float* __restrict__ c, int m, int n, int k, int lda, int ldb,
         int ldc, float alpha, int tiles_c, int depth)
{
    DYNAMIC_SHARED(memory);
    const int rank = rank_in_cluster(), index = blockIdx.x / CLUSTER;
    const Tile tile = tile_at<BM, BN, GROUP>(index % tiles_c, m, n);
    const int first = (index / tiles_c * CLUSTER + rank) * depth * BK;  // step of k
    const int steps = max(min(k - first, depth * BK), 0), tiles = (steps + BK - 1) / BK;
    const int rows = min(m - tile.row, BM), columns = min(n - tile.column, BN);
    const T *a_end = a + ((long long)(m - 1) * lda + k) * BYTES, *b_end = b + ((long long)(k - 1) * ldb + n) * BYTES;
    a += ((long long)tile.row * lda + first) * BYTES;
    b += ((long long)first * ldb + tile.column) * BYTES;

    const Copies<BM, BK * BYTES, STRIDE_A, MOVES_A> of_rows(a, a_end, (long long)lda * BYTES);
    const Copies<BK, BN * BYTES, STRIDE_B, MOVES_B> of_columns(b, b_end, (long long)ldb * BYTES);
    // Which tile the element of this thread belongs to, and where: the first threads have those of A, the next those of B.
    const bool is_of_b = threadIdx.x >= PER_GRANULE;
    const int left_k = k - first;
    int rest_tile = -1, rest_at = 0;
    unsigned short rest_value = 0;
    const bool has_rest = m - tile.row - rows < PER_GRANULE && shift_of(a_end) != 0 ||
                          n - tile.column - columns < PER_GRANULE && shift_of(b_end) != 0;
    if (has_rest && threadIdx.x < 2 * PER_GRANULE) {
        const Rest rest(is_of_b ? b_end : a_end, is_of_b ? of_columns.ld : of_rows.ld, is_of_b ? left_k : m - tile.row,
                        is_of_b ? n - tile.column : left_k, threadIdx.x % PER_GRANULE);
        const int p = is_of_b ? rest.row : rest.column, across = is_of_b ? rest.column : rest.row;
        if (rest.row >= 0 && p >= 0 && p < steps && across >= 0 && across < (is_of_b ? columns : rows)) {
            const int in_tile = p % BK;
            rest_tile = p / BK, rest_value = rest.value;
            rest_at = is_of_b ? TILE_A + in_tile * STRIDE_B + across * BYTES + (MOVES_B ? shift_of(b + p * of_columns.ld) : 0)
                              : across * STRIDE_A + in_tile * BYTES + (MOVES_A ? shift_of(a + across * of_rows.ld) : 0);
        }
    }
    auto copy_tile = [&](int number) {
        const int begin = number * BK, left = min(steps - begin, BK);
        T* to = memory + number % STAGES * STAGE;
        of_rows.copy_tile(to, begin * BYTES, rows, left * BYTES);
        of_columns.copy_tile(to + TILE_A, begin * of_columns.ld, left, columns * BYTES);
    };

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int slice = warp % SLICES, warp_row = warp / SLICES / ACROSS * WM, warp_column = warp / SLICES % ACROSS * WN;

    // Where in a tile a lane reads: of rows that begin anywhere, as many bytes further on as they begin in a granule. A tile
    // further along k that is the same, since its steps are whole granules, and eight rows of B are.
    int at_a[MI][2], at_b[2];
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_row + i * 16 + half * 8 + g;
            at_a[i][half] = row * STRIDE_A + 4 * t + (MOVES_A ? shift_of(a + row * of_rows.ld) : 0);
        }
#pragma unroll
    for (int half = 0; half < 2; ++half)
        at_b[half] = TILE_A + (2 * t + half) * STRIDE_B + (warp_column + g) * BYTES +
                     (MOVES_B ? shift_of(b + (2 * t + half) * of_columns.ld) : 0);

    // The fragments of a step of a slice.
    auto load_fragments = [&](const T* stage, int step, unsigned(*of_a)[4], unsigned(*of_b)[2]) {
        const int p = (step * SLICES + slice) * STEP;
#pragma unroll
        for (int i = 0; i < MI; ++i) {
            if (!MOVES_A) {
                load_matrices(of_a[i], stage + (warp_row + i * 16 + lane % 16) * STRIDE_A + (p + lane / 16 * 8) * BYTES);
                continue;
            }
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const T* from = stage + at_a[i][v % 2] + (p + v / 2 * 8) * BYTES;
                of_a[i][v] = UNIT_A == 4 ? *(const unsigned*)from : two_at(from);
            }
        }
        const T* row = stage + TILE_A + (p + lane % 16) * STRIDE_B + warp_column * BYTES;
#pragma unroll
        for (int j = 0; j < NI; ++j) {
            if (MOVES_B) {
#pragma unroll
                for (int v = 0; v < 2; ++v)
                    of_b[j][v] = two_at(stage + at_b[0] + (p + 8 * v) * STRIDE_B + j * 8 * BYTES, at_b[1] - at_b[0]);
            } else if (j + 1 < NI) {
                if (j % 2 == 0) load_transposed(of_b[j], row + (j + lane / 16) * 8 * BYTES);
            } else if (NI % 2) load_two_transposed(of_b[j], row + j * 8 * BYTES);
        }
    };

    float sums[MI][NI][4] = {};
    constexpr int STEPS = BK / STEP / SLICES;
    auto compute_tile = [&](const T* stage) {
        unsigned of_a[2][MI][4], of_b[2][NI + NI % 2][2];
        load_fragments(stage, 0, of_a[0], of_b[0]);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 < STEPS) load_fragments(stage, step + 1, of_a[1 - step % 2], of_b[1 - step % 2]);
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int j = 0; j < NI; ++j) mma_half(sums[i][j], of_a[step % 2][i], of_b[step % 2][j]);
        }
    };

#pragma unroll
    for (int number = 0; number < STAGES - 1; ++number) {
        if (number < tiles) copy_tile(number);
        commit_copies();
    }
    for (int number = 0; number < tiles; ++number) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (has_rest && number + 2 >= tiles) {
            if (rest_tile == number) *(unsigned short*)(memory + number % STAGES * STAGE + rest_at) = rest_value;
            __syncthreads();
        }
        if (number + STAGES - 1 < tiles) copy_tile(number + STAGES - 1);
        commit_copies();
        compute_tile(memory + number % STAGES * STAGE);
    }

    // The sums of the block, a tile of each slice, in place of A and B
    __syncthreads();
    float* parts = (float*)memory;
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < NI; ++j) {
                float* to = parts + (slice * BM + warp_row + i * 16 + half * 8 + g) * PITCH + warp_column + j * 8 + 2 * t;
                to[0] = sums[i][j][2 * half], to[1] = sums[i][j][2 * half + 1];
            }
    meet_cluster();

    // Each block adds up and stores its part of the tile.
#if IS_SPLIT
    c += (long long)index * (BM * BN), ldc = BN;
#else
    c += (long long)tile.row * ldc + tile.column;
#endif
    add_up<BM, BN, PITCH, SLICES, THREADS>(parts, rank, threadIdx.x, c, ldc, rows, columns, alpha);
    if (CLUSTER > 1) meet_cluster();  // no block exits while others read its sums
}
