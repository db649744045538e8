// Small products of a batch: a warp computes a tile of one of them, and a block those of PRODUCTS products.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over tiles of k, by BK         tiles of A (BM x BK) and B (BK x BN) in shared memory, for each warp its own
//     loop over steps of a tile, by 1   TM values of A and TN of B in registers
//       loop over pairs of a step       TM * TN sums in registers
//
//   BM, BN, BK   tile of a warp                 TM, TN   tile of a thread
//   PRODUCTS     warps of a block               WIDTH_A, WIDTH_B   elements that a load takes
//   C_VECTORS    1: the TN elements of a row of C that a thread has are aligned and all exist, or none of them
//
// Warps do not wait for each other, and copies of small tiles are in flight for all warps of a multiprocessor at once. So
// there is neither a pipeline nor a barrier of the block. Rows and columns past the end are replaced by the last ones, whose
// sums are not stored; steps of k past the end are not computed.
//
// A row of A in shared memory has one element more than BM, so that the elements of a load, which are BM + 1 apart there,
// meet other banks. Rows of a thread are LANES_M apart, its columns side by side.
//
// Source: that of tiled.cu; several products for a block: Abdelfattah, Haidar, Tomov, Dongarra, "Performance, Design, and
// Autotuning of Batched GEMM for GPUs" (2016), section 4.
#include "semiring.cuh"
#include "grid.cuh"
#include "lanes.cuh"
#include "groups.cuh"

constexpr int LANES_M = BM / TM, LANES_N = BN / TN, STRIDE_A = BM + 1;
constexpr int ALIGNED = 32 / sizeof(T);  // elements after which every group begins as it must
constexpr int TILE_A = (BK * STRIDE_A + ALIGNED - 1) / ALIGNED * ALIGNED, TILE_B = BK * BN;
constexpr int LOADS_A = (BM * BK / WIDTH_A + 31) / 32, LOADS_B = (BK * BN / WIDTH_B + 31) / 32;
constexpr int UNROLLED_STEPS = IS_LONG ? 1 : BK;

static_assert(LANES_M * LANES_N == 32, "a warp has 32 threads");

__device__ __forceinline__ void combine_step(T (&sums)[TM][TN], const T* of_a, const T* of_b)
{
    T x[TM];
#pragma unroll
    for (int r = 0; r < TM; ++r) x[r] = of_a[r * LANES_M];
    const Group<TN> y = read<TN>(of_b);
    // loop over pairs of a step
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; ++s) COMBINE(sums[r][s], x[r], y.x[s]);
}

extern "C" __global__ void __launch_bounds__(32 * PRODUCTS) products(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = BLOCK_PRODUCT * PRODUCTS + warp;
    ENTER_PRODUCT(min(mine, products - 1))
    MOVE_TO_PRODUCT(a)
    MOVE_TO_PRODUCT(b)
    MOVE_TO_PRODUCT(c)
    DYNAMIC_SHARED(memory);
    T *tile_a = memory + warp * (TILE_A + TILE_B), *tile_b = tile_a + TILE_A;  // (i, p) at [p * STRIDE_A + i], (p, j) at [p * BN + j]
    const auto [row, column] = tile_of_block<BM, BN, 1>(m, n);
    const int y = lane / LANES_N, x = lane % LANES_N * TN;
    T sums[TM][TN];
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; ++s) sums[r][s] = ZERO;

    // loop over tiles of k
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int steps = min(BK, k - p0);
        Group<WIDTH_A> of_a[LOADS_A];
        Group<WIDTH_B> of_b[LOADS_B];
#pragma unroll
        for (int q = 0; q < LOADS_A; ++q) {
            const int e = (lane + q * 32) * WIDTH_A, i = e / BK % BM, p = min(e % BK, steps - WIDTH_A);
            of_a[q] = read<WIDTH_A>(a + (long long)min(row + i, m - 1) * lda + p0 + p);
        }
#pragma unroll
        for (int q = 0; q < LOADS_B; ++q) {
            const int e = (lane + q * 32) * WIDTH_B, p = min(e / BN % BK, steps - 1), j = e % BN;
            of_b[q] = read<WIDTH_B>(b + (long long)(p0 + p) * ldb + min(column + j, n - WIDTH_B));
        }
#pragma unroll
        for (int q = 0; q < LOADS_A; ++q) {
            const int e = (lane + q * 32) * WIDTH_A;
            if (BM * BK % (32 * WIDTH_A) && e >= BM * BK) break;
#pragma unroll
            for (int v = 0; v < WIDTH_A; ++v) tile_a[(e % BK + v) * STRIDE_A + e / BK] = of_a[q].x[v];
        }
#pragma unroll
        for (int q = 0; q < LOADS_B; ++q) {
            const int e = (lane + q * 32) * WIDTH_B;
            if (BK * BN % (32 * WIDTH_B) && e >= BK * BN) break;
            *(Group<WIDTH_B>*)(tile_b + e) = of_b[q];
        }
        meet_lanes();
        if (steps == BK) {
            // loop over steps of a tile
#pragma unroll UNROLLED_STEPS
            for (int p = 0; p < BK; ++p) combine_step(sums, tile_a + p * STRIDE_A + y, tile_b + p * BN + x);
        } else {
#pragma unroll 1
            for (int p = 0; p < steps; ++p) combine_step(sums, tile_a + p * STRIDE_A + y, tile_b + p * BN + x);
        }
        meet_lanes();
    }
    if (mine >= products) return;

    // loop over the rows of a thread, and over its columns
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const int i = row + y + r * LANES_M, j = column + x, end = end_of_row(i, n);
        if (i >= m || j >= end) continue;
        RESULT* address = c + (long long)i * ldc + j;
#if C_VECTORS
        if (j + TN > end) {  // the diagonal cuts the group
#pragma unroll
            for (int s = 0; s < TN; ++s)
                if (j + s < end) store(address + s, sums[r][s]);
            continue;
        }
        Group<TN> group;
#if ACCUMULATE
        group = read<TN>(address);
#pragma unroll
        for (int s = 0; s < TN; ++s) group.x[s] = ADD(group.x[s], sums[r][s]);
#else
#pragma unroll
        for (int s = 0; s < TN; ++s) group.x[s] = sums[r][s];
#endif
        check_aligned<sizeof(T) * TN>(address);
        *(Group<TN>*)address = group;
#else
#pragma unroll
        for (int s = 0; s < TN; ++s)
            if (j + s < end) store(address + s, sums[r][s]);
#endif
    }
}
