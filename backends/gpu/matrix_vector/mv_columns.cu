// y[j] = (+)_p M[j, p] (x) x[p] of a matrix that is contiguous along j: threads side by side, 16 bytes each.
//
//   grid     windows of `width` elements of y, each shared by `shares` blocks: the share of a block is `depth` steps of p
//   thread   `slots` of them side by side, in `lines` lines: WIDTH elements of y, and of p every `lines`-th
//   loop     over p by LOADS * lines: LOADS vectors of 16 bytes at once
//   sums     in registers; over the lines in shared memory, as a tree; over shares in scratch
//
// A line may begin anywhere: a thread reads the granules of 16 bytes that the window of its lines touches, and those lines
// all begin at the same distance from a granule, since `lines` times the distance of lines is a multiple of it. What a
// granule holds outside of the window is read and never used. It shares 16 bytes with an element that is: no other page.
//
// Source: lecture notes on GPU programming: coalesced access; vectorised loads.
#include "shares.cuh"

constexpr int MOST_SUMS = BLOCK * WIDTH;
constexpr int UNROLLED_PARTS = IS_LONG ? 1 : 8;

struct alignas(sizeof(T) * WIDTH) Granule {
    T x[WIDTH];
};

// sums[j] := the sum over `lines` lines of `width` sums, one behind the other; ends with a barrier
__device__ __forceinline__ void add_lines(Sum* sums, int lines, int width)
{
    for (int half; lines > 1; lines = half) {
        half = (lines + 1) / 2;
        __syncthreads();
        for (int e = threadIdx.x; e < (lines - half) * width; e += BLOCK) sums[e] = joined(sums[e], sums[e + half * width]);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(BLOCK) mv_columns(MATRIX_VECTOR_PARAMETERS, Sum* parts, unsigned* tickets,
                                                               int shares, int depth, int width, int slots, int lines)
{
    __shared__ Sum sums[MOST_SUMS];
    const int window = blockIdx.x / shares, share = blockIdx.x % shares;
    const int slot = threadIdx.x % slots, line = threadIdx.x / slots;
    const int first = window * width, mine = min(width, count - first);
    const unsigned begin = (unsigned)share * depth, end = begin + min((unsigned)depth, k - begin);

    const T* start = matrix + (long long)(begin + line) * step_p + first;
    const int j = slot * WIDTH - (int)((size_t)start / sizeof(T) % WIDTH);  // of its first element, in the window
    Sum own[WIDTH];
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) own[v] = no_terms();
    if (line < lines && j < mine) {
        const T* granule = start + j;
        for (unsigned p = begin + line; p < end; p += LOADS * lines, granule += LOADS * lines * step_p) {
            Granule of_matrix[LOADS];
            T of_x[LOADS];
            const bool is_whole = p + (LOADS - 1) * lines < end;  // then no load asks
            if (is_whole) {
#pragma unroll
                for (int u = 0; u < LOADS; ++u) {
                    of_matrix[u] = stream((const Granule*)(granule + u * lines * step_p));
                    of_x[u] = keep(x + (long long)(p + u * lines) * step_x);
                }
            } else {
#pragma unroll
                for (int u = 0; u < LOADS; ++u)
                    if (p + u * lines < end) {
                        of_matrix[u] = stream((const Granule*)(granule + u * lines * step_p));
                        of_x[u] = keep(x + (long long)(p + u * lines) * step_x);
                    }
            }
#pragma unroll
            for (int u = 0; u < LOADS; ++u)
                if (is_whole || p + u * lines < end)
#pragma unroll
                    for (int v = 0; v < WIDTH; ++v) combine(own[v], of_matrix[u].x[v], of_x[u], alpha);
        }
#pragma unroll
        for (int v = 0; v < WIDTH; ++v)
            if (j + v >= 0 && j + v < mine) sums[line * mine + j + v] = own[v];
    }
    add_lines(sums, lines, mine);
    if (shares == 1) {
        for (int e = threadIdx.x; e < mine; e += BLOCK) finish(first + e, sums[e], RESULT_ARGUMENTS);
        return;
    }
    for (int e = threadIdx.x; e < mine; e += BLOCK) parts[(long long)share * count + first + e] = sums[e];
    if (!is_last_share(tickets + window, shares)) return;
    const int lines_of_parts = min(shares, MOST_SUMS / mine);
    for (int e = threadIdx.x; e < lines_of_parts * mine; e += BLOCK) {
        Sum sum = no_terms();
#pragma unroll UNROLLED_PARTS
        for (int q = e / mine; q < shares; q += lines_of_parts)
            sum = joined(sum, fresh(parts + (long long)q * count + first + e % mine));
        sums[e] = sum;
    }
    add_lines(sums, lines_of_parts, mine);
    for (int e = threadIdx.x; e < mine; e += BLOCK) finish(first + e, sums[e], RESULT_ARGUMENTS);
}
