// The sums of shares of k, added up in their order: so the result is the same in every run.
//
//   parts   tile after tile of BM x BN, of the `rest` tiles of C from tile `whole` on; then the same of the next share
//   out     of each of those tiles parts[0] (+) parts[1] (+) ..., or out (+) that sum, inside of C
//   grid    blocks of THREADS threads: PIECES consecutive blocks share one tile, EACH elements for each thread
//
// Source: CUTLASS, "Efficient GEMM in CUDA": parallel reductions over k, "split-K".
#include "semiring.cuh"
#include "grid.cuh"

// Elements of a thread: their loads are independent, so their latencies overlap.
constexpr int TILE = BM * BN, PIECE = EACH * THREADS, PIECES = (TILE + PIECE - 1) / PIECE;

extern "C" __global__ void __launch_bounds__(THREADS)
    fold(const T* __restrict__ parts, int shares, int whole, int rest, T* __restrict__ out, int ld, int m, int n,
         const T* __restrict__ extremes)
{
    if (!is_chosen(extremes)) return;
    const int index = blockIdx.x / PIECES, first = blockIdx.x % PIECES * PIECE + threadIdx.x;
    const Tile tile = tile_at<BM, BN, GROUP>(whole + index, m, n);
    const T* part = parts + (long long)index * TILE;
    T totals[EACH];
#pragma unroll
    for (int u = 0; u < EACH; ++u) totals[u] = part[min(first + u * THREADS, TILE - 1)];
#pragma unroll (16 / EACH)
    for (int share = 1; share < shares; ++share) {
        part += (long long)rest * TILE;
#pragma unroll
        for (int u = 0; u < EACH; ++u) totals[u] = ADD(totals[u], part[min(first + u * THREADS, TILE - 1)]);
    }
#pragma unroll
    for (int u = 0; u < EACH; ++u) {
        const int element = first + u * THREADS, i = tile.row + element / BN, j = tile.column + element % BN;
        if (element < TILE && i < m && j < end_of_row(i, n)) store(out + (long long)i * ld + j, totals[u]);
    }
}
