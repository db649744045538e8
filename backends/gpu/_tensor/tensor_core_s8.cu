// Products of bytes, summed in int32 modulo 2^32, by TMA and wgmma, for sm_90a. A lies by rows, B by columns, since the
// instruction takes bytes along k alone (digits.cu turns what lies otherwise).
//
//   DIGITS 1   C := [C +] alpha A B
//   DIGITS D   A and B are stacks of D digits to base 256, the lowest first (digits.cu). With S_s the sum of the products
//              A_i B_j over i + j = s, C = sum of 256^s S_s, and what s >= D adds is a multiple of 256^D. Horner's rule,
//              from the greatest s down, keeps the sums of a tile in registers. For D = 8, C is a stack of int32: first the
//              sum over s = 7 .. 4, of 256^(s - 4) S_s, then S_3, S_2, S_1, S_0 (join.cu adds them).
//   MODULI     a list of numbers p_t from 65 to 256; DIGITS is 1. A and B are stacks, and the result is a stack of bytes
//
//                  C_t := (A_t B_t) mod p_t, or (C_t + A_t B_t) mod p_t     in 0 .. p_t, where p_t stands for 0
//
//              of as many layers, times LAYERS_EACH, as an int32 in GPU memory says when the kernel runs (`given`); 0: it
//              returns at once.
//              Columns of B are permuted in each 64 (neighbours.cuh), so that the 16 sums of a thread are neighbours.
//
//   EDGE_LINES  more than 0: the last rows and columns of C, up to so many of each, are not the tiles' work. m and n do not count
//              them, and the warps that are idle compute them, a line of A or of B each at a time
//
//   IS_GUARDED  1, of DIGITS 1 alone: the kernel returns at once if the int32 at `given` is 0
//
//   KIND       "u8": bytes have no sign, and DIGITS is 1; else they have
//
//   C_TYPE     of an element of C
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma .s8; Ozaki, Uchino, Imamura, arXiv 2504.08009, for MODULI.
#define T int
#define DEPTH 32
#ifndef KIND
#define KIND "s8"
#endif
#define FLAGS ""  // both along k, the only layout of this instruction
#define INTEGERS
#define OPERATION ""
#define FACTOR unsigned  // signed sums must not overflow

#if defined(MODULI) || DIGITS > 1
#define LAYERED 1
#endif

#ifndef EDGE_LINES
#define EDGE_LINES 0
#endif

constexpr int BK = 128, BYTES = (128 + BN) * 128;
constexpr bool FLUSHES = false;

typedef C_TYPE Result;

#ifdef MODULI
#define STORE_ROWS store
__device__ __forceinline__ void store(void*, const int* sums, unsigned alpha, Result* c, int ldc, int rows, int columns,
                                      int below, int layer);
#endif

#include "lanes.cuh"
#if EDGE_LINES
#include "bytes.cuh"
typedef unsigned Total;

__device__ __forceinline__ unsigned dot_of_words(unsigned x, unsigned y, unsigned sum)
{
    return KIND[0] == 's' ? dot_of_signed(x, y, (int)sum) : dot_of_unsigned(x, y, (int)sum);
}

__device__ __forceinline__ unsigned total_of_lanes(unsigned sum) { return sum_of_lanes(sum); }
#define EDGE_PIECES 2
#include "edge_lines.cuh"
#endif
#include "byte_tiles.cuh"

#ifdef MODULI
__device__ __forceinline__ int count_layers(const float* given) { return *(const int*)given * LAYERS_EACH; }
__device__ __forceinline__ int count_terms(int) { return 1; }
__device__ __forceinline__ Layers layers_of(int layer, int) { return Layers{layer, layer}; }
__device__ __forceinline__ bool is_shifted(int, int) { return false; }
#elif DIGITS == 1
#ifndef IS_GUARDED
#define IS_GUARDED 0
#endif
__device__ __forceinline__ bool is_chosen(const float* given) { return !IS_GUARDED || *(const int*)given; }
#else
constexpr int APART = DIGITS > 4 ? DIGITS - 4 : 0;  // the s whose sums are layers of their own: those below this

__device__ __forceinline__ int count_layers(const float*) { return 1 + APART; }

__device__ __forceinline__ int count_terms(int layer)
{
    constexpr int FIRST = (DIGITS * (DIGITS + 1) - APART * (APART + 1)) / 2;
    return APART && layer ? APART - layer + 1 : FIRST;
}

// The digits of A and of B: those of the greatest s first.
__device__ __forceinline__ Layers layers_of(int layer, int term)
{
    int s = APART && layer ? APART - layer : DIGITS - 1;
    for (; term > s; --s) term -= s + 1;
    return Layers{term, s - term};
}

__device__ __forceinline__ bool is_shifted(int layer, int term)
{
    return term && layers_of(layer, term).of_a == 0;
}
#endif

#ifdef MODULI
// Bits of the reciprocals: right for sums of up to 65536 products and a byte, of residues of a size up to p / 2.
__device__ __forceinline__ int bits_of(int p) { return p < 128 ? 37 : 38; }
__constant__ int moduli[] = {MODULI};

// Four sums modulo p, a byte each, on top of the bytes of `before`
__device__ __forceinline__ unsigned residues_of(const int* sums, const int (&at)[4], int p, int reciprocal, int shift, unsigned before)
{
    unsigned word = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const int x = sums[at[e]] + (int)(before >> 8 * e & 255u);
        word |= (unsigned)(x - (__mulhi(x, reciprocal) >> shift) * p & 255) << 8 * e;
    }
    return word;
}

struct alignas(16) Words {
    unsigned x[4];
};

// Residues of the sums. Rows of C are whole runs of 64 columns.
__device__ __forceinline__ void store(void*, const int* sums, unsigned, unsigned char* c, int ldc, int rows, int columns, int,
                                      int layer)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int p = moduli[layer], bits = bits_of(p), reciprocal = (int)(((1LL << bits) + p - 1) / p);
#pragma unroll
    for (int run = 0; run < BN / 64; ++run)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (half * 8 + g >= rows || run * 64 >= columns) continue;
            Words* to = (Words*)(c + (long long)(half * 8 + g) * ldc + run * 64 + 16 * t);
            Words x = {};
            if (ACCUMULATE) x = *to;
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                const int first = run * 32 + 8 * u + 2 * half;
                x.x[u] = residues_of(sums, {first, first + 1, first + 4, first + 5}, p, reciprocal, bits - 32, x.x[u]);
            }
            *to = x;
        }
}
#endif
