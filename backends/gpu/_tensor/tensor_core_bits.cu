// C := A (x) B over bools by wgmma, for sm_90a; bits, counts and their meaning are those of tensor_core_b1.cu.
//
// The instruction takes bits along k alone, so pack_bits.cu transposes B: a row of words for each column. It also orders
// these rows, 64 at a time (`neighbour` there). Then the 16 counts that a thread has of a row of C and 64 columns are
// neighbours, and a thread stores 16 bytes. A stage is 32 words, 1024 steps of k; k counts words.
//
//   IS_XOR      1: xor-and
//   IS_PACKED   1: C := C | A (x) B, and C is packed by rows, 64 columns an element. Rows of B are ordered 256 at a time, so
//               that a thread has 64 neighbours of a row of C. All columns of tiles exist. Nothing is computed where
//               `extremes` is the place of a 0.
//   IS_SQUARE   1, if packed: B is C by columns, and what changes in C is written to both (square.cuh)
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma .b1 .and.popc.
#define T unsigned
#define DEPTH 256
#define FLAGS ""  // both along k, the only layout of this instruction
#define KIND "b1"
#define INTEGERS
#define OPERATION ".and.popc"

constexpr int BK = 32, BYTES = (128 + BN) * 128;
constexpr bool FLUSHES = false;

#ifndef IS_PACKED
#define IS_PACKED 0
#endif
#ifndef IS_SQUARE
#define IS_SQUARE 0
#endif
#if IS_PACKED
#include "square.cuh"
typedef unsigned long long Result;
#define FACTOR Square*
#define PER_RESULT 64
#define READ_ROWS(c, ldc, rows) const Rows of_c = read_rows(c, ldc, rows);
#define STORE_ROWS(room, counts, square, c, ldc, rows, ...) store_bits(of_c, counts, c, ldc, square, i, place.column)

// Of two rows of C, what a thread has of them.
struct Rows {
    Result x[2];
};
__device__ __forceinline__ Rows read_rows(const Result* c, int ldc, int rows);
__device__ __forceinline__ void store_bits(const Rows& before, const int* counts, Result* c, int ldc, Square* square,
                                           int row, int column);
#else
typedef unsigned char Result;
struct alignas(16) Words {
    unsigned x[4];
};

#define STORE_ROWS store_bools
__device__ __forceinline__ void store_bools(void* memory, const int* counts, float, unsigned char* c, int ldc, int rows,
                                            int columns, int, int);
#endif

#include "truths.cuh"
#include "wgmma_tile.cuh"

constexpr int BYTES_A = BM * ROW_BYTES;

__device__ __forceinline__ bool is_chosen(const float* gate) { return !IS_PACKED || !gate || *(const int*)gate; }

__device__ __forceinline__ void fill(unsigned to, const TensorMap* a, const TensorMap* b, unsigned barrier,
                                     const Place& place, const Layers&, int p, int, int, int rank)
{
    constexpr int SHARE = BN / FETCHERS;  // rows of B's words, that is, columns of B
    copy_box(to, a, barrier, p, place.row);
    copy_box_to_all(to + BYTES_A + rank * SHARE * ROW_BYTES, b, barrier, p, place.column + rank * SHARE);
}

__device__ __forceinline__ void begin_step(int* counts, unsigned tile, int part, bool is_first)
{
    const unsigned long long a = describe(tile + part * (64 * ROW_BYTES), 16, 8 * ROW_BYTES);
    const unsigned long long b = describe(tile + BYTES_A, 16, 8 * ROW_BYTES);
#pragma unroll
    for (int p = 0; p < BK * 32 / DEPTH; ++p)  // advance by 32 bytes of a row
        multiply(counts, a + 2 * p, b + 2 * p, !is_first || p > 0);
}

// The result of counts of 16 neighbours, which a thread has of a row and a run of 64 columns. Two at a time in halves of a
// word, which suffices to tell counts from 0 or from even ones.
__device__ __forceinline__ unsigned halves_of(int low, int high)
{
    return IS_XOR ? (low & 1) | (high & 1) << 16 : min_in_halves(saturated_halves(low, high), 0x10001u);
}

#if IS_PACKED
static_assert(BN == 256 && !IS_XOR, "a thread has 64 neighbours of a row");

// 32 neighbours, of a row of C, whose counts begin at `counts`: a thread has two of every eight registers' columns.
__device__ __forceinline__ unsigned bits_of(const int* counts)
{
    unsigned bits = 0;
#pragma unroll
    for (int bit = 15; bit >= 0; --bit) {
        const int place = bit / 2 * 4 + bit % 2;
        bits = 2 * bits + min_in_halves(counts[place] + counts[place + 32] * 65536u, 0x10001u);
    }
    return bits;
}

__device__ __forceinline__ Rows read_rows(const Result* c, int ldc, int rows)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    Rows before;
#pragma unroll
    for (int half = 0; half < 2; ++half)
        before.x[half] = half * 8 + g < rows ? c[(long long)(half * 8 + g) * ldc + t] : 0;
    return before;
}

__device__ __forceinline__ void store_bits(const Rows& before, const int* counts, Result* c, int ldc, Square* square,
                                           int row, int column)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    bool is_new = false;
    Rows all;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int* of_row = counts + 2 * half;
        all.x[half] = before.x[half] | bits_of(of_row) | (Result)bits_of(of_row + 64) << 32;
        if (all.x[half] == before.x[half]) continue;  // as beyond the last row
        c[(long long)(half * 8 + g) * ldc + t] = all.x[half];
        is_new = true;
    }
    if (IS_SQUARE) {
        store_turned(square, all.x, row, column);
        if (is_new) square->has_changed = 1;
    }
}
#else
__device__ __forceinline__ Words bools_of(const int* counts)
{
    Words x;
#pragma unroll
    for (int u = 0; u < 4; ++u, counts += 8)
        x.x[u] = halves_of(counts[0], counts[4]) | halves_of(counts[1], counts[5]) << 8;
    return x;
}

// Bools of C, of any bytes, and as many of the product
template <class X> __device__ __forceinline__ X joined(X before, X x)
{
    return (X)(IS_XOR ? truths(before) ^ x : truths(before) | x);
}

// Store four rows of at most 128 bytes, of which `rows` and `columns` exist, a word for each lane. The row of C may begin
// anywhere: bytes before the first and after the last word are read first and kept.
__device__ __forceinline__ void store_rows(unsigned char* c, int ldc, const unsigned char* from, int pitch, int rows,
                                           int columns)
{
    const int lane = threadIdx.x % 32;
    unsigned words[4], bytes[4];
    int columns_of_words[4], columns_of_bytes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned char* row = from + i * pitch;
        const int head = min((int)(-(unsigned long long)(c + (long long)i * ldc) % 4), columns);
        const int tail = (columns - head) / 4 * 4 + head;
        const int j = columns_of_words[i] = head + 4 * lane;
        columns_of_bytes[i] = lane < 4 ? (lane < head ? lane : columns) : tail + lane - 4;
        const unsigned* around = (const unsigned*)(row + min(j, 124) / 4 * 4);
        words[i] = __funnelshift_r(around[0], around[1], j % 4 * 8);
        bytes[i] = row[min(columns_of_bytes[i], 127)];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned char* to = c + (long long)i * ldc;
        if (i >= rows) return;
        if (columns_of_words[i] + 4 <= columns) {
            unsigned* place = (unsigned*)(to + columns_of_words[i]);
            *place = ACCUMULATE ? joined(*place, words[i]) : words[i];
        }
        if (lane < 8 && columns_of_bytes[i] < columns) {
            unsigned char* place = to + columns_of_bytes[i];
            *place = ACCUMULATE ? joined(*place, (unsigned char)bytes[i]) : bytes[i];
        }
    }
}

// Store the results of a warp's counts: `rows` and `columns` exist from c on. If all exist and vectors may be stored,
// registers are stored directly. Else the results pass through `memory` and are stored by words, at any alignment in C.
__device__ __forceinline__ void store_bools(void* memory, const int* counts, float, unsigned char* c, int ldc, int rows,
                                            int columns, int, int)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if (WIDTH == 16 && rows >= 16 && columns >= BN) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int run = 0; run < BN / 64; ++run) {
                Words x = bools_of(counts + run * 32 + 2 * half);
                Words* to = (Words*)(c + (long long)(half * 8 + g) * ldc + run * 64 + 16 * t);
                if (ACCUMULATE) {
                    const Words before = *to;
                    for (int u = 0; u < 4; ++u) x.x[u] = joined(before.x[u], x.x[u]);
                }
                *to = x;
            }
        return;
    }
    constexpr int CHUNK = 128, PITCH = CHUNK + 16;  // columns stored together; bytes from row to row
    static_assert(16 * PITCH <= ROOM_BYTES, "the rows have room");
    unsigned char* room = (unsigned char*)memory;
#pragma unroll
    for (int chunk = 0; chunk < BN / CHUNK; ++chunk) {
        __syncwarp();
#pragma unroll
        for (int run = 0; run < CHUNK / 64; ++run)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *(Words*)(room + (half * 8 + g) * PITCH + run * 64 + 16 * t) =
                    bools_of(counts + (chunk * (CHUNK / 64) + run) * 32 + 2 * half);
        __syncwarp();
        const int exist = min(columns - chunk * CHUNK, CHUNK);
        for (int first = 0; first < min(rows, 16); first += 4)
            store_rows(c + (long long)first * ldc + chunk * CHUNK, ldc, room + first * PITCH, PITCH, min(rows - first, 4), exist);
    }
}
#endif
