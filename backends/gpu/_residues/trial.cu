// A trial of some elements: the fewest moduli with which they lose no more than sums in float64 would.
//
// The partial sums s_p of an element lose about ROUNDING u |s_p| each in float64, of either sign, so ROUNDING u (sum s_p^2)^(1/2).
// Where they cancel early, as of factors of a matrix, that is little. Rounding A and B to integers loses
// ((||x||^2 4^-f + ||y||^2 4^-e) / 12)^(1/2) for vectors x and y times 2^e and 2^f. Both are summed over the sample relative to
// |A||B|, which the vectors' sizes give.
//
//   grid    a group of neighbouring columns of B and a part of k each
//   block   loads that part of ROWS rows of A, evenly chosen, and of its columns. A thread follows a run of terms of one
//           element; runs are put together
//
// The last block to come puts parts together, and compares. Source of the first: Higham, "Accuracy and Stability" (2002), 2.8.
//
//   T  type of the elements
#include "look.cuh"
#include "bytes.cuh"
#include "grades.cuh"
#include "intrinsics.cuh"
#include "memory.cuh"

constexpr int THREADS = 512, ROWS = 32, GROUPS = 4, BESIDE = 4, PART = 256, PITCH = PART + 1;
constexpr int PAIRS = ROWS * BESIDE, RUNS = THREADS / PAIRS, RUN = PART / RUNS;  // of a block
constexpr int COUNTS = MOST - LEAST + 1;
static_assert(GROUPS * PAIRS == THREADS, "the last block has a thread for each element");
constexpr double MARGIN = 0.8 * 0.8;  // of squares: the sample's own chance
constexpr double ROUNDING = 0.41;  // root mean square of an error over u times the number, for numbers of any size

// Of consecutive terms: their sum, that of their sizes, and those of the partial sums and of their squares.
struct Run {
    double sum, sizes, partial, squares;

    __device__ __forceinline__ void add(double term)
    {
        sum += term, sizes += fabs(term), partial += sum, squares += sum * sum;
    }
    __device__ __forceinline__ void append(const Run& next, int length)  // the `length` terms after these
    {
        squares += next.squares + sum * (2 * next.partial + length * sum);
        partial += next.partial + length * sum;
        sum += next.sum, sizes += next.sizes;
    }
};

// Relative losses, squared, summed over elements: in float64, and by residues.
struct Losses {
    double native, by_count[COUNTS];
};

// How many of `size` terms from number `first` on there are.
__device__ __forceinline__ int length_of(int first, int size, int k) { return max(min(size, k - first), 0); }

// The losses of an element with the terms of `all`, whose vectors have norms of these logarithms, scaled by 2^-ceil of them.
__device__ __forceinline__ void add_losses(Losses& losses, const Run& all, double norm_a, double norm_b)
{
    if (all.sizes == 0) return;
    const double over = 1 / (all.sizes * all.sizes), x = norm_a - ceil(norm_a), y = norm_b - ceil(norm_b);
    losses.native += ROUNDING * ROUNDING * two_to(-2 * UNIT_BITS) * all.squares * over;
#pragma unroll
    for (int more = 0; more < COUNTS; ++more) {
        const double bits = half_bits(LEAST + more);
        const double e = exponent_for(norm_a, bits) + ceil(norm_a), f = exponent_for(norm_b, bits) + ceil(norm_b);
        losses.by_count[more] += (exp2(2 * (y - e)) + exp2(2 * (x - f))) / 12 * over;
    }
}

// Number `index` of `count` places, evenly chosen among `size`.
__device__ __forceinline__ int choose(int index, int count, int size) { return (int)((2LL * index + 1) * size / (2 * count)); }

// Column `beside` of a group.
__device__ __forceinline__ int column_of(int group, int beside, int n) { return min(choose(group, GROUPS, n) + beside, n - 1); }

// A power of two that brings a vector's norm to 1/2 .. 1.
__device__ __forceinline__ double scale_of(double norm) { return norm == EMPTY ? 0 : two_to(-(int)ceil(norm)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    trial(const T* __restrict__ a, long long a_down, long long a_across, int m, const T* __restrict__ b, long long b_down,
          long long b_across, int n, int k, const double* norms_a, const double* norms_b, Run* parts, unsigned* ticket,
          Look* look, const int* grades)
{
    DYNAMIC_SHARED(dynamic);
    double *of_a = (double*)dynamic, *of_b = of_a + ROWS * PITCH;  // [ROWS][PITCH], [BESIDE][PITCH]
    Run* runs = (Run*)dynamic;                                     // then [RUNS][PAIRS]
    Losses* losses = (Losses*)dynamic;                             // at last [THREADS]
    __shared__ int is_last;
    const int me = threadIdx.x, group = blockIdx.x % GROUPS, part = blockIdx.x / GROUPS, p0 = part * PART;
#pragma unroll 8
    for (int index = me; index < ROWS * PART; index += THREADS) {
        const int r = index / PART, p = index % PART, i = choose(r, ROWS, m);
        of_a[r * PITCH + p] = p0 + p < k ? (double)a[i * a_down + (p0 + p) * a_across] * scale_of(norms_a[i]) * factor_of(grades, p0 + p, 1) : 0;
    }
#pragma unroll
    for (int index = me; index < BESIDE * PART; index += THREADS) {
        const int p = index / BESIDE, c = index % BESIDE, j = column_of(group, c, n);
        of_b[c * PITCH + p] = p0 + p < k ? (double)b[(p0 + p) * b_down + j * b_across] * scale_of(norms_b[j]) * factor_of(grades, p0 + p, -1) : 0;
    }
    __syncthreads();
    const int pair = me % PAIRS, run = me / PAIRS, begin = run * RUN;
    const double *x = of_a + pair / BESIDE * PITCH, *y = of_b + pair % BESIDE * PITCH;
    Run mine = {};
#pragma unroll 4
    for (int p = begin; p < min(begin + RUN, k - p0); ++p) mine.add(x[p] * y[p]);
    __syncthreads();
    runs[run * PAIRS + pair] = mine;
    __syncthreads();
    if (run == 0) {
        for (int next = 1; next < RUNS; ++next) mine.append(runs[next * PAIRS + pair], length_of(p0 + next * RUN, RUN, k));
        parts[(part * GROUPS + group) * PAIRS + pair] = mine;
    }
    publish();
    __syncthreads();
    if (me == 0) is_last = take_ticket(ticket, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    publish();
    Run all = {};
#pragma unroll 4
    for (int next = 0; next < gridDim.x / GROUPS; ++next) all.append(parts[next * THREADS + me], length_of(next * PART, PART, k));
    const double norm_a = norms_a[choose(pair / BESIDE, ROWS, m)], norm_b = norms_b[column_of(run, pair % BESIDE, n)];
    losses[me] = Losses{};
    add_losses(losses[me], all, norm_a, norm_b);
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (me >= half) continue;
        losses[me].native += losses[me + half].native;
        for (int more = 0; more < COUNTS; ++more) losses[me].by_count[more] += losses[me + half].by_count[more];
    }
    if (me > 0) return;
    int count = LEAST;
    while (count <= MOST && !(losses[0].by_count[count - LEAST] <= MARGIN * losses[0].native)) ++count;
    look->trial = count;
}
