// y = A (x) x, A symmetric, of which one triangle is read: each element of it serves two rows.
//
//   y[i] = (+)_j A[i, j] (x) x[j]        A[i, j] = A[j, i]
//
//   grid   tiles of the triangle, SIDE x SIDE; a warp holds ROWS rows of a tile in registers, LANE elements of each in a lane
//   rows   sums over the lanes: a lane passes half of its rows and takes the other half, so that ROWS exchanges do
//   columns  sums over the rows of a warp in registers, over the warps in shared memory
//
// An element left of the diagonal adds to its row and, mirrored, to the row that its column stands for. Both sums of a tile
// go to `parts`, each to a place of its own; `total` adds them up in order, so that every run has the same bits.
//
//   LANE   elements of a row of a tile in a lane      WARPS  of a block
//   WIDTH  of those, elements that one load takes     UPPER  1: the triangle above the diagonal is read, else that below
//   HAS_ALPHA, HAS_C, HAS_BETA   D = (alpha A x) + (beta C)
//
// A remains on the left of (x), mirrored or not. Source: Abdelfattah, Keyes, Ltaief, "KBLAS" (2014), symv.
#define EDGE 2 /* PADDED: edges are treated here */
#define TRIANGLE 1
#include "semiring.cuh"
#include "grid.cuh"
#include "streaming.cuh"
#include "lanes.cuh"

constexpr int SIDE = 32 * LANE, ROWS = SIDE / WARPS, THREADS = 32 * WARPS;
// Blocks of a multiprocessor at once, at least: those that have so many threads, of which no register is spilled.
constexpr int BLOCKS = (sizeof(T) == 8 ? 1536 : sizeof(T) == 4 ? 1024 : THREADS) / THREADS;
static_assert(ROWS * WARPS == SIDE && ROWS <= 32 && (ROWS & (ROWS - 1)) == 0, "rows of a warp are halved");
static_assert(LANE % WIDTH == 0, "a lane has whole loads");

// Column in the tile of element v of a lane.
__device__ __forceinline__ int column_of(int v, int lane) { return (v / WIDTH * 32 + lane) * WIDTH + v % WIDTH; }

// Whether element (i, j) is read, and, off the diagonal, whether it also stands for (j, i).
__device__ __forceinline__ bool is_stored(int i, int j, int n) { return UPPER ? i <= j && j < n : j <= i && i < n; }

// Add the elements of a warp's rows to the sums of rows and of columns; `i` and `j`: the first row, and the tile's column.
template <bool IS_INNER>
__device__ __forceinline__ void combine(const T (&e)[ROWS][LANE], const T* of_rows, const T (&of_columns)[LANE], T (&rows)[ROWS],
                                        T (&columns)[LANE], int i, int j, int n, int lane, T alpha)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        rows[r] = ZERO;
#pragma unroll
        for (int v = 0; v < LANE; ++v) {
            const int column = j + column_of(v, lane);
            if (!IS_INNER && !is_stored(i + r, column, n)) continue;
            const T element = HAS_ALPHA ? MULTIPLY(alpha, e[r][v]) : e[r][v];
            COMBINE(rows[r], element, of_columns[v]);
            if (IS_INNER || column != i + r) COMBINE(columns[v], element, of_rows[r]);
        }
    }
}

// Sum each of the ROWS over the lanes: afterwards lane l has row l / (32 / ROWS) in rows[0].
__device__ __forceinline__ void sum_over_lanes(T (&rows)[ROWS], int lane)
{
    int across = 16;
#pragma unroll
    for (int half = ROWS / 2; half >= 1; half /= 2, across /= 2)
#pragma unroll
        for (int r = 0; r < half; ++r) {
            const bool is_upper = lane & across;
            const T kept = is_upper ? rows[r + half] : rows[r], passed = is_upper ? rows[r] : rows[r + half];
            rows[r] = ADD(kept, of_lane_across(passed, across));
        }
#pragma unroll
    for (; across; across /= 2) rows[0] = ADD(rows[0], of_lane_across(rows[0], across));
}

// Tiles on the diagonal come first, since they take longest: they load whole rows and use half, which is faster than loads of
// single elements. Those below them follow, row by row.
__device__ __forceinline__ Tile tile_of_number(int number, int across, int n)
{
    if (number < across) return Tile{number * SIDE, number * SIDE};
    const Tile below = tile_at<SIDE, SIDE, 1>(number - across, n - SIDE, n - SIDE);
    return Tile{below.row + SIDE, below.column};
}

// `parts`: for each block of SIDE rows a row of `width` sums, those that its elements of x contribute to.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tiles(const T* __restrict__ a, int lda, const T* __restrict__ x, int step_x, T* __restrict__ parts, int width, int n,
          T alpha)
{
    const Tile tile = tile_of_number(blockIdx.x, width / SIDE, n);
    const int row = UPPER ? tile.column : tile.row, column = UPPER ? tile.row : tile.column;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * ROWS, i = row + first;
    const bool is_inside = tile.row + SIDE <= n, is_inner = is_inside && tile.row != tile.column;
    __shared__ T of_warps[WARPS][SIDE], of_rows[SIDE], x_of_rows[SIDE], x_of_columns[SIDE];
    T e[ROWS][LANE], of_columns[LANE], rows[ROWS], columns[LANE];
    // x before A: its loads wait for none of those
    for (int q = threadIdx.x; q < 2 * SIDE; q += THREADS) {
        const int p = q < SIDE ? row + q : column + q - SIDE;
        const T element = p < n ? x[(long long)p * step_x] : (T)0;
        (q < SIDE ? x_of_rows : x_of_columns)[q % SIDE] = element;
    }
    const T* from = a + (long long)i * lda + column;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int v = 0; v < LANE; v += WIDTH) {
            if (is_inside) {
                const auto run = read_once<WIDTH>(from + (long long)r * lda + column_of(v, lane));
#pragma unroll
                for (int u = 0; u < WIDTH; ++u) e[r][v + u] = run.x[u];
            } else {
#pragma unroll
                for (int u = 0; u < WIDTH; ++u) {
                    const int j = column_of(v + u, lane);
                    e[r][v + u] = is_stored(i + r, column + j, n) ? from[(long long)r * lda + j] : (T)0;
                }
            }
        }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < LANE; ++v) of_columns[v] = x_of_columns[column_of(v, lane)], columns[v] = ZERO;
    if (is_inner) combine<true>(e, x_of_rows + first, of_columns, rows, columns, i, column, n, lane, alpha);
    else combine<false>(e, x_of_rows + first, of_columns, rows, columns, i, column, n, lane, alpha);
    sum_over_lanes(rows, lane);
    if (lane % (32 / ROWS) == 0) of_rows[first + lane / (32 / ROWS)] = rows[0];
#pragma unroll
    for (int v = 0; v < LANE; ++v) of_warps[warp][column_of(v, lane)] = columns[v];
    __syncthreads();
    for (int q = threadIdx.x; q < SIDE; q += THREADS) {
        T sum = of_warps[0][q];
#pragma unroll
        for (int w = 1; w < WARPS; ++w) sum = ADD(sum, of_warps[w][q]);
        if (row == column) sum = ADD(of_rows[q], sum);
        else parts[(long long)(column / SIDE) * width + row + q] = of_rows[q];
        parts[(long long)(row / SIDE) * width + column + q] = sum;
    }
}

constexpr int GROUPS = 8;  // of 32 threads, which share the parts of 32 elements

// y := the sum of its `blocks` parts, with alpha A x's C
extern "C" __global__ void __launch_bounds__(32 * GROUPS)
    total(const T* __restrict__ parts, int width, int blocks, const T* c, int step_c, T* y, int step_y, int n, T beta)
{
    __shared__ T sums[GROUPS][32];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32, i = blockIdx.x * 32 + lane;
    T sum = ZERO;
#pragma unroll 8
    for (int block = group; block < blocks; block += GROUPS) sum = ADD(sum, parts[(long long)block * width + i]);
    sums[group][lane] = sum;
    __syncthreads();
    if (group > 0 || i >= n) return;
#pragma unroll
    for (int g = 1; g < GROUPS; ++g) sum = ADD(sum, sums[g][lane]);
#if HAS_C
    const T before = c[(long long)i * step_c], term = HAS_BETA ? MULTIPLY(beta, before) : before;
    sum = ADD(ADD(ZERO, term), sum);
#endif
    y[(long long)i * step_y] = sum;
}
