// Matrices of bools, a byte an element, to words of 32 bits, and back.
//
//   pack_operands  for products that count along k: A by rows, a word holds 32 neighbours of a row; B by columns
//   pack_rows      by rows alone: B for products of words along n
//   spread         a bool becomes a word of zeros or of ones: A for products of words along n
//   unpack         out := [out (+)] the bits of each row
//
// Bools are bytes, and true if they are not 0; those that are written are 0 or 1. Bits beyond the matrix are zeros, at least of A. Neighbouring threads access neighbouring
// elements. A thread loads all its data before it uses any: memory, whose latency is long, bounds these passes.
//
//   IS_ALIGNED     rows of bools begin at multiples of 16 bytes
//   IS_TRANSPOSED  1: a row of words for each column of B, for wgmma, in the order of neighbours.cuh; 0: a word for each column, for mma.sync
#include "intrinsics.cuh"
#include "neighbours.cuh"
#include "truths.cuh"

constexpr int BITS = 32, THREADS = 256;
constexpr int ROWS = 4;                          // of A that a thread reads at once
constexpr int COLUMNS = 128, WORDS = 8, PITCH = WORDS + 1;  // of B that a block packs: 4 columns, 1 word a thread

struct alignas(16) Words {
    unsigned x[4];
};

// Four bools, bytes of 0 or 1, as four bits: the multiplication moves each byte to a bit of its own among the top four.
// Below, four bits as four such bytes.
__device__ __forceinline__ unsigned bits_of_four(unsigned bytes) { return bytes * 0x10204080u >> 28; }
__device__ __forceinline__ unsigned four_of_bits(unsigned bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }

// Whether COUNT elements from `first` of a row on may be read as words; without alignment that includes their neighbours.
template <int COUNT> __device__ __forceinline__ bool has_words(int first, int columns)
{
    return IS_ALIGNED ? first + COUNT <= columns : first >= 4 && first + COUNT + 4 <= columns;
}

// COUNT bytes, 4 or 16, that begin anywhere unless IS_ALIGNED.
template <int COUNT> struct Bytes {
    unsigned x[COUNT / 4 + !IS_ALIGNED], shift;
    __device__ __forceinline__ void read(const unsigned char* from)
    {
        if (IS_ALIGNED && COUNT == 16) {
            *(Words*)x = *(const Words*)from;
        } else {
            shift = IS_ALIGNED ? 0 : (unsigned)(unsigned long long)from % 4;
#pragma unroll
            for (int u = 0; u < COUNT / 4 + !IS_ALIGNED; ++u) x[u] = ((const unsigned*)(from - shift))[u];
        }
    }
    __device__ __forceinline__ unsigned four(int u) const
    {
        return truths(IS_ALIGNED ? x[u] : __funnelshift_r(x[u], x[u + !IS_ALIGNED], 8 * shift));
    }
};

// The half-word of 16 neighbours of a row, of which `left` exist, element by element.
__device__ __forceinline__ unsigned short bits_one_by_one(const unsigned char* from, int left)
{
    unsigned bits = 0;
    for (int bit = 0; bit < BITS / 2 && bit < left; ++bit) bits |= (unsigned)(from[bit] != 0) << bit;
    return bits;
}

// `all_words` words a row; a thread makes half of one in each of ROWS rows, so that a warp reads 512 bytes side by side.
__device__ __forceinline__ void pack_along_rows(const unsigned char* __restrict__ x, int ld, int rows, int columns,
                                                unsigned* __restrict__ words, int all_words)
{
    const int halves = 2 * all_words;
    for (int i = blockIdx.x * ROWS; i < rows; i += gridDim.x * ROWS)
        for (int half = threadIdx.x; half < halves; half += THREADS) {
            const int first = half * (BITS / 2);
            const unsigned char* from = x + (long long)i * ld + first;
            unsigned short* to = reinterpret_cast<unsigned short*>(words) + (long long)i * halves + half;
            if (i + ROWS <= rows && has_words<16>(first, columns)) {
                Bytes<16> bytes[ROWS];
#pragma unroll
                for (int r = 0; r < ROWS; ++r) bytes[r].read(from + (long long)r * ld);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    unsigned bits = 0;
#pragma unroll
                    for (int u = 0; u < 4; ++u) bits |= bits_of_four(bytes[r].four(u)) << 4 * u;
                    to[(long long)r * halves] = bits;
                }
            } else {
                for (int r = 0; r < min(ROWS, rows - i); ++r)
                    to[(long long)r * halves] = bits_one_by_one(from + (long long)r * ld, columns - first);
            }
        }
}

// Words of four columns side by side, of 32 rows, of which `rows` exist; they begin at column j. Eight rows are shifted
// together, so that each byte of the result belongs to one column; four such results are transposed into four words. Past
// the end the last row is read again, where A has zero bits.
__device__ __forceinline__ Words words_of_columns(const unsigned char* from, int ld, int rows, int j, int columns)
{
    Words words = {};
    if (rows <= 0 || j >= columns) return words;
    if (has_words<4>(j, columns)) {
        Bytes<4> bytes[BITS];
#pragma unroll
        for (int i = 0; i < BITS; ++i) bytes[i].read(from + (long long)min(i, rows - 1) * ld);
        unsigned eights[4];
#pragma unroll
        for (int eight = 0; eight < 4; ++eight) {
            eights[eight] = 0;
#pragma unroll
            for (int bit = 0; bit < 8; ++bit)
                eights[eight] |= bytes[eight * 8 + bit].four(0) << bit;
        }
#pragma unroll
        for (int u = 0; u < 4; ++u)
#pragma unroll
            for (int eight = 0; eight < 4; ++eight) words.x[u] |= (eights[eight] >> 8 * u & 0xffu) << 8 * eight;
    } else {
        for (int i = 0; i < min(rows, BITS); ++i)
#pragma unroll
            for (int u = 0; u < 4; ++u)
                if (j + u < columns) words.x[u] |= (unsigned)(from[(long long)i * ld + u] != 0) << i;
    }
    return words;
}

// Words of `all_columns` columns, a multiple of 64, and of `all_words` words of each, a multiple of 4: COLUMNS and WORDS of
// them a block, transposed through shared memory.
__device__ __forceinline__ void pack_along_columns(const unsigned char* __restrict__ x, int ld, int rows, int columns,
                                                   unsigned* __restrict__ words, int all_words, int all_columns)
{
    __shared__ unsigned transposed[COLUMNS * PITCH];
    const int across = (all_columns + COLUMNS - 1) / COLUMNS, down = (all_words + WORDS - 1) / WORDS;
    for (int index = blockIdx.x; index < down * across; index += gridDim.x) {
        const int first_w = index / across * WORDS, first_j = index % across * COLUMNS;
        const int along = threadIdx.x % 32 * 4, w = first_w + threadIdx.x / 32, j = first_j + along;
        const Words packed = words_of_columns(x + (long long)w * BITS * ld + j, ld, rows - w * BITS, j, columns);
        if (!IS_TRANSPOSED) {
            if (j < all_columns && w < all_words) *(Words*)(words + (long long)w * all_columns + j) = packed;
            continue;
        }
#pragma unroll
        for (int u = 0; u < 4; ++u) transposed[(along + u) * PITCH + threadIdx.x / 32] = packed.x[u];
        __syncthreads();
        const int column = threadIdx.x / 2, piece = threadIdx.x % 2 * 4;
        if (first_j + column < all_columns && first_w + piece < all_words) {
            const unsigned* from = transposed + column * PITCH + piece;
            *(Words*)(words + (long long)neighbour(first_j + column) * all_words + first_w + piece) =
                Words{from[0], from[1], from[2], from[3]};
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pack_rows(const unsigned char* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ words,
              int all_words)
{
    pack_along_rows(x, ld, rows, columns, words, all_words);
}

// A (m, k) and B (k, n) for a product that counts along k, `all_words` words of it: A if blockIdx.y is 0, B if it is 1.
extern "C" __global__ void __launch_bounds__(THREADS)
    pack_operands(const unsigned char* __restrict__ a, int lda, int m, const unsigned char* __restrict__ b, int ldb, int n,
                  int k, unsigned* __restrict__ bits_a, unsigned* __restrict__ bits_b, int all_words, int all_columns)
{
    if (blockIdx.y == 0) pack_along_rows(a, lda, m, k, bits_a, all_words);
    else pack_along_columns(b, ldb, k, n, bits_b, all_words, all_columns);
}

// `all_columns` masks in a row, a multiple of 4; a thread makes four.
extern "C" __global__ void __launch_bounds__(THREADS)
    spread(const unsigned char* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ masks,
           int all_columns)
{
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int j = threadIdx.x * 4; j < all_columns; j += THREADS * 4) {
            const unsigned char* from = x + (long long)i * ld + j;
            Words spread_out;
            if (IS_ALIGNED && j + 4 <= columns) {
                const unsigned bytes = truths(*(const unsigned*)from);
#pragma unroll
                for (int u = 0; u < 4; ++u) spread_out.x[u] = -(bytes >> 8 * u & 1u);
            } else {
#pragma unroll
                for (int u = 0; u < 4; ++u) spread_out.x[u] = j + u < columns ? -(unsigned)(from[u] != 0) : 0u;
            }
            *(Words*)(masks + (long long)i * all_columns + j) = spread_out;
        }
}

// `how` is 0: store; 1: or; 2: and; 3: xor with C.
__device__ __forceinline__ unsigned joined(unsigned before, unsigned x, int how)
{
    return how == 1 ? before | x : how == 2 ? before & x : how == 3 ? before ^ x : x;
}

// A thread makes 16 bools.
extern "C" __global__ void __launch_bounds__(THREADS)
    unpack(const unsigned* __restrict__ words, int all_words, unsigned char* __restrict__ out, int ld, int rows,
           int columns, int how)
{
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int j = threadIdx.x * 16; j < columns; j += THREADS * 16) {
            const unsigned bits = words[(long long)i * all_words + j / BITS] >> j % BITS;
            unsigned char* place = out + (long long)i * ld + j;
            if (IS_ALIGNED && j + 16 <= columns) {
                Words bytes;
#pragma unroll
                for (int u = 0; u < 4; ++u) bytes.x[u] = four_of_bits(bits >> 4 * u);
                if (how) {
                    const Words before = *(const Words*)place;
#pragma unroll
                    for (int u = 0; u < 4; ++u) bytes.x[u] = joined(truths(before.x[u]), bytes.x[u], how);
                }
                *(Words*)place = bytes;
            } else {
                for (int bit = 0; bit < min(16, columns - j); ++bit)
                    place[bit] = joined(how ? place[bit] != 0 : 0, bits >> bit & 1u, how);
            }
        }
}
