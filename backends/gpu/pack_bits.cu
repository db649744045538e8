// Matrices of bools, a byte an element, to words of 32 bits, and back.
//
//   pack_operands  for products that count along k: A by rows, a word holds 32 neighbours of a row; B by columns
//   pack_rows      by rows alone: B for products of words along n
//   spread         a bool becomes a word of zeros or of ones: A for products of words along n
//   unpack         out := [out (+)] the bits of each row
//
// Bools are bytes of 0 or 1. Beyond the matrix bits are zeros. Each pass reads and writes neighbours by neighbouring threads.
//
//   IS_ALIGNED  rows begin at multiples of 16 bytes
#include "intrinsics.cuh"

constexpr int BITS = 32;

struct alignas(16) Bytes {
    unsigned x[4];  // that is, sixteen
};

// Four bools, bytes of 0 or 1, as four bits: each product of a byte and a power of two ends up alone in the last four.
__device__ __forceinline__ unsigned bits_of_four(unsigned bytes) { return bytes * 0x10204080u >> 28; }

// The half-word of 16 neighbours of a row, of which `left` exist; they are read at once if IS_ALIGNED.
__device__ __forceinline__ unsigned bits_of_row(const unsigned char* from, int left)
{
    unsigned bits = 0;
    if (IS_ALIGNED && left >= BITS / 2) {
        const Bytes bytes = *(const Bytes*)from;
#pragma unroll
        for (int u = 0; u < 4; ++u) bits |= bits_of_four(bytes.x[u]) << u * 4;
    } else {
        for (int bit = 0; bit < BITS / 2; ++bit)
            if (bit < left) bits |= (unsigned)from[bit] << bit;
    }
    return bits;
}

// `all_words` words a row; a thread makes half of one, so that a warp reads 512 bytes side by side.
__device__ __forceinline__ void pack_along_rows(const unsigned char* __restrict__ x, int ld, int rows, int columns,
                                                unsigned* __restrict__ words, int all_words)
{
    const int halves = 2 * all_words;
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int half = threadIdx.x; half < halves; half += blockDim.x) {
            const int first = half * (BITS / 2);
            reinterpret_cast<unsigned short*>(words)[(long long)i * halves + half] =
                bits_of_row(x + (long long)i * ld + first, columns - first);
        }
}

// Four neighbours of a row, of which `left` exist, a byte each; they are read at once if IS_ALIGNED.
__device__ __forceinline__ unsigned four_of_row(const unsigned char* from, int left)
{
    if (IS_ALIGNED && left >= 4) return *(const unsigned*)from;
    unsigned bytes = 0;
#pragma unroll
    for (int u = 0; u < 4; ++u)
        if (u < left) bytes |= (unsigned)from[u] << 8 * u;
    return bytes;
}

// `all_words` rows of words, `all_columns` words each, a multiple of 4; a thread makes those of four columns. Eight rows
// are shifted together, so that each byte of the result belongs to one column; four such are four words, transposed.
__device__ __forceinline__ void pack_along_columns(const unsigned char* __restrict__ x, int ld, int rows, int columns,
                                                   unsigned* __restrict__ words, int all_words, int all_columns)
{
    const int across = (all_columns / 4 + blockDim.x - 1) / blockDim.x;  // blocks
    for (long long index = blockIdx.x; index < (long long)all_words * across; index += gridDim.x) {
        const int w = index / across, j = ((int)(index % across) * blockDim.x + threadIdx.x) * 4;
        if (j >= all_columns) continue;
        const unsigned char* from = x + (long long)w * BITS * ld + j;
        unsigned eights[4];
#pragma unroll
        for (int eight = 0; eight < 4; ++eight) {
            unsigned bytes = 0;
#pragma unroll
            for (int bit = 0; bit < 8; ++bit) {
                const int i = eight * 8 + bit;
                if (w * BITS + i < rows) bytes |= four_of_row(from + (long long)i * ld, columns - j) << bit;
            }
            eights[eight] = bytes;
        }
        Bytes packed;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            packed.x[u] = 0;
#pragma unroll
            for (int eight = 0; eight < 4; ++eight) packed.x[u] |= (eights[eight] >> 8 * u & 0xffu) << 8 * eight;
        }
        *(Bytes*)(words + (long long)w * all_columns + j) = packed;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    pack_rows(const unsigned char* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ words,
              int all_words)
{
    pack_along_rows(x, ld, rows, columns, words, all_words);
}

// A (m, k) and B (k, n) for a product that counts along k, `all_words` words of it: A if blockIdx.y is 0, B if it is 1.
extern "C" __global__ void __launch_bounds__(256)
    pack_operands(const unsigned char* __restrict__ a, int lda, int m, const unsigned char* __restrict__ b, int ldb, int n,
                  int k, unsigned* __restrict__ bits_a, unsigned* __restrict__ bits_b, int all_words, int all_columns)
{
    if (blockIdx.y == 0) pack_along_rows(a, lda, m, k, bits_a, all_words);
    else pack_along_columns(b, ldb, k, n, bits_b, all_words, all_columns);
}

extern "C" __global__ void __launch_bounds__(256)
    spread(const unsigned char* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ masks)
{
    const long long count = (long long)rows * columns;
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < count;
         index += (long long)gridDim.x * blockDim.x)
        masks[index] = x[index / columns * ld + index % columns] ? ~0u : 0u;
}

// `how` is 0: store; 1: or; 2: and; 3: xor with what is there.
extern "C" __global__ void __launch_bounds__(256)
    unpack(const unsigned* __restrict__ words, int all_words, unsigned char* __restrict__ out, int ld, int rows,
           int columns, int how)
{
    const long long count = (long long)rows * columns;
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < count;
         index += (long long)gridDim.x * blockDim.x) {
        const int i = index / columns, j = index % columns;
        const unsigned char bit = words[(long long)i * all_words + j / BITS] >> j % BITS & 1u;
        unsigned char* place = out + (long long)i * ld + j;
        *place = how == 1 ? *place | bit : how == 2 ? *place & bit : how == 3 ? *place ^ bit : bit;
    }
}
