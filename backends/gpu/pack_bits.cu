// Matrices of bools, a byte an element, to words of 32 bits, and back.
//
//   pack_rows     a word holds 32 neighbours of a row: A for products that count along k
//   pack_columns  a word holds 32 neighbours of a column: B for products that count along k
//   spread        a bool becomes a word of zeros or of ones: A for products of words along n
//   unpack        out := [out (+)] the bits of each row
//
// Bools are bytes of 0 or 1. Beyond the matrix bits are zeros. Each pass reads and writes neighbours by neighbouring threads.
#include "intrinsics.cuh"

constexpr int BITS = 32;

struct alignas(16) Bytes {
    unsigned x[4];
};

// Four bools, bytes of 0 or 1, as four bits: each product of a byte and a power of two ends up alone in the last four.
__device__ __forceinline__ unsigned bits_of_four(unsigned bytes) { return bytes * 0x10204080u >> 28; }

// `all_words` words a row; a thread makes a word. Rows are multiples of 16 bytes apart if IS_ALIGNED.
extern "C" __global__ void __launch_bounds__(256)
    pack_rows(const unsigned char* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ words,
              int all_words)
{
    const long long count = (long long)rows * all_words;
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < count;
         index += (long long)gridDim.x * blockDim.x) {
        const int first = index % all_words * BITS;
        const unsigned char* from = x + index / all_words * ld + first;
        unsigned word = 0;
        if (IS_ALIGNED && first + BITS <= columns) {
            for (int half = 0; half < 2; ++half) {
                const Bytes bytes = reinterpret_cast<const Bytes*>(from)[half];
                for (int u = 0; u < 4; ++u) word |= bits_of_four(bytes.x[u]) << (half * 16 + u * 4);
            }
        } else {
            for (int bit = 0; bit < BITS; ++bit)
                if (first + bit < columns) word |= (unsigned)(from[bit] != 0) << bit;
        }
        words[index] = word;
    }
}

// `all_words` rows of words, `all_columns` words each; a thread makes a word of a column.
extern "C" __global__ void __launch_bounds__(256)
    pack_columns(const unsigned char* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ words,
                 int all_words, int all_columns)
{
    const long long count = (long long)all_words * all_columns;
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < count;
         index += (long long)gridDim.x * blockDim.x) {
        const int w = index / all_columns, j = index % all_columns;
        unsigned word = 0;
        if (j < columns) {
#pragma unroll
            for (int bit = 0; bit < BITS; ++bit) {
                const int i = w * BITS + bit;
                if (i < rows) word |= (unsigned)(x[(long long)i * ld + j] != 0) << bit;
            }
        }
        words[index] = word;
    }
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
