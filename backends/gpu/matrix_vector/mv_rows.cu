// y[i] = (+)_p M[i, p] (x) x[p] of a matrix that is contiguous along p: GROUP threads a row.
//
//   grid     groups of BLOCK / GROUP rows, each shared by `shares` blocks: the share of a block is `depth` steps of p
//   thread   LOADS vectors of WIDTH elements of its row at once, GROUP * WIDTH apart; then the next ones
//   sums     in registers; over the group by shuffles, over several warps in shared memory; over shares in scratch
//
//   X_WIDTH  elements of x that are read at once: WIDTH, or 1 where x is not aligned or has gaps (HAS_GAPS)
//
// WIDTH divides k, depth and, if it is more than 1, step_i; the matrix is aligned to WIDTH elements. Rows past the end are
// those of the last one: their sums are not stored.
//
// Source: lecture notes on GPU programming: a block a row, T rows by Z threads a block; vectorised loads.
#include "shares.cuh"

constexpr int LINES = BLOCK / GROUP;
constexpr int WARPS = BLOCK / 32, WARPS_OF_ROW = GROUP > 32 ? GROUP / 32 : 1;
constexpr int UNROLLED_PARTS = IS_LONG ? 1 : 4;

template <int COUNT> struct alignas(sizeof(T) * COUNT) Elements {
    T x[COUNT];
};

__device__ __forceinline__ Elements<WIDTH> read_x(const T* x, long long step_x, unsigned p)
{
    Elements<WIDTH> values;
#if X_WIDTH > 1
    values = keep((const Elements<WIDTH>*)(x + p));
#else
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) values.x[v] = keep(HAS_GAPS ? x + (p + v) * step_x : x + p + v);
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
    const unsigned begin = (unsigned)share * depth, end = begin + min((unsigned)depth, k - begin);
    const T* row = matrix + (long long)min(i, count - 1) * step_i;
    Sum sum = no_terms();
    for (unsigned p = begin + lane * WIDTH; p < end; p += LOADS * GROUP * WIDTH) {
        Elements<WIDTH> of_row[LOADS], of_x[LOADS];
        const bool is_whole = p + (LOADS - 1) * GROUP * WIDTH < end;  // then no load asks
        if (is_whole) {
#pragma unroll
            for (int u = 0; u < LOADS; ++u) {
                of_row[u] = stream((const Elements<WIDTH>*)(row + p + u * GROUP * WIDTH));
                of_x[u] = read_x(x, step_x, p + u * GROUP * WIDTH);
            }
        } else {
#pragma unroll
            for (int u = 0; u < LOADS; ++u)
                if (p + u * GROUP * WIDTH < end) {
                    of_row[u] = stream((const Elements<WIDTH>*)(row + p + u * GROUP * WIDTH));
                    of_x[u] = read_x(x, step_x, p + u * GROUP * WIDTH);
                }
        }
#pragma unroll
        for (int u = 0; u < LOADS; ++u)
            if (is_whole || p + u * GROUP * WIDTH < end)
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) combine(sum, of_row[u].x[v], of_x[u].x[v], alpha);
    }
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
