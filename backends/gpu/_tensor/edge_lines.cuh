// The last few rows and columns of a product of bytes, without tensor cores: for warps that are idle beside those that ask for tiles.
//
// One column more than whole tiles would be a column of tiles, and mostly another round of all multiprocessors. A warp takes a
// line of A or of B, and multiplies it with the last lines of the other operand, of which L1 holds copies.
//
// Defined before this file: Result, FACTOR, ACCUMULATE; EDGE_LINES, the most lines of each; Total, the type of sums; EDGE_PIECES,
// those of a line that a lane reads at once; `dot_of_words`, a sum and the products of the bytes of two words; `total_of_lanes`.
// It is included before tma_tile.cuh.
#pragma once
#define OF_PRODUCER 72
#define BESIDE_PARAMETERS \
    , const unsigned char* lines_a, int width_a, int all_m, const unsigned char* lines_b, int width_b, int all_n
#define BESIDE multiply_edges(Lines{lines_a, width_a, m, all_m}, Lines{lines_b, width_b, n, all_n}, k, c, ldc, alpha)

// Rows of A or columns of B along k, `width` bytes apart, at multiples of 16: those from `whole` to `all` are the last ones.
struct Lines {
    const unsigned char* data;
    int width, whole, all;

    __device__ __forceinline__ const unsigned char* at(int line) const { return data + (long long)line * width; }
};

struct alignas(16) Piece {
    unsigned x[4];
};

// Products of a line with the last lines of `others`; element e of them at c + e * distance.
__device__ __forceinline__ void multiply_line(const unsigned char* line, const Lines& others, int k, Result* c, long long distance,
                                              FACTOR alpha)
{
    const int lane = threadIdx.x % 32, count = others.all - others.whole;
    const unsigned char* other_lines = others.at(others.whole);
    Total sums[EDGE_LINES] = {};
#pragma unroll EDGE_PIECES
    for (int p = 16 * lane; p + 16 <= k; p += 32 * 16) {
        const Piece x = *(const Piece*)(line + p);
#pragma unroll
        for (int other = 0; other < EDGE_LINES; ++other) {
            if (other >= count) break;
            const Piece y = *(const Piece*)(other_lines + other * others.width + p);
#pragma unroll
            for (int w = 0; w < 4; ++w) sums[other] = dot_of_words(x.x[w], y.x[w], sums[other]);
        }
    }
    const int rest = k / 16 * 16 + lane;
#pragma unroll
    for (int other = 0; other < EDGE_LINES; ++other)
        if (other < count && rest < k)
            sums[other] = dot_of_words(line[rest], other_lines[other * others.width + rest], sums[other]);
#pragma unroll
    for (int other = 0; other < EDGE_LINES; ++other) {
        const Total sum = alpha * total_of_lanes(sums[other]);
        Result* to = c + other * distance;
        if (lane == 0 && other < count) *to = (Result)(ACCUMULATE ? (Total)*to + sum : sum);
    }
}

// The last rows, and the last columns of the rows before them. Called by three warps of each block.
__device__ __forceinline__ void multiply_edges(const Lines& a, const Lines& b, int k, Result* c, int ldc, FACTOR alpha)
{
    constexpr int WARPS = 3;
    const int first = blockIdx.x * WARPS + threadIdx.x / 32 - 1, rows = b.whole < b.all ? a.whole : 0;
    const int columns = a.whole < a.all ? b.all : 0;
    for (int index = first; index < columns + rows; index += gridDim.x * WARPS) {
        const int j = index, i = index - columns;
        if (j < columns) multiply_line(b.at(j), a, k, c + (long long)a.whole * ldc + j, ldc, alpha);
        else multiply_line(a.at(i), b, k, c + (long long)i * ldc + b.whole, 1, alpha);
    }
}
