// C := A B, or C + A B, in float32 by three TF32 products through wgmma, for sm_90a; the rule is that of tensor_core_f32.cu:
//
//   x = high + low      a b ~ high(a) high(b) + high(a) low(b) + low(a) high(b)
//
// wgmma reads its operands from shared memory, so a pass before this kernel (split.cu) makes the parts. High parts of A lie
// above low ones. B has the same parts transposed, since the instruction takes TF32 along k alone. A stage is 32 steps of k
// of all four. Tensor cores truncate sums: `terms` begins anew with each stage, so that the error stays small. Ordinary
// float32 additions add it to the sums while the other warpgroup computes.
//
//   FORM  IF_SAFE: return at once unless `extremes` says that high and low are finite, normal numbers (semiring.cuh)
//
// Loops, roles and edges: wgmma_tile.cuh. Source: Ootomo and Yokota (2022), section 3; PTX ISA, wgmma .tf32.
#define DEPTH 8
#define FLAGS ""  // both along k, the only layout of this instruction
#define KIND "tf32"

typedef float Result;

constexpr int BK = 32, BYTES = 2 * (128 + BN) * 128;
constexpr bool FLUSHES = true;

#include "semiring.cuh"
#include "wgmma_tile.cuh"

constexpr int BYTES_A = BM * ROW_BYTES, BYTES_B = BN * ROW_BYTES;

__device__ __forceinline__ void fill(unsigned to, const TensorMap* a, const TensorMap* b, unsigned barrier,
                                     const Place& place, const Layers&, int p, int m, int n, int rank)
{
    constexpr int SHARE = BN / FETCHERS;  // rows of B's parts, that is, columns of B
    const int first = rank * SHARE;
    copy_box(to, a, barrier, p, place.row);
    copy_box(to + BYTES_A, a, barrier, p, m + place.row);
    copy_box_to_all(to + 2 * BYTES_A + first * ROW_BYTES, b, barrier, p, place.column + first);
    copy_box_to_all(to + 2 * BYTES_A + BYTES_B + first * ROW_BYTES, b, barrier, p, n + place.column + first);
}

__device__ __forceinline__ void begin_step(float* terms, unsigned tile, int part, bool)
{
    const unsigned from_a = tile + part * (64 * ROW_BYTES), from_b = tile + 2 * BYTES_A;
    const unsigned long long high_a = describe(from_a, 16, 8 * ROW_BYTES);
    const unsigned long long low_a = describe(from_a + BYTES_A, 16, 8 * ROW_BYTES);
    const unsigned long long high_b = describe(from_b, 16, 8 * ROW_BYTES);
    const unsigned long long low_b = describe(from_b + BYTES_B, 16, 8 * ROW_BYTES);
#pragma unroll
    for (int p = 0; p < BK / DEPTH; ++p) {  // advance by 32 bytes of a row; the small products first
        multiply(terms, low_a + 2 * p, high_b + 2 * p, p > 0);
        multiply(terms, high_a + 2 * p, low_b + 2 * p, 1);
    }
#pragma unroll
    for (int p = 0; p < BK / DEPTH; ++p) multiply(terms, high_a + 2 * p, high_b + 2 * p, 1);
}
