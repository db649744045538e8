// A and B as stacks of digits to base 256 along k, as wgmma takes bytes: layer d, line i, step p
//
//   digits (D, lines, width)     element p of line i = sum of 256^d digits[d][i][p]   modulo 256^D, D bytes an element
//
// A line is a row of A or a column of B. Digits are signed bytes: x + 0x80..80 has the bytes digit + 128, with all carries.
// Of elements of one byte the digit is the element: the pass then only moves bytes.
//
//   along_k   lines are contiguous: a thread reads neighbours in several of them
//   across    steps of k are contiguous lines of the other side: tiles are transposed through shared memory, 4 x 4 bytes
//             in registers first
//
// A line of digits begins at a multiple of 128 bytes; what is written past its end is no matter. Memory bounds this pass, so a
// thread loads all its data before it uses any. Bytes that begin anywhere are read along k as aligned pieces of 16 (`shift_lines`),
// other short elements as aligned words, and across one by one (103 us at n = 8191, 121 to 135 as words).
//
//   DIGITS            of an element: 1, 2, 4 or 8
//   FORM_A, FORM_B   0 NONE, 1 ALONG, 2 ACROSS: what is done with A, and with B
//   ALIGNED_A, ALIGNED_B  1: lines (or steps of k) of A, of B, begin at multiples of 16 bytes
#include "intrinsics.cuh"
#include "lanes.cuh"

#define NONE 0
#define ALONG 1
#define ACROSS 2

constexpr int THREADS = 256;
constexpr int WORDS = DIGITS == 8 ? 2 : 1;             // of the element, or elements, that a lane reads of a step
constexpr int PER_LANE = DIGITS < 4 ? 4 / DIGITS : 1;   // elements there
constexpr int LINES = 32 * PER_LANE;                  // of a transposed tile
constexpr int STEPS = 128, QUADS = STEPS / 4;         // of k of a transposed tile; its words, of 4 steps
constexpr int PITCH = QUADS + 1;                      // words from line to line, against bank conflicts

template <int COUNT> struct alignas(COUNT < 4 ? 4 * COUNT : 16) Group {
    unsigned x[COUNT];
};

// The digits of whole elements in words, as signed bytes.
template <int COUNT> __device__ __forceinline__ void make_digits(Group<COUNT>& group)
{
#pragma unroll
    for (int w = 0; DIGITS > 1 && w < COUNT; w += WORDS) {
        unsigned long long x = group.x[w];
        if (DIGITS == 8) {
            x |= (unsigned long long)group.x[w + WORDS - 1] << 32;
            x += 0x8080808080808080ull;
            group.x[w + WORDS - 1] = (unsigned)(x >> 32) ^ 0x80808080u;
        } else if (DIGITS == 4) {
            x += 0x80808080ull;
        } else {  // two elements, without a carry from one to the other
            x = ((x & 0xffff) + 0x8080 & 0xffff) | ((x >> 16) + 0x8080 & 0xffff) << 16;
        }
        group.x[w] = (unsigned)x ^ 0x80808080u;
    }
}

// COUNT words that begin at element `first` of a row that ends at `end`; zeros beyond it.
template <int COUNT, bool IS_ALIGNED>
__device__ __forceinline__ Group<COUNT> read(const unsigned char* row, int first, int end)
{
    constexpr int ELEMENTS = COUNT * 4 / DIGITS;
    Group<COUNT> group = {};
    const unsigned char* from = row + (long long)first * DIGITS;
    if (IS_ALIGNED && first + ELEMENTS <= end) {
        group = *(const Group<COUNT>*)from;
    } else if (DIGITS == 2 && COUNT == 4 && first * DIGITS >= 4 && (first + ELEMENTS) * DIGITS + 4 <= end * DIGITS) {
        const unsigned shift = (unsigned)(unsigned long long)from % 4;
        unsigned words[COUNT + 1];  // with neighbours in the row
#pragma unroll
        for (int w = 0; w <= COUNT; ++w) words[w] = ((const unsigned*)(from - shift))[w];
#pragma unroll
        for (int w = 0; w < COUNT; ++w) group.x[w] = __funnelshift_r(words[w], words[w + 1], 8 * shift);
    } else {
#pragma unroll
        for (int e = 0; e < ELEMENTS; ++e) {
            if (first + e >= end) continue;
            if (DIGITS == 1) group.x[e / 4] |= (unsigned)from[e] << e % 4 * 8;
            if (DIGITS == 2) group.x[e / 2] |= (unsigned)((const unsigned short*)from)[e] << e % 2 * 16;
            if (DIGITS >= 4) group.x[e * WORDS] = ((const unsigned*)from)[e * WORDS];
            if (DIGITS == 8) group.x[e * WORDS + WORDS - 1] = ((const unsigned*)from)[e * WORDS + 1];
        }
    }
    return group;
}

struct Side {
    const unsigned char* x;
    long long pitch;  // bytes from row to row of x
    int lines, k;
    unsigned char* digits;
    int width;
};

template <bool IS_ALIGNED> __device__ __forceinline__ void along_k(const Side& side)
{
    constexpr int AT_ONCE = DIGITS == 8 ? 4 : 16 / DIGITS;  // neighbours along k of a thread
    constexpr int COUNT = AT_ONCE * DIGITS / 4, ROWS = DIGITS == 8 ? 2 : 4;
    const long long layer = (long long)side.lines * side.width;
    for (int first = blockIdx.x * ROWS; first < side.lines; first += gridDim.x * ROWS)
        for (int p = threadIdx.x * AT_ONCE; p < side.k; p += THREADS * AT_ONCE) {
            Group<COUNT> groups[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                groups[r] = read<COUNT, IS_ALIGNED>(side.x + min(first + r, side.lines - 1) * side.pitch, p, side.k);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (first + r >= side.lines) continue;
                make_digits(groups[r]);
                unsigned char* to = side.digits + (long long)(first + r) * side.width + p;
#pragma unroll
                for (int d = 0; d < DIGITS; ++d) {
                    Group<AT_ONCE / 4> of_layer = {};
#pragma unroll
                    for (int e = 0; e < AT_ONCE; ++e) {
                        const int byte = e * DIGITS + d;
                        of_layer.x[e / 4] |= (groups[r].x[byte / 4] >> byte % 4 * 8 & 0xffu) << e % 4 * 8;
                    }
                    *(Group<AT_ONCE / 4>*)(to + d * layer) = of_layer;
                }
            }
        }
}

// The 16 bytes at a multiple of 16, of which those from `begin` to `end` are read.
__device__ __forceinline__ Group<4> load_piece(const unsigned char* piece, const unsigned char* begin, const unsigned char* end)
{
    if (piece >= begin && piece + 16 <= end) return *(const Group<4>*)piece;
    Group<4> bytes = {};
#pragma unroll
    for (int e = 0; e < 16; ++e)
        if (piece + e >= begin && piece + e < end) bytes.x[e / 4] |= (unsigned)piece[e] << e % 4 * 8;
    return bytes;
}

// Bytes `shift` to `shift` + 15 of two neighbouring pieces.
__device__ __forceinline__ Group<4> bytes_between(const Group<4>& piece, const Group<4>& next, unsigned shift)
{
    unsigned words[8] = {piece.x[0], piece.x[1], piece.x[2], piece.x[3], next.x[0], next.x[1], next.x[2], next.x[3]};
#pragma unroll
    for (int w = 0; w < 6; ++w) words[w] = shift & 8 ? words[w + 2] : words[w];
#pragma unroll
    for (int w = 0; w < 5; ++w) words[w] = shift & 4 ? words[w + 1] : words[w];
    Group<4> bytes;
#pragma unroll
    for (int w = 0; w < 4; ++w) bytes.x[w] = __funnelshift_r(words[w], words[w + 1], shift % 4 * 8);
    return bytes;
}

// Lines of bytes that begin anywhere, a warp each. A lane loads pieces at multiples of 16, AHEAD of them before it uses any, and
// takes what follows its own from the next lane.
__device__ __forceinline__ void shift_lines(const Side& side)
{
    constexpr int AHEAD = 8, OF_WARP = 32 * 16, WARPS = THREADS / 32;
    const int lane = threadIdx.x % 32;
    const unsigned char* end = side.x + (side.lines - 1) * side.pitch + side.k;
    for (int begin = blockIdx.x * WARPS; begin < side.lines; begin += gridDim.x * WARPS) {
        const int i = min(begin + (int)threadIdx.x / 32, side.lines - 1);  // the last one again if there is none left
        const unsigned char* line = side.x + i * side.pitch;
        const unsigned shift = (unsigned)((unsigned long long)line % 16);
        const int left = side.k + (int)shift;
        unsigned char* to = side.digits + (long long)i * side.width;
        for (int first = lane * 16; first - lane * 16 < side.k; first += AHEAD * OF_WARP) {
            Group<4> pieces[AHEAD + 1] = {};
#pragma unroll
            for (int u = 0; u <= AHEAD; ++u)
                if ((u < AHEAD || lane == 0) && first + u * OF_WARP < left) pieces[u] = load_piece(line - shift + first + u * OF_WARP, side.x, end);
#pragma unroll
            for (int u = 0; u < AHEAD; ++u) {
                Group<4> next;
#pragma unroll
                for (int w = 0; w < 4; ++w) next.x[w] = of_next_lane(lane == 0 ? pieces[u + 1].x[w] : pieces[u].x[w]);
                if (first + u * OF_WARP < side.k) *(Group<4>*)(to + first + u * OF_WARP) = bytes_between(pieces[u], next, shift);
            }
        }
    }
}

// Tiles of LINES lines and STEPS of k. A lane reads 4 (or 8) bytes of each of 4 steps, and has the words of 4 steps of its
// lines and their digits after transposing them.
template <bool IS_ALIGNED> __device__ __forceinline__ void across(const Side& side, unsigned* tile)
{
    const int tiles_across = (side.lines + LINES - 1) / LINES, tiles_down = (side.k + STEPS - 1) / STEPS;
    const long long layer = (long long)side.lines * side.width;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int index = blockIdx.x; index < tiles_across * tiles_down; index += gridDim.x) {
        const int first_p = index / tiles_across * STEPS, first_line = index % tiles_across * LINES;
        const int line = first_line + lane * PER_LANE;
        constexpr int OF_WARP = QUADS / (THREADS / 32);  // quads of steps
        Group<WORDS> steps[OF_WARP][4];
#pragma unroll
        for (int u = 0; u < OF_WARP; ++u)
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                const int p = first_p + (warp + u * (THREADS / 32)) * 4 + s;
                steps[u][s] = read<WORDS, IS_ALIGNED>(side.x + p * side.pitch, line, p < side.k ? side.lines : 0);
            }
#pragma unroll
        for (int u = 0; u < OF_WARP; ++u) {
#pragma unroll
            for (int s = 0; s < 4; ++s) make_digits(steps[u][s]);
#pragma unroll
            for (int byte = 0; byte < 4 * WORDS; ++byte) {
                unsigned word = 0;
#pragma unroll
                for (int s = 0; s < 4; ++s) word |= (steps[u][s].x[byte / 4] >> byte % 4 * 8 & 0xffu) << s * 8;
                const int row = (byte % DIGITS * PER_LANE + byte / DIGITS) * 32 + lane;
                tile[row * PITCH + warp + u * (THREADS / 32)] = word;
            }
        }
        __syncthreads();
#pragma unroll
        for (int place = threadIdx.x; place < DIGITS * LINES * (QUADS / 4); place += THREADS) {
            const int row = place / (QUADS / 4), quad = place % (QUADS / 4) * 4;
            const int i = first_line + row % 32 * PER_LANE + row % LINES / 32, p = first_p + quad * 4;
            if (i >= side.lines || p >= side.k) continue;
            const unsigned* from = tile + row * PITCH + quad;
            *(Group<4>*)(side.digits + row / LINES * layer + (long long)i * side.width + p) =
                Group<4>{from[0], from[1], from[2], from[3]};
        }
        __syncthreads();
    }
}

template <int FORM, bool IS_ALIGNED> __device__ __forceinline__ void convert(const Side& side, unsigned* tile)
{
    if constexpr (FORM == ALONG && DIGITS == 1 && !IS_ALIGNED) shift_lines(side);
    else if constexpr (FORM == ALONG) along_k<IS_ALIGNED>(side);
    if constexpr (FORM == ACROSS) across<IS_ALIGNED>(side, tile);
}

// A if blockIdx.y is 0, B if it is 1; lda and ldb are distances, in elements, of lines or of steps of k.
extern "C" __global__ void __launch_bounds__(THREADS)
    digits(const unsigned char* __restrict__ a, int lda, int m, unsigned char* __restrict__ digits_a,
           const unsigned char* __restrict__ b, int ldb, int n, unsigned char* __restrict__ digits_b, int k, int width)
{
    constexpr bool HAS_TILE = FORM_A == ACROSS || FORM_B == ACROSS;
    __shared__ unsigned tile[HAS_TILE ? DIGITS * LINES * PITCH : 1];
    if (blockIdx.y == 0) convert<FORM_A, ALIGNED_A>(Side{a, (long long)lda * DIGITS, m, k, digits_a, width}, tile);
    else convert<FORM_B, ALIGNED_B>(Side{b, (long long)ldb * DIGITS, n, k, digits_b, width}, tile);
}
