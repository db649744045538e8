// C := A B, or C + A B, in complex128 on float64 tensor cores, from tiles that the copy engine fetches; for sm_90a. Both operands
// are read as they lie, and there are no passes.
//
// A complex product is a real one of twice as many steps: with the parts of a row of A as neighbours, re and im in turn, those of
// an element of C are its products with two real lines of a column of B,
//
//   re = A . (b_re, -b_im)        im = A . (b_im, b_re)
//
// Fragments are multiplied transposed, (A B)' = B' A', so that an instruction computes both parts of 8 columns of 8 rows. A load
// of 16 bytes is one number: of A two steps of a fragment, of B two of the four numbers of one, which gets the others by moves and
// changes of sign. Conjugates change signs alone.
//
// Along k a tile has rows of BK numbers, 128 bytes; across it boxes of 8 numbers and BK rows (boxes.cuh). In either case 1024 bytes
// are 8 lines of C by 8 steps. With lane = 4 g + t, of each 8 x 8 it reads line g at steps 2 t, 2 t + 1, and has column g of C in rows
// 2 t, 2 t + 1. The swizzle permutes pieces of 16 bytes by the row's number, so that eight lanes read different banks.
//
//   WM, WN      rows and columns of C of a warp, 64 x 16; of 32 x 32, twice as many numbers of B would be made
//   K_STEP      real steps of an instruction: 16
//   ACCUMULATE  1: C := C + A B
//   A_SIGN, B_SIGN  -1: the operand is conjugated
//
// Loops, roles and edges: tma_tile.cuh. Source: PTX ISA, mma.m16n8k16 .f64; Van Zee, "Implementing High-Performance Complex Matrix
// Multiplication via the 1M Method" (2020), for the two lines of B.
#define T double

struct alignas(16) Number {
    double re, im;
};
typedef Number Result;

constexpr int BK = 8, BOX_COLUMNS = 8;
constexpr int ARRIVALS = BM / 16;  // of the warps

#define MAP_UNITS 2
#include "boxes.cuh"
#include "tma_tile.cuh"
#include "mma_intrinsics.cuh"

constexpr int MI = WN / 8, NI = WM / 8;  // the instruction's rows are columns of C
static_assert(WM * WN * ARRIVALS == BM * BN && WM % 8 == 0 && WN % 8 == 0, "the warps cut the tile evenly");

__device__ __forceinline__ bool is_chosen(const float*) { return true; }

// Position of 16 bytes of a row: the swizzle permutes pieces by the number of the row.
__device__ __forceinline__ int place(int row, int piece) { return row * ROW_BYTES + ((piece ^ row % 8) << 4); }

__device__ __forceinline__ void compute(Ring& ring, unsigned char* memory, Number* c, int ldc, int index, int m, int n, int steps,
                                        float)
{
    const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp_row = warp / (BN / WN) * WM, warp_column = warp % (BN / WN) * WN;
    const unsigned char *from_a[2], *from_b[2];  // of two steps
#pragma unroll
    for (int v = 0; v < 2; ++v) {
        const int along = place(g, 2 * t + v), across = place(2 * t + v, g);
        from_a[v] = memory + warp_row * ROW_BYTES + (FIRST_ALONG_K ? along : across);
        from_b[v] = memory + BYTES_FIRST + warp_column * ROW_BYTES + (SECOND_ALONG_K ? along : across);
    }
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
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int v = 0; v < 2; ++v) {
                const Number x = *(const Number*)(from_b[v] + stage + i * 8 * ROW_BYTES);
                double* lines = of_b[i] + 4 * v;  // of re and im, for the real part of A and for the imaginary one
                lines[0] = x.re, lines[1] = B_SIGN * x.im;
                lines[2] = -A_SIGN * B_SIGN * x.im, lines[3] = A_SIGN * x.re;
            }
#pragma unroll
        for (int j = 0; j < NI; ++j)
#pragma unroll
            for (int v = 0; v < 2; ++v) *(Number*)(of_a[j] + 2 * v) = *(const Number*)(from_a[v] + stage + j * 8 * ROW_BYTES);
        ring.advance();
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            // Alternating direction: the last fragment is used twice in a row.
            for (int iteration = 0; iteration < NI; ++iteration) {
                const int j = i % 2 ? NI - 1 - iteration : iteration;
                mma_f64<K_STEP>(sums[i][j], of_b[i], of_a[j]);
            }
    }
    leave(before);
    const auto [row, column, layer] = locate(index, m, n);
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
        for (int v = 0; v < 2; ++v) {
            const int i_of_c = row + warp_row + j * 8 + 2 * t + v, j_of_c = column + warp_column + g;
            if (i_of_c >= m) continue;
            Number* to = c + (long long)i_of_c * ldc + j_of_c;
#pragma unroll
            for (int i = 0; i < MI; ++i) {
                if (j_of_c + i * 8 >= n) continue;
                const Number sum = {sums[i][j][v], sums[i][j][v + 2]};
                to[i * 8] = ACCUMULATE ? Number{to[i * 8].re + sum.re, to[i * 8].im + sum.im} : sum;
            }
        }
}
