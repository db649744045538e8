// The sums of shares of k, added up in their order: so the result is the same in every run.
//
//   parts   tile after tile of BM x BN, of the `rest` tiles of C from tile `whole` on; then the same of the next share
//   out     of each of those tiles parts[0] (+) parts[1] (+) ..., or out (+) that sum, inside of C
//   grid    blocks of THREADS threads: PIECES consecutive blocks share one tile, EACH elements for each thread
//   LINES   threads for each element: the first adds up the first run of shares, the second the next, and the first thread
//           adds up those sums. With few elements and many shares, one thread after the other would wait for each load
//
// Source: CUTLASS, "Efficient GEMM in CUDA": parallel reductions over k, "split-K".
#include "semiring.cuh"
#include "grid.cuh"

// Elements of a thread: their loads are independent, so their latencies overlap.
constexpr int ACROSS = THREADS / LINES, TILE = BM * BN, PIECE = EACH * ACROSS, PIECES = (TILE + PIECE - 1) / PIECE;
static_assert(LINES == 1 || EACH == 1, "several elements a thread, or several threads an element");

__device__ __forceinline__ bool is_in_c(Tile tile, int element, int m, int n)
{
    const int i = tile.row + element / BN, j = tile.column + element % BN;
    return element < TILE && i < m && j < end_of_row(i, n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fold(const T* __restrict__ parts, int shares, int whole, int rest, T* __restrict__ out, int ld, int m, int n,
         const T* __restrict__ extremes)
{
    if (!is_chosen(extremes)) return;
    const int line = threadIdx.x / ACROSS, mine = threadIdx.x % ACROSS;
    const int index = blockIdx.x / PIECES, first = blockIdx.x % PIECES * PIECE + mine;
    const int run = (shares + LINES - 1) / LINES, begin = line * run, end = min(begin + run, shares);
    const Tile tile = tile_at<BM, BN, GROUP>(whole + index, m, n);
    const T* part = parts + ((long long)min(begin, shares - 1) * rest + index) * TILE;
    T totals[EACH];
    bool exists = false;  // any of the elements in C: of others nothing has been stored
#pragma unroll
    for (int u = 0; u < EACH; ++u) exists = exists || is_in_c(tile, first + u * ACROSS, m, n);
    if (exists) {
#pragma unroll
        for (int u = 0; u < EACH; ++u) totals[u] = part[min(first + u * ACROSS, TILE - 1)];
#pragma unroll (16 / EACH)
        for (int share = begin + 1; share < end; ++share) {
            part += (long long)rest * TILE;
#pragma unroll
            for (int u = 0; u < EACH; ++u) totals[u] = ADD(totals[u], part[min(first + u * ACROSS, TILE - 1)]);
        }
    }
#if LINES > 1
    __shared__ T runs[LINES][ACROSS];
    runs[line][mine] = totals[0];
    __syncthreads();
    if (line > 0) return;
#pragma unroll
    for (int other = 1; other < LINES; ++other)
        if (other * run < shares) totals[0] = ADD(totals[0], runs[other][mine]);
#endif
#pragma unroll
    for (int u = 0; u < EACH; ++u) {
        const int element = first + u * ACROSS, i = tile.row + element / BN, j = tile.column + element % BN;
        if (is_in_c(tile, element, m, n)) store(out + (long long)i * ld + j, totals[u]);
    }
}
