// The norms of the rows of A and of the columns of B, what they say about the values, and a trial of some elements (trial.cuh): the
// first pass of a product by residues. O(n^2) beside O(n^3).
//
//   grid   blocks of the trial, then of A's vectors, then of B's. Of vectors whose elements are neighbours a warp sums one; of
//          others half a warp sums neighbours, and the warps share their elements. The order of sums depends on neither GPU nor
//          grid. The last of the trial's blocks concludes it
//
//   norms  log2 of the Euclidean norm of each vector, from above; EMPTY for zeros
//   means  root mean square of each, from above, if PROVES; 0 for zeros
//   extents  the greatest element and the sum of sizes of each, if CERTIFIES (look.cuh)
//   look   the greatest spreads, whether values are wild, and the number of moduli by the trial (look.cuh); zeros before
//
//   T  type of the elements    BALANCED  1: elements are multiplied by their factors (grades.cuh)    TRIES  0: there is no trial
#include "chain.cuh"
#include "look.cuh"
#include "bytes.cuh"
#include "grades.cuh"
#include "intrinsics.cuh"
#include "memory.cuh"

constexpr int THREADS = 512, LANES = 32, WARPS = THREADS / LANES, AHEAD = 8;
constexpr int ACROSS = 16, HALVES = LANES / ACROSS;  // vectors beside each other of a block, and steps that a warp takes of them

// Sums of squares in this range are exact but for rounding, and all factors below are normal numbers.
constexpr double LOWEST = 0x1p-900, HIGHEST = 0x1p900, ABOVE = 1e-9;

#include "trial.cuh"

struct Sums {
    double squares, sizes, most;
    __device__ void add(double x)
    {
        squares = fma(x, x, squares), sizes += fabs(x);
        if (CERTIFIES) most = fmax(most, fabs(x));
    }
    __device__ void add(const Sums& other)
    {
        squares += other.squares, sizes += other.sizes;
        if (CERTIFIES) most = fmax(most, other.most);
    }
};

// What is left of each vector, and of all.
struct Found {
    double *norms, *means;
    Extent* extents;
    unsigned *spread, *is_wild;
};

__device__ __forceinline__ void conclude(const Sums& sums, int k, const Found& found, int i)
{
    double* norm = found.norms + i;
    unsigned *spread = found.spread, *is_wild = found.is_wild;
    *norm = EMPTY;
    if (PROVES) found.means[i] = 0;
    if (CERTIFIES) {
        const int unit = sums.sizes == 0 ? 0 : exponent_of(sums.most) + 1;
        found.extents[i] = Extent{unit, (float)(sums.sizes * two_to(max(-unit, -1000)))};
    }
    if (sums.sizes == 0) return;
    if (!(sums.squares >= LOWEST && sums.squares <= HIGHEST)) {  // NaN too
        *is_wild = 1;
        return;
    }
    *norm = 0.5 * log2(sums.squares) + ABOVE;
    if (PROVES) found.means[i] = sqrt(sums.squares / k) * (1 + ABOVE);
    const unsigned square = __float_as_uint((float)(sums.squares / sums.sizes / sums.sizes * k));
    if (square > *(volatile unsigned*)spread) atomicMax(spread, square);
}

// Vectors from number `block` times 16 on; `is_along`: their elements are neighbours, else the vectors are.
__device__ __forceinline__ void look_at(const T* x, int ld, int is_along, int count, int k, const Found& found, int block,
                                        const int* grades, int sign)
{
    static_assert(WARPS == ACROSS, "blocks take as many vectors of either kind");
    __shared__ Sums of_warps[WARPS][ACROSS];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int i = block * ACROSS + (is_along ? warp : lane % ACROSS);
    const int first = is_along ? lane : warp * HALVES + lane / ACROSS, step = is_along ? LANES : WARPS * HALVES;
    const T* from = x + (is_along ? (long long)i * ld : i);
    const long long ahead = is_along ? 1 : ld;
    Sums sums = {};
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
    for (int distance = LANES / 2; distance >= (is_along ? 1 : ACROSS); distance /= 2)
        sums.add(Sums{shuffle_xor(sums.squares, distance), shuffle_xor(sums.sizes, distance),
                      CERTIFIES ? shuffle_xor(sums.most, distance) : 0});
    if (is_along) {
        if (lane == 0 && i < count) conclude(sums, k, found, i);
        return;
    }
    if (lane < ACROSS) of_warps[warp][lane] = sums;
    __syncthreads();
    if (warp > 0 || lane >= ACROSS || i >= count) return;
    for (int other = 1; other < WARPS; ++other) sums.add(of_warps[other][lane]);
    conclude(sums, k, found, i);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    norms(const T* __restrict__ a, int lda, int a_is_along, int m, const T* __restrict__ b, int ldb, int b_is_along, int n,
          int k, double* norms_a, double* norms_b, double* means_a, double* means_b, Extent* extents_a, Extent* extents_b,
          Look* look, const int* grades, Part* parts, unsigned* ticket)
{
    DYNAMIC_SHARED(dynamic);
    await_launch_before();
    const int tries = TRIES ? GROUPS * ((k + PART - 1) / PART) : 0, blocks_a = (m + ACROSS - 1) / ACROSS;
    const int block = (int)blockIdx.x - tries;
    const Samples samples = {a, b, a_is_along ? lda : 1, a_is_along ? 1 : lda, b_is_along ? 1 : ldb, b_is_along ? ldb : 1,
                             m, n, k, grades};
    if (block >= blocks_a)
        return look_at(b, ldb, b_is_along, n, k, Found{norms_b, means_b, extents_b, &look->spread_b, &look->is_wild},
                       block - blocks_a, grades, -1);
    if (block >= 0)
        return look_at(a, lda, a_is_along, m, k, Found{norms_a, means_a, extents_a, &look->spread_a, &look->is_wild}, block,
                       grades, 1);
    __shared__ int is_last;
    try_part(samples, blockIdx.x, (double*)dynamic, parts);
    publish();
    __syncthreads();
    if (threadIdx.x == 0) is_last = take_ticket(ticket, tries) == tries - 1;
    __syncthreads();
    if (!is_last) return;
    publish();
    conclude_trial(samples, parts, tries / GROUPS, (double*)dynamic, look);
}
