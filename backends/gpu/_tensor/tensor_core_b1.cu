// C := A (x) B over bools, 32 of them a word, on tensor cores, which count common ones along k:
//
//   or-and    the count is not 0          xor-and   the count is odd
//
//   IS_XOR      1: xor-and
//   ACCUMULATE  1: C := C (+) A (x) B
//   AT_ONCE     bytes of C that are stored at once: 16, if its rows begin at multiples of that, else 4 or 1
//
// A fragment holds two neighbours of a row, so every store would write two bytes. Instead shared memory, which no tile of A
// or B needs any more, collects the bytes of a tile.
//
// A word holds neighbours along k, of A (m, words) and of B (words, n): pack_bits.cu. k counts words here. Loops, tiles and
// edges: mma_tile.cuh. Source: PTX ISA, mma.m16n8k256 .b1 .and.popc.
#define T unsigned
#include "intrinsics.cuh"

typedef int Sum;
typedef unsigned char Result;
template <int WIDTH> struct alignas(WIDTH) Bytes {
    unsigned char x[WIDTH];
};
constexpr int DEPTH = 8;

__device__ __forceinline__ void multiply(int (*sums)[WN / 8][4], const unsigned (*a)[4], const unsigned (*b)[2]);
__device__ __forceinline__ bool is_chosen(const float*) { return true; }

#define STORE_TILE store_bytes
__device__ __forceinline__ void store_bytes(const int (*sums)[WN / 8][4], void* shared, unsigned char* c, int ldc, int rows,
                                            int columns, int warp_row, int warp_column, int);

#include "mma_tile.cuh"

__device__ __forceinline__ void multiply(int (*sums)[NI][4], const unsigned (*a)[OF_A], const unsigned (*b)[OF_B])
{
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int step = 0; step < NI; ++step) {
            const int j = i % 2 ? NI - 1 - step : step;
            mma_b1(sums[i][j], a[i], b[j]);
        }
}

__device__ __forceinline__ unsigned char value_of(int count) { return IS_XOR ? count % 2 : count != 0; }

// A bool of C, of any byte, and one of the product
__device__ __forceinline__ unsigned char joined(unsigned char before, unsigned char x)
{
    return IS_XOR ? (before != 0) ^ x : (before | x) != 0;
}

// Store the tile at c, of which `rows` and `columns` exist, through `shared`.
__device__ __forceinline__ void store_bytes(const int (*sums)[NI][4], void* shared, unsigned char* c, int ldc, int rows,
                                            int columns, int warp_row, int warp_column, int)
{
    constexpr int PITCH = BN + 16;  // an odd number of vectors: no bank conflicts between rows of a fragment
    static_assert(BM * PITCH <= STAGES * (TILE_A + TILE_B) * (int)sizeof(T), "the tile of C has room");
    unsigned char* tile = (unsigned char*)shared;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < NI; ++j) {
                const int* counts = sums[i][j] + 2 * half;
                const int place = (warp_row + i * 16 + half * 8 + g) * PITCH + warp_column + j * 8 + 2 * t;
                *(Bytes<2>*)(tile + place) = Bytes<2>{value_of(counts[0]), value_of(counts[1])};
            }
    __syncthreads();
    for (int index = threadIdx.x; index < BM * BN / AT_ONCE; index += THREADS) {
        const int row = index / (BN / AT_ONCE), column = index % (BN / AT_ONCE) * AT_ONCE, left = columns - column;
        if (row >= rows || left <= 0) continue;
        unsigned char* to = c + (long long)row * ldc + column;
        const unsigned char* from = tile + row * PITCH + column;
        if (left >= AT_ONCE) {
            Bytes<AT_ONCE> x = *(const Bytes<AT_ONCE>*)from;
            if (ACCUMULATE) {
                const Bytes<AT_ONCE> before = *(const Bytes<AT_ONCE>*)to;
                for (int v = 0; v < AT_ONCE; ++v) x.x[v] = joined(before.x[v], x.x[v]);
            }
            *(Bytes<AT_ONCE>*)to = x;
        } else {
            for (int v = 0; v < left; ++v)
                to[v] = ACCUMULATE ? joined(to[v], from[v]) : from[v];
        }
    }
}
