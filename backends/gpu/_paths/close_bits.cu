// Reachability with 32 edges a word: what it takes beside products of bits (tensor_core_bits.cu).
//
//   take_octets, give_octets   rows of bytes, of eight edges each, to rows of words and back
//   put_one                    each vertex reaches itself
//   turn                       rows of pivots, by columns: B of a product
//
// Rows of D are words, the lowest bit first, and zeros beyond the last vertex.
#include "chain.cuh"
#include "lanes.cuh"
#include "neighbours.cuh"
#include "square.cuh"

constexpr int THREADS = 256, BITS = 32;
constexpr int SIDE = 256, WORDS = SIDE / BITS, PITCH = WORDS + 1;  // of a tile that is turned

struct alignas(16) Four {
    unsigned x[4];
};

// Bits after the last edge are no edges. Octets may be the rows of words themselves.
extern "C" __global__ void __launch_bounds__(THREADS)
    take_octets(const unsigned char* octets, int bytes, int rows, unsigned* d, int ld)
{
    await_launch_before();
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int w = threadIdx.x; w < ld; w += THREADS) {
            const unsigned char* from = octets + (long long)i * bytes + 4 * w;
            unsigned word = 0;
            if (bytes % 4 == 0 && 4 * w < bytes) word = *(const unsigned*)from;
            else
                for (int byte = 0; byte < 4 && 4 * w + byte < bytes; ++byte) word |= (unsigned)from[byte] << 8 * byte;
            if (rows - w * BITS < BITS) word &= rows > w * BITS ? (1u << rows % BITS) - 1 : 0;
            d[(long long)i * ld + w] = word;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    give_octets(const unsigned* d, int ld, int rows, unsigned char* octets, int bytes)
{
    await_launch_before();
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int byte = threadIdx.x; byte < bytes; byte += THREADS)
            octets[(long long)i * bytes + byte] = (unsigned char)(d[(long long)i * ld + byte / 4] >> 8 * (byte % 4));
}

extern "C" __global__ void __launch_bounds__(THREADS) put_one(unsigned* d, int ld, int rows)
{
    await_launch_before();
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < rows) d[(long long)i * ld + i / BITS] |= 1u << i % BITS;
}

// The square of 32 bits whose row `lane` is `row`, turned: halves, quarters and so on of its rows and columns change places.
__device__ __forceinline__ unsigned turned_square(unsigned row)
{
    const int lane = threadIdx.x % 32;
    unsigned low = 0x0000ffffu;  // columns of the lower half of each piece
#pragma unroll
    for (int half = 16; half; half /= 2, low ^= low << half) {
        const unsigned other = of_lane_across(row, half);
        row = lane & half ? (row & ~low) | (other >> half & low) : (row & low) | (other << half & ~low);
    }
    return row;
}

// `turned`, `pitch` words a row: a row for each column of D from `from` on, in the order of neighbours.cuh, of pivots, rows
// from `first` on; those from `rows` on are zeros. A block turns one tile. `count` squares of these columns will follow.
extern "C" __global__ void __launch_bounds__(THREADS)
    turn(const unsigned* d, int ld, int rows, int first, int from, unsigned* turned, int pitch, Square* squares, int count)
{
    await_launch_before();
    if (blockIdx.x + blockIdx.y == 0 && threadIdx.x < count)
        squares[threadIdx.x] = Square{turned + (long long)from * pitch, pitch, 0};
    __shared__ unsigned tile[SIDE * PITCH];
    const int i = first + blockIdx.y * SIDE + threadIdx.x, j = from + blockIdx.x * SIDE;
    Four words[WORDS / 4] = {};
    if (i < rows)
#pragma unroll
        for (int v = 0; v < WORDS / 4; ++v) words[v] = ((const Four*)(d + (long long)i * ld + j / BITS))[v];
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
        tile[(w * BITS + threadIdx.x % 32) * PITCH + threadIdx.x / 32] = turned_square(words[w / 4].x[w % 4]);
    __syncthreads();
    const unsigned* mine = tile + threadIdx.x * PITCH;
    Four* to = (Four*)(turned + (long long)neighbour<SIDE>(j + threadIdx.x) * pitch + blockIdx.y * WORDS);
#pragma unroll
    for (int v = 0; v < WORDS / 4; ++v) to[v] = Four{mine[4 * v], mine[4 * v + 1], mine[4 * v + 2], mine[4 * v + 3]};
}
