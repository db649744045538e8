// y[i] = (+)_p M[i, p] (x) x[p] of a matrix that is contiguous along p: GROUP threads a row.
//
//   grid     groups of BLOCK / GROUP rows, each shared by `shares` blocks: the share of a block is `depth` steps of p
//   thread   LOADS vectors of WIDTH elements of its row at once, GROUP * WIDTH apart; then the next ones
//   sums     in registers; over the group by shuffles, over several warps in shared memory; over shares in scratch
//
//   X_WIDTH  elements of x that are read at once: WIDTH, or 1 where x is not aligned or has gaps (HAS_GAPS)
//   SHIFTED  0: WIDTH divides k and, if it is more than 1, step_i; the matrix is aligned to WIDTH elements
//            1: rows begin and end anywhere. Vectors begin at the first multiple of their size in a row; the elements
//            before it are terms of the first threads, and those of the last vector behind the row are not used; behind
//            the last row they are not read
//
// WIDTH divides depth. Rows past the end are those of the last one: their sums are not stored.
//
// Source: lecture notes on GPU programming: a block a row, T rows by Z threads a block; vectorised loads.
#include "shares.cuh"

constexpr int LINES = BLOCK / GROUP;
constexpr int WARPS = BLOCK / 32, WARPS_OF_ROW = GROUP > 32 ? GROUP / 32 : 1;
constexpr int UNROLLED_PARTS = IS_LONG ? 1 : 4;
constexpr unsigned NOWHERE = 0xffffffffu;
static_assert(!SHIFTED || GROUP >= WIDTH - 1, "a thread for each element before the first vector");

template <int COUNT> struct alignas(sizeof(T) * COUNT) Elements {
    T x[COUNT];
};

// Up to WIDTH elements of x; those of `end` and more are not read
__device__ __forceinline__ Elements<WIDTH> read_x(const T* x, long long step_x, unsigned p, unsigned end = NOWHERE)
{
    Elements<WIDTH> values;
#if X_WIDTH > 1
    values = keep((const Elements<WIDTH>*)(x + p));
#else
#pragma unroll
    for (int v = 0; v < WIDTH; ++v)
        if (!SHIFTED || end == NOWHERE || p + v < end) values.x[v] = keep(HAS_GAPS ? x + (p + v) * step_x : x + p + v);
#endif
    return values;
}

// The sum over the threads of a row, for all of them
__device__ __forceinline__ Sum of_row(Sum sum)
{
#pragma unroll
    for (int offset = (GROUP < 32 ? GROUP : 32) / 2; offset; offset /= 2) sum = joined(sum, shuffle_xor(sum, offset));
    if (GROUP <= 32) return sum;
    __shared__ Sum of_warps[WARPS];
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    const int first = threadIdx.x / GROUP * WARPS_OF_ROW;
    sum = of_warps[first];
    for (int w = 1; w < WARPS_OF_ROW; ++w) sum = joined(sum, of_warps[first + w]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    mv_rows(MATRIX_VECTOR_PARAMETERS, Sum* parts, unsigned* tickets, int shares, int depth)
{
    const int lane = threadIdx.x % GROUP, block = blockIdx.x / shares, share = blockIdx.x % shares;
    const int i = block * LINES + threadIdx.x / GROUP;
    const T* row = matrix + (long long)min(i, count - 1) * step_i;
    // Elements of the row before its first vector, and the share of this block behind them
    const unsigned head = SHIFTED ? min((unsigned)(-((size_t)row / sizeof(T)) % WIDTH), (unsigned)k) : 0;
    const unsigned begin = min(head + (unsigned)share * depth, (unsigned)k), end = begin + min((unsigned)depth, k - begin);
    // The last vector of a row may go beyond the matrix: then its elements come one by one, after the others
    const bool is_within = !SHIFTED || (count - 1 - i) * step_i >= WIDTH - 1;
    const unsigned whole = is_within ? end : end - (end - begin) % WIDTH;
    const int after = (whole - begin) / WIDTH % GROUP == lane ? end - whole : 0;
    Sum sum = no_terms();
    const bool has_head = SHIFTED && share == 0 && lane < head;
    T of_head, of_x_head;
    if (has_head) of_head = stream(row + lane), of_x_head = keep(HAS_GAPS ? x + lane * step_x : x + lane);
    for (unsigned p = begin + lane * WIDTH; p < whole; p += LOADS * GROUP * WIDTH) {
        Elements<WIDTH> of_row[LOADS], of_x[LOADS];
        // Then no load asks
        const bool is_whole = p + (LOADS - 1) * GROUP * WIDTH + (SHIFTED ? WIDTH - 1 : 0) < whole;
        if (is_whole) {
#pragma unroll
            for (int u = 0; u < LOADS; ++u) {
                of_row[u] = stream((const Elements<WIDTH>*)(row + p + u * GROUP * WIDTH));
                of_x[u] = read_x(x, step_x, p + u * GROUP * WIDTH);
            }
        } else {
#pragma unroll
            for (int u = 0; u < LOADS; ++u)
                if (p + u * GROUP * WIDTH < whole) {
                    of_row[u] = stream((const Elements<WIDTH>*)(row + p + u * GROUP * WIDTH));
                    of_x[u] = read_x(x, step_x, p + u * GROUP * WIDTH, whole);
                }
        }
#pragma unroll
        for (int u = 0; u < LOADS; ++u)
            if (is_whole || p + u * GROUP * WIDTH < whole)
#pragma unroll
                for (int v = 0; v < WIDTH; ++v)
                    if (!SHIFTED || is_whole || p + u * GROUP * WIDTH + v < whole)
                        combine(sum, of_row[u].x[v], of_x[u].x[v], alpha);
    }
#pragma unroll 1
    for (unsigned p = whole; SHIFTED && p < whole + after; ++p)
        combine(sum, stream(row + p), keep(HAS_GAPS ? x + p * step_x : x + p), alpha);
    if (has_head) combine(sum, of_head, of_x_head, alpha);
    sum = of_row(sum);
    const bool is_first = lane == 0 && i < count;
    if (shares == 1) {
        if (is_first) finish(i, sum, RESULT_ARGUMENTS);
        return;
    }
    if (is_first) parts[(long long)share * count + i] = sum;
    if (!is_last_share(tickets + block, shares)) return;
    sum = no_terms();
    if (i < count)
#pragma unroll UNROLLED_PARTS
        for (int q = lane; q < shares; q += GROUP) sum = joined(sum, fresh(parts + (long long)q * count + i));
    sum = of_row(sum);
    if (is_first) finish(i, sum, RESULT_ARGUMENTS);
}
