// y = A (x) x, A symmetric, of which one triangle is read: each element of it serves two rows.
//
//   y[i] = (+)_j A[i, j] (x) x[j]        A[i, j] = A[j, i]
//
//   grid   strips of the triangle, HEIGHT x STRIP; a block goes along one, SIDE columns at a time
//   warp   ROWS rows of a tile in registers, LANE elements of each in a lane
//   rows   sums over the lanes: a lane passes half of its rows and takes the other half, so that ROWS exchanges do; along
//          the strip one sum of a lane
//   columns  sums over the rows of a warp in registers, over the warps in shared memory
//
// An element left of the diagonal adds to its row and, mirrored, to the row that its column stands for. Sums of rows go to
// `of_strips`, a row of `width` sums for each strip across; those of columns to `of_heights`, one for each HEIGHT of rows.
// `total` adds them up in order, so that every run has the same bits. Long strips leave few sums to write and to read.
//
//   LANE   elements of a row of a tile in a lane      WARPS  of a block
//   WIDTH  of those, elements that one load takes     ROWS   of a warp
//   TILES  of a strip                                 UPPER  1: the triangle above the diagonal is read, else that below
//   RESIDENT  threads of a multiprocessor at once, at least: as many as no register is spilled for
//   HAS_ALPHA, HAS_C, HAS_BETA   D = (alpha A x) + (beta C)
//
// A remains on the left of (x), mirrored or not. Source: Abdelfattah, Keyes, Ltaief, "KBLAS" (2014), symv.
#define EDGE 2 /* PADDED: edges are treated here */
#define TRIANGLE 1
#include "semiring.cuh"
#include "grid.cuh"
#include "streaming.cuh"
#include "lanes.cuh"

constexpr int SIDE = 32 * LANE, THREADS = 32 * WARPS, HEIGHT = WARPS * ROWS, STRIP = TILES * SIDE;
constexpr int BLOCKS = RESIDENT > THREADS ? RESIDENT / THREADS : 1;
static_assert(ROWS <= 32 && (ROWS & (ROWS - 1)) == 0, "rows of a warp are halved");
static_assert(LANE % WIDTH == 0, "a lane has whole loads");
static_assert(STRIP % HEIGHT == 0, "strips begin where rows of blocks do");

// What a warp holds of a tile.
typedef T Part[ROWS][LANE];

// Column in the tile of element v of a lane.
__device__ __forceinline__ int column_of(int v, int lane) { return (v / WIDTH * 32 + lane) * WIDTH + v % WIDTH; }

// Whether element (i, j) is read, and, off the diagonal, whether it also stands for (j, i).
__device__ __forceinline__ bool is_stored(int i, int j, int n) { return UPPER ? i <= j && j < n : j <= i && i < n; }

// Load the part that begins at row `i` and column `j`; all of it is read if the tile is inside of the matrix.
__device__ __forceinline__ void load(Part& part, const T* __restrict__ a, int lda, int i, int j, int n, int lane, bool is_inside)
{
    const T* from = a + (long long)i * lda + j;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int v = 0; v < LANE; v += WIDTH) {
            if (is_inside) {
                const auto run = read_once<WIDTH>(from + (long long)r * lda + column_of(v, lane));
#pragma unroll
                for (int u = 0; u < WIDTH; ++u) part[r][v + u] = run.x[u];
            } else {
#pragma unroll
                for (int u = 0; u < WIDTH; ++u) {
                    const int column = column_of(v + u, lane);
                    part[r][v + u] = is_stored(i + r, j + column, n) ? from[(long long)r * lda + column] : (T)0;
                }
            }
        }
}

// Add a part that begins at row `i` and column `j` to the sums of rows and of columns; `of_rows` and `of_columns`: x.
template <bool IS_INNER>
__device__ __forceinline__ void combine(const Part& part, const T* of_rows, const T (&of_columns)[LANE], T (&rows)[ROWS],
                                        T (&columns)[LANE], int i, int j, int n, int lane, T alpha)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        rows[r] = ZERO;
#pragma unroll
        for (int v = 0; v < LANE; ++v) {
            const int column = j + column_of(v, lane);
            if (!IS_INNER && !is_stored(i + r, column, n)) continue;
            const T element = HAS_ALPHA ? MULTIPLY(alpha, part[r][v]) : part[r][v];
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

// Where the tiles of a row of blocks begin and end that are in the triangle, by its first row; `columns` is their number.
__device__ __forceinline__ int first_of(int row) { return UPPER ? row / SIDE * SIDE : 0; }
__device__ __forceinline__ int end_of(int row, int columns) { return UPPER ? columns : min(row + HEIGHT, columns); }

// Strips on the diagonal come first, one for each row of blocks, since their tiles take longest. Those left of them follow, row
// by row.
__device__ __forceinline__ Tile strip_of_number(int number, int rows)
{
    const int on_diagonal = (rows + HEIGHT - 1) / HEIGHT;
    if (number < on_diagonal) return Tile{number * HEIGHT, number * HEIGHT / STRIP * STRIP};
    const Tile below = tile_at<HEIGHT, STRIP, 1>(number - on_diagonal, rows - STRIP, rows - STRIP);
    return Tile{below.row + STRIP, below.column};
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    strips(const T* __restrict__ a, int lda, const T* __restrict__ x, int step_x, T* __restrict__ of_strips,
           T* __restrict__ of_heights, int width, int n, T alpha)
{
    // The upper triangle is the lower one, turned by 180 degrees.
    const Tile strip = strip_of_number(blockIdx.x, UPPER ? width : n);
    const int row = UPPER ? width - HEIGHT - strip.row : strip.row, left = UPPER ? width - STRIP - strip.column : strip.column;
    if (row >= n) return;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = row + warp * ROWS;
    const int begin = max(left, first_of(row)), end = min(left + STRIP, end_of(row, n));
    __shared__ T of_warps[2][WARPS][SIDE], of_x[HEIGHT + STRIP];  // of x: for the rows of the block, and for its columns
    constexpr int EACH = (HEIGHT + STRIP + THREADS - 1) / THREADS;
    // Asked for before A, and put down once the first tile has been asked for: A waits for nothing.
    T own[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int q = threadIdx.x + e * THREADS, p = q < HEIGHT ? row + q : left + q - HEIGHT;
        own[e] = q < HEIGHT + STRIP && p < n ? x[(long long)p * step_x] : (T)0;
    }
    T of_strip = ZERO;

    int turn = 0;
#pragma unroll 1
    for (int j = begin; j < end; j += SIDE, turn = 1 - turn) {
        Part part;
        load(part, a, lda, i, j, n, lane, row + HEIGHT <= n && j + SIDE <= n);
        if (j == begin) {
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                if (threadIdx.x + e * THREADS < HEIGHT + STRIP) of_x[threadIdx.x + e * THREADS] = own[e];
            __syncthreads();
        }
        T rows[ROWS], columns[LANE], of_columns[LANE];
#pragma unroll
        for (int v = 0; v < LANE; ++v) columns[v] = ZERO, of_columns[v] = of_x[HEIGHT + j - left + column_of(v, lane)];
        const bool is_inner = UPPER ? j >= row + HEIGHT && j + SIDE <= n : j + SIDE <= row && row + HEIGHT <= n;
        if (is_inner) combine<true>(part, of_x + warp * ROWS, of_columns, rows, columns, i, j, n, lane, alpha);
        else combine<false>(part, of_x + warp * ROWS, of_columns, rows, columns, i, j, n, lane, alpha);
        sum_over_lanes(rows, lane);
        of_strip = ADD(of_strip, rows[0]);
        // Two buffers: whoever writes one has met all who read it.
#pragma unroll
        for (int v = 0; v < LANE; ++v) of_warps[turn][warp][column_of(v, lane)] = columns[v];
        __syncthreads();
        for (int q = threadIdx.x; q < SIDE; q += THREADS) {
            T sum = of_warps[turn][0][q];
#pragma unroll
            for (int w = 1; w < WARPS; ++w) sum = ADD(sum, of_warps[turn][w][q]);
            of_heights[(long long)(row / HEIGHT) * width + j + q] = sum;
        }
    }
    if (lane % (32 / ROWS) == 0) of_strips[(long long)(left / STRIP) * width + i + lane / (32 / ROWS)] = of_strip;
}

constexpr int GROUPS = 8;  // of 32 threads, which share the sums of 32 elements
constexpr int AT_ONCE = 8;  // loads of a thread that are on their way together

// y := the sum of the parts of each element, with alpha A x's C
extern "C" __global__ void __launch_bounds__(32 * GROUPS)
    total(const T* __restrict__ of_strips, const T* __restrict__ of_heights, int width, const T* c, int step_c, T* y, int step_y,
          int n, T beta)
{
    __shared__ T sums[GROUPS][32];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32, first = blockIdx.x * 32, i = first + lane;
    const int row = first / HEIGHT * HEIGHT, tile = first / SIDE * SIDE;
    // Strips of this row, and rows of blocks whose tiles have this column.
    const int strip = first_of(row) / STRIP, strips = (end_of(row, n) - 1) / STRIP + 1 - strip;
    const int height = UPPER ? 0 : tile / HEIGHT, heights = (UPPER ? min(tile + SIDE, n) - 1 : n - 1) / HEIGHT + 1 - height;
    const T* by_strips = of_strips + (long long)strip * width + i;
    const T* by_heights = of_heights + (long long)(height - strips) * width + i;
    T sum = ZERO, part[AT_ONCE];
    for (int begin = group; begin < strips + heights; begin += AT_ONCE * GROUPS) {
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            const int q = begin + u * GROUPS;
            if (q < strips + heights) part[u] = (q < strips ? by_strips : by_heights)[(long long)q * width];
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u)
            if (begin + u * GROUPS < strips + heights) sum = ADD(sum, part[u]);
    }
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
