// A square of bits that becomes its product by itself: of what a warp stores, the same by columns, for the next product.
#pragma once
#include "lanes.cuh"
#include "neighbours.cuh"

struct Square {
    unsigned* turned;  // a row of words for each column, in the order of neighbours.cuh
    int pitch;         // words from row to row
    int has_changed;   // 1: a bit is new
};

// Eight rows of eight bits, a byte each, turned.
__device__ __forceinline__ unsigned long long turned_bits(unsigned long long x)
{
    unsigned long long swap = (x ^ x >> 7) & 0x00aa00aa00aa00aaull;
    x ^= swap ^ swap << 7;
    swap = (x ^ x >> 14) & 0x0000cccc0000ccccull;
    x ^= swap ^ swap << 14;
    swap = (x ^ x >> 28) & 0x00000000f0f0f0f0ull;
    return x ^ swap ^ swap << 28;
}

// Lanes g of a quarter, every fourth of a warp, have eight bytes each. Byte q of lane g becomes byte g of lane q.
__device__ __forceinline__ unsigned long long turned_bytes(unsigned long long x)
{
    const int g = threadIdx.x % 32 / 4;
    unsigned long long low = 0x00000000ffffffffull;  // bytes of the lower half of each piece
#pragma unroll
    for (int half = 4; half; half /= 2, low ^= low << 8 * half) {
        const unsigned long long other = of_lane_across(x, 4 * half);
        x = g & half ? (x & ~low) | (other >> 8 * half & low) : (x & low) | (other << 8 * half & ~low);
    }
    return x;
}

// Lane 4 g + t has columns 64 t to 64 t + 63, from `column` on, of rows g and g + 8, from `row` on.
__device__ __forceinline__ void store_turned(const Square* square, const unsigned long long* rows, int row, int column)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned long long low = turned_bits(turned_bytes(rows[0])), high = turned_bits(turned_bytes(rows[1]));
    unsigned short* to = (unsigned short*)square->turned + row / 16;
#pragma unroll
    for (int j = 0; j < 8; ++j)
        to[(long long)neighbour<256>(column + 64 * t + 8 * g + j) * (2 * square->pitch)] =
            (unsigned short)(low >> 8 * j & 0xff | (high >> 8 * j & 0xff) << 8);
}
