// C := A B, or C + A B, in float64 by mma.sync, from tiles that the copy engine fetches; for sm_90a. The rounding is that of
// tensor_core_f64.cu.
//
// An operand along k (boxes.cuh) has rows of BK = 16 steps, 128 bytes; another one boxes of BK rows of 16 rows of A, or columns of
// B. Fragments are multiplied transposed, (A B)' = B' A'. The instruction leaves open which steps of k, rows and columns its numbers
// mean, if those of A and B are the same. So every load is of 16 bytes, two steps or two places along the side, and nothing is
// rearranged. With lane = 4 g + t, rows and columns are those of C:
//
//   of B, by rows      columns 2 g, 2 g + 1 of 16              steps 2 t, 2 t + 1 of 8    C   columns 2 g, 2 g + 1
//   of B, by columns   the same of h, g with two bits exchanged                               columns 2 h, 2 h + 1
//   of A, by rows      row g / 2 + 4 (g % 2) of 8              steps 2 t, 2 t + 1 of 8        rows t, t + 4
//   of A, by columns   rows 2 g, 2 g + 1 of 16, of two fragments                              rows 4 t, 4 t + 2, and those after
//
// so that eight lanes read 128 bytes of different banks: the swizzle permutes pieces of 16 bytes by the row's number.
//
//   WM, WN      rows and columns of C of a warp, 32 x 64 or 64 x 32
//   K_STEP      steps of k of an instruction: 4, 8 or 16
//   WIDTH       elements of C that are stored at once, 2 where its rows allow
//   ACCUMULATE  1: C := C + A B
//   UNLESS      defined: computed only if an integer in GPU memory is 0 (product.py of _residues)
//
// Loops, roles and edges: tma_tile.cuh. Source: PTX ISA, mma.m16n8k4, k8, k16 .f64.
#define T double
typedef double Result;

constexpr int BK = 16, BOX_COLUMNS = 16;
constexpr int ARRIVALS = 8;  // of the warps

#include "boxes.cuh"
#include "tma_tile.cuh"
#include "mma_intrinsics.cuh"

constexpr int MI = WN / 16, NI = WM / 8;  // the instruction's rows are columns of C
static_assert(WM * WN * ARRIVALS == BM * BN && WM % 16 == 0 && WN % 16 == 0, "eight warps cut the tile evenly");

struct alignas(16) Pair {
    double x, y;
};

#ifdef UNLESS
__device__ __forceinline__ bool is_chosen(const float* moduli) { return *(const int*)moduli == 0; }
#else
__device__ __forceinline__ bool is_chosen(const float*) { return true; }
#endif

// Position of 16 bytes of a row: the swizzle permutes pieces by the number of the row.
__device__ __forceinline__ int place(int row, int piece) { return row * ROW_BYTES + ((piece ^ row % 8) << 4); }

__device__ __forceinline__ void store_pair(double* to, double x, double y, int left)
{
    if (WIDTH == 2 && left >= 2) {
        *(Pair*)to = ACCUMULATE ? Pair{to[0] + x, to[1] + y} : Pair{x, y};
    } else {
        if (left > 0) to[0] = ACCUMULATE ? to[0] + x : x;
        if (left > 1) to[1] = ACCUMULATE ? to[1] + y : y;
    }
}

__device__ __forceinline__ void compute(Ring& ring, unsigned char* memory, double* c, int ldc, int index, int m, int n,
                                        int steps, float)
{
    const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp_row = warp / (BN / WN) * WM, warp_column = warp % (BN / WN) * WN;
    const int row_of_a = g / 2 + g % 2 * 4, pair_of_b = SECOND_ALONG_K ? g / 4 * 4 + g % 2 * 2 + g / 2 % 2 : g;
    const unsigned char* tile_a = memory + warp_row * ROW_BYTES;
    const unsigned char* tile_b = memory + BYTES_FIRST + warp_column / BOX_COLUMNS * BOX;
    // Of A for each half of the steps, or of two steps; of B for two columns, or of two steps
    const unsigned char *from_a[2], *from_b[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) {
        from_a[v] = tile_a + (FIRST_ALONG_K ? place(row_of_a, t + 4 * v) : place(2 * t + v, g));
        from_b[v] = tile_b + (SECOND_ALONG_K ? place(2 * pair_of_b + v, t) : place(2 * t + v, g));
    }
    const int half_of_b = SECOND_ALONG_K ? place(2 * pair_of_b, t + 4) - place(2 * pair_of_b, t) : 8 * ROW_BYTES;
    double sums[MI][NI][4] = {};
    auto leave = [&](int stage) {
        end_reads();
        __syncwarp();
        release(ring, stage, lane);
    };
    int before = -1;
    for (int step = 0; step < steps; ++step) {
        wait(ring.full + 8 * ring.stage, ring.parity);
        if (before >= 0) leave(before);  // not sooner: its last loads may still have been pending
        before = ring.stage;
        const int stage = ring.stage * BYTES;
        double of_b[MI][8], of_a[NI][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // of the 16 steps of k
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int v = 0; v < 2; ++v) {
                    const Pair x = *(const Pair*)(from_b[v] + half * half_of_b + stage + i * BOX);
                    of_b[i][4 * half + (SECOND_ALONG_K ? v : 2 * v)] = x.x;
                    of_b[i][4 * half + (SECOND_ALONG_K ? v + 2 : 2 * v + 1)] = x.y;
                }
#if FIRST_ALONG_K
#pragma unroll
            for (int j = 0; j < NI; ++j)
                *(Pair*)(of_a[j] + 2 * half) = *(const Pair*)(from_a[half] + stage + j * 8 * ROW_BYTES);
#else
#pragma unroll
            for (int j = 0; j < NI; j += 2)
#pragma unroll
                for (int v = 0; v < 2; ++v) {
                    const Pair x = *(const Pair*)(from_a[v] + stage + j / 2 * BOX + half * 8 * ROW_BYTES);
                    of_a[j][2 * half + v] = x.x, of_a[j + 1][2 * half + v] = x.y;
                }
#endif
        }
        ring.advance();
#pragma unroll
        for (int p = 0; p < BK; p += K_STEP)
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                // Alternating direction: the last fragment is used twice in a row.
                for (int iteration = 0; iteration < NI; ++iteration) {
                    const int j = i % 2 ? NI - 1 - iteration : iteration;
                    mma_f64<K_STEP>(sums[i][j], of_b[i] + p / 2, of_a[j] + p / 4);
                }
    }
    leave(before);
    const auto [row, column, layer] = locate(index, m, n);
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
        for (int v = 0; v < 2; ++v) {
            const int i_of_c = row + warp_row + (FIRST_ALONG_K ? j * 8 + t + 4 * v : j / 2 * 16 + 4 * t + 2 * v + j % 2);
            const int j_of_c = column + warp_column + 2 * pair_of_b;
            if (i_of_c >= m) continue;
            const int end = end_of_row(i_of_c, n);
            double* to = c + (long long)i_of_c * ldc + j_of_c;
#pragma unroll
            for (int i = 0; i < MI; ++i)
                store_pair(to + i * 16, sums[i][j][v], sums[i][j][v + 2], end - j_of_c - i * 16);
        }
}
