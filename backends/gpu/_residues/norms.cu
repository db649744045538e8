// The norms of the rows of A and of the columns of B, and what they say about the values: the first pass of a product by
// residues. O(n^2) beside O(n^3).
//
//   grid   blocks of A's vectors, then blocks of B's. Of vectors whose elements are neighbours a warp sums one; of others a
//          lane, beside its neighbours, and the warps share its elements. The order of sums depends on neither GPU nor grid.
//
//   norms  log2 of the Euclidean norm of each vector, from above; EMPTY for zeros
//   look   the greatest spreads, and whether values are wild (look.cuh); zeros before
//
//   T  type of the elements    BALANCED  1: elements are multiplied by their factors (grades.cuh)
#include "look.cuh"
#include "grades.cuh"
#include "memory.cuh"

constexpr int THREADS = 1024, LANES = 32, WARPS = THREADS / LANES, AHEAD = 8;
// Sums of squares in this range are exact but for rounding, and all factors below are normal numbers.
constexpr double LOWEST = 0x1p-900, HIGHEST = 0x1p900, ABOVE = 1e-9;

struct Sums {
    double squares, sizes;
    __device__ void add(double x) { squares = fma(x, x, squares), sizes += fabs(x); }
    __device__ void add(const Sums& other) { squares += other.squares, sizes += other.sizes; }
};

__device__ __forceinline__ void conclude(const Sums& sums, int k, double* norm, unsigned* spread, unsigned* is_wild)
{
    *norm = EMPTY;
    if (sums.sizes == 0) return;
    if (!(sums.squares >= LOWEST && sums.squares <= HIGHEST)) {  // NaN too
        *is_wild = 1;
        return;
    }
    *norm = 0.5 * log2(sums.squares) + ABOVE;
    const unsigned square = __float_as_uint((float)(sums.squares / sums.sizes / sums.sizes * k));
    if (square > *(volatile unsigned*)spread) atomicMax(spread, square);
}

// Vectors from number `block` times 16 or 32 on; `is_along`: their elements are neighbours, else the vectors are.
__device__ __forceinline__ void look_at(const T* x, int ld, int is_along, int count, int k, double* norms, unsigned* spread,
                                        unsigned* is_wild, int block, const int* grades, int sign)
{
    __shared__ Sums of_warps[WARPS][LANES];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int i = is_along ? block * WARPS + warp : block * LANES + lane;
    const int first = is_along ? lane : warp, step = is_along ? LANES : WARPS;
    const T* from = x + (is_along ? (long long)i * ld : i);
    const long long ahead = is_along ? 1 : ld;
    Sums sums = {0, 0};
    if (i < count) {
        int p = first;
        for (; p + (AHEAD - 1) * step < k; p += AHEAD * step) {
            double values[AHEAD];
#pragma unroll
            for (int v = 0; v < AHEAD; ++v) values[v] = from[(p + v * step) * ahead] * factor_of(grades, p + v * step, sign);
#pragma unroll
            for (int v = 0; v < AHEAD; ++v) sums.add(values[v]);
        }
        for (; p < k; p += step) sums.add(from[p * ahead] * factor_of(grades, p, sign));
    }
    if (is_along) {
        for (int distance = LANES / 2; distance; distance /= 2)
            sums.add(Sums{shuffle_xor(sums.squares, distance), shuffle_xor(sums.sizes, distance)});
        if (lane == 0 && i < count) conclude(sums, k, norms + i, spread, is_wild);
        return;
    }
    of_warps[warp][lane] = sums;
    __syncthreads();
    if (warp > 0 || i >= count) return;
    for (int other = 1; other < WARPS; ++other) sums.add(of_warps[other][lane]);
    conclude(sums, k, norms + i, spread, is_wild);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    norms(const T* __restrict__ a, int lda, int a_is_along, int m, const T* __restrict__ b, int ldb, int b_is_along, int n,
          int k, double* norms_a, double* norms_b, Look* look, int blocks_a, const int* grades)
{
    const int block = blockIdx.x;
    if (block < blocks_a) look_at(a, lda, a_is_along, m, k, norms_a, &look->spread_a, &look->is_wild, block, grades, 1);
    else look_at(b, ldb, b_is_along, n, k, norms_b, &look->spread_b, &look->is_wild, block - blocks_a, grades, -1);
}
