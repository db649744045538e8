// C := A (x) B over a (+) that selects, and K: for each element the smallest p that attains it, or -1.
//
//   loop over tiles of k, by BK         tiles of A (BM x BK) and B (BK x BN) in shared memory
//     loop over steps of a tile, by 1   TM values of A and TN of B in registers
//       loop over pairs of a step       TM * TN sums of this tile; no p is stored, which would triple the work of a pair
//     totals := totals (+) sums of this tile; where that changes one, its tile is stored: later tiles must improve
//   at the end, search the BK terms of each element's tile for the first that equals it
//
// (x) of one pair rounds the same each time, so equality finds the term. A NaN equals nothing and is never named.
#define EDGE 0 /* CONDITIONAL */
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"

constexpr int ROWS = BM / TM, COLUMNS = BN / TN, THREADS = ROWS * COLUMNS;

__device__ __forceinline__ int first_term(const T* row, const T* column, int ldb, int p, int end, T total)
{
    for (column += (long long)p * ldb; p < end; ++p, column += ldb)
        if (MULTIPLY(row[p], *column) == total) return p;
    return -1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    argk(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int* __restrict__ which, int m, int n,
         int k, int lda, int ldb, int ldc, const T* __restrict__ extremes)
{
    if (!is_chosen(extremes)) return;
    DYNAMIC_SHARED(tile_a);  // element (i, p) at [p * BM + i], (p, j) of B at [p * BN + j]
    T* tile_b = tile_a + BM * BK;
    const Tile tile = tile_of_block<BM, BN, 8>(m, n);
    const int me = threadIdx.x, y = me / COLUMNS, x = me % COLUMNS;
    T totals[TM][TN];
    int begins[TM][TN];
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
        for (int s = 0; s < TN; ++s) totals[r][s] = ZERO, begins[r][s] = -1;

    // loop over tiles of k
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int left = k - p0;
        for (int e = me; e < BM * BK; e += THREADS) {
            const int i = e / BK, p = e % BK;
            tile_a[p * BM + i] = load_if(a + (long long)(tile.row + i) * lda + p0 + p, tile.row + i < m && p < left);
        }
        for (int e = me; e < BK * BN; e += THREADS) {
            const int p = e / BN, j = e % BN;
            tile_b[e] = load_if(b + (long long)(p0 + p) * ldb + tile.column + j, p < left && tile.column + j < n);
        }
        __syncthreads();
        T sums[TM][TN];
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int s = 0; s < TN; ++s) sums[r][s] = ZERO;
        // loop over steps of a tile
#pragma unroll UNROLLED<4>
        for (int p = 0; p < min(BK, left); ++p) {
            T of_a[TM], of_b[TN];
#pragma unroll
            for (int r = 0; r < TM; ++r) of_a[r] = tile_a[p * BM + y * TM + r];
#pragma unroll
            for (int s = 0; s < TN; ++s) of_b[s] = tile_b[p * BN + x + s * COLUMNS];
            // loop over pairs of a step
#pragma unroll
            for (int r = 0; r < TM; ++r)
#pragma unroll
                for (int s = 0; s < TN; ++s) COMBINE(sums[r][s], of_a[r], of_b[s]);
        }
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int s = 0; s < TN; ++s) {
                const T better = ADD(totals[r][s], sums[r][s]);
                begins[r][s] = better != totals[r][s] ? p0 : begins[r][s];
                totals[r][s] = better;
            }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const int i = tile.row + y * TM + r;
#pragma unroll
        for (int s = 0; s < TN; ++s) {
            const int j = tile.column + x + s * COLUMNS, begin = begins[r][s];
            if (i >= m || j >= n) continue;
            const T total = totals[r][s];
            c[(long long)i * ldc + j] = total;
            which[(long long)i * n + j] =
                begin < 0 ? -1 : first_term(a + (long long)i * lda, b + j, ldb, begin, min(begin + BK, k), total);
        }
    }
}
