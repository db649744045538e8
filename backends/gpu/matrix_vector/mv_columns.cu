// y[j] = (+)_p M[j, p] (x) x[p] of a matrix that is contiguous along j: threads side by side, 16 bytes each.
//
//   grid     windows of `width` elements of y, each shared by `shares` blocks: the share of a block is `depth` steps of p
//   thread   SLOTS of them side by side, in LINES lines: WIDTH elements of y, and of p every LINES-th
//   loop     over p by LOADS * LINES: LOADS vectors of 16 bytes at once
//   sums     in registers; over the lines in shared memory; over shares in scratch
//   HAS_GAPS 1: the elements of x are not neighbours
//
// A line may begin anywhere: a thread reads the granules of 16 bytes that the window of its lines touches, and those lines
// all begin at the same distance from a granule, since LINES times the distance of lines is a multiple of it. What a
// granule holds outside of the window is read and never used; behind the matrix nothing is read.
//
// Source: lecture notes on GPU programming: coalesced access; vectorised loads.
#include "shares.cuh"

constexpr int COLUMNS = SLOTS * WIDTH, PITCH = COLUMNS + 1;  // one more, so that threads of a team meet other banks

// Threads that add up one column: a power of two
__device__ constexpr int team_of(int team)
{
    return 2 * team > 32 || 2 * team > LINES || 2 * team * COLUMNS > BLOCK ? team : team_of(2 * team);
}
constexpr int TEAM = team_of(1);
constexpr int UNROLLED_PARTS = IS_LONG ? 1 : 16;

struct alignas(sizeof(T) * WIDTH) Granule {
    T x[WIDTH];
};

// How many of the last lines a granule goes beyond the matrix in, if it goes `over` elements beyond a line
__device__ __forceinline__ unsigned lines_beyond(int over, long long step_p)
{
    if (over <= 0) return 0;
    return step_p >= over ? 1 : (over + (int)step_p - 1) / (int)step_p;
}

// For each of `width` columns the sum of its `count` parts, part_of(part, column), to the function `put`.
template <class PartOf, class Put>
__device__ __forceinline__ void add_parts(int width, int count, PartOf part_of, Put put)
{
    const int member = threadIdx.x % TEAM;
    for (int base = 0; base < width; base += BLOCK / TEAM) {
        const int column = base + threadIdx.x / TEAM;
        Sum sum = no_terms();
        if (column < width)
#pragma unroll UNROLLED_PARTS
            for (int part = member; part < count; part += TEAM) sum = joined(sum, part_of(part, column));
#pragma unroll
        for (int offset = TEAM / 2; offset; offset /= 2) sum = joined(sum, shuffle_xor(sum, offset));
        if (member == 0 && column < width) put(column, sum);
    }
}

__device__ __forceinline__ T read_x(const T* x, long long step_x, unsigned p)
{
    return keep(HAS_GAPS ? x + p * step_x : x + p);
}

// Two blocks of a multiprocessor at least: the rule of shares counts on them. Sums of single bytes would not fit.
extern "C" __global__ void __launch_bounds__(BLOCK, sizeof(T) > 1 ? 2 : 1)
    mv_columns(MATRIX_VECTOR_PARAMETERS, Sum* parts, unsigned* tickets, int shares, int depth, int width)
{
    __shared__ Sum sums[LINES * PITCH];
    const int window = blockIdx.x / shares, share = blockIdx.x % shares;
    const int slot = threadIdx.x % SLOTS, line = threadIdx.x / SLOTS;
    const int first = window * width, mine = min(width, count - first);
    const unsigned begin = (unsigned)share * depth, end = begin + min((unsigned)depth, k - begin);

    const T* start = matrix + (long long)(begin + line) * step_p + first;
    const int j = slot * WIDTH - (int)((size_t)start / sizeof(T) % WIDTH);  // of its first element, in the window
    if (line < LINES && j < mine) {
        const T* granule = start + j;
        // Granules of the last lines may go beyond the matrix: then elements come one by one, after the others
        const unsigned whole = min(end, k - min(lines_beyond(first + j + WIDTH - count, step_p), (unsigned)k));
        const long long step = LINES * step_p;
        Sum own[WIDTH];
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) own[v] = no_terms();
        for (unsigned p = begin + line; p < whole; p += LOADS * LINES, granule += LOADS * step) {
            Granule of_matrix[LOADS];
            T of_x[LOADS];
            const bool is_whole = p + (LOADS - 1) * LINES < whole;  // then no load asks
            if (is_whole) {
#pragma unroll
                for (int u = 0; u < LOADS; ++u) {
                    of_matrix[u] = stream((const Granule*)(granule + u * step));
                    of_x[u] = read_x(x, step_x, p + u * LINES);
                }
            } else {
#pragma unroll
                for (int u = 0; u < LOADS; ++u)
                    if (p + u * LINES < whole) {
                        of_matrix[u] = stream((const Granule*)(granule + u * step));
                        of_x[u] = read_x(x, step_x, p + u * LINES);
                    }
            }
#pragma unroll
            for (int u = 0; u < LOADS; ++u)
                if (is_whole || p + u * LINES < whole)
#pragma unroll
                    for (int v = 0; v < WIDTH; ++v) combine(own[v], of_matrix[u].x[v], of_x[u], alpha);
        }
        for (unsigned p = whole; p < end; ++p) {
            if (p < begin || (p - begin) % LINES != line) continue;
            Granule of_matrix;
            const T of_x = read_x(x, step_x, p);
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) of_matrix.x[v] = stream(matrix + p * step_p + first + max(min(j + v, mine - 1), 0));
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) combine(own[v], of_matrix.x[v], of_x, alpha);
        }
#pragma unroll
        for (int v = 0; v < WIDTH; ++v)
            if (j + v >= 0 && j + v < mine) sums[line * PITCH + j + v] = own[v];
    }
    __syncthreads();
    const auto of_line = [&](int part, int column) { return sums[part * PITCH + column]; };
    const auto to_y = [&](int column, Sum sum) { finish(first + column, sum, RESULT_ARGUMENTS); };
    if (shares == 1) return add_parts(mine, LINES, of_line, to_y);
    Sum* mine_of_parts = parts + first;
    add_parts(mine, LINES, of_line, [&](int column, Sum sum) { mine_of_parts[(long long)share * count + column] = sum; });
    if (!is_last_share(tickets + window, shares)) return;
    add_parts(mine, shares, [&](int part, int column) { return fresh(mine_of_parts + (long long)part * count + column); }, to_y);
}
