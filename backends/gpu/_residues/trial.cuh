// A trial of some elements: the fewest moduli with which they lose no more than sums in float64 would.
//
// The partial sums s_p of an element lose about ROUNDING u |s_p| each in float64, of either sign, so ROUNDING u (sum s_p^2)^(1/2).
// Where they cancel early, as of factors of a matrix, that is little. Rounding A and B to integers loses
// ((||x||^2 4^-f + ||y||^2 4^-e) / 12)^(1/2) for vectors x and y times 2^e and 2^f. Both are summed over the sample relative to
// |A||B|, which the vectors' sizes give.
//
//   work    a group of neighbouring columns of B and a part of k each
//   block   loads that part of ROWS rows of A, evenly chosen, and of its columns, and scales it to at most 2: norms are not known
//           yet. A thread follows a run of terms of one element; runs are put together
//   end     the last of these blocks puts parts together, and the norms of their vectors, and compares
//
// Source of the first: Higham, "Accuracy and Stability" (2002), 2.8.
//
// Defined before this file: THREADS, T, ABOVE (of norms.cu)
#pragma once
#include "look.cuh"
#include "bytes.cuh"
#include "grades.cuh"
#include "intrinsics.cuh"
#include "memory.cuh"

constexpr int ROWS = 32, GROUPS = 4, BESIDE = 4, PART = 256, PITCH = PART + 1;
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

// The losses of an element with the terms of `all`, whose vectors have norms of these logarithms, divided by 2^ceil of them.
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

// Of a row and a column: the run of a part of k, their elements divided by 2^exponent each, and the squares of those, summed.
struct Part {
    Run run;
    double exponents[2], squares[2];
};

struct Samples {
    const T *a, *b;
    long long a_down, a_across, b_down, b_across;
    int m, n, k;
    const int* grades;
};

// What a line of a part is divided by, and the sum of its squares then.
struct Scale {
    double exponent, squares;
};

// Divide LINES lines by powers of two, to at most 2. Called by whole blocks.
template <int LINES> __device__ __forceinline__ void scale_lines(double* lines, Scale* scales)
{
    constexpr int WARPS = THREADS / 32;
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < LINES; first += WARPS) {
        const int line = min(first + (int)threadIdx.x / 32, LINES - 1);  // the last one again if there is none left
        const double* x = lines + line * PITCH;
        double most = 0, squares = 0;
        for (int p = lane; p < PART; p += 32) most = fmax(most, fabs(x[p]));
        for (int distance = 16; distance; distance /= 2) most = fmax(most, shuffle_xor(most, distance));
        const int e = max(-1000, min(exponent_of(most), 1000));
        for (int p = lane; p < PART; p += 32) squares += x[p] * two_to(-e) * (x[p] * two_to(-e));
        for (int distance = 16; distance; distance /= 2) squares += shuffle_xor(squares, distance);
        if (lane == 0) scales[line] = Scale{(double)e, squares};
    }
    __syncthreads();
    for (int index = threadIdx.x; index < LINES * PART; index += THREADS)
        lines[index / PART * PITCH + index % PART] *= two_to(-(int)scales[index / PART].exponent);
    __syncthreads();
}

// Follow the terms of work number `index`; `memory` holds TRIAL_BYTES.
__device__ __forceinline__ void try_part(const Samples& of, int index, double* memory, Part* parts)
{
    double *of_a = memory, *of_b = of_a + ROWS * PITCH;  // [ROWS][PITCH], [BESIDE][PITCH]
    Run* runs = (Run*)memory;                            // then [RUNS][PAIRS]
    __shared__ Scale scales[ROWS + BESIDE];
    const int me = threadIdx.x, group = index % GROUPS, part = index / GROUPS, p0 = part * PART;
#pragma unroll 8
    for (int element = me; element < ROWS * PART; element += THREADS) {
        const int r = element / PART, p = element % PART, i = choose(r, ROWS, of.m);
        const T* from = of.a + i * of.a_down + (p0 + p) * of.a_across;
        of_a[r * PITCH + p] = p0 + p < of.k ? *from * factor_of(of.grades, p0 + p, 1) : 0;
    }
#pragma unroll
    for (int element = me; element < BESIDE * PART; element += THREADS) {
        const int p = element / BESIDE, c = element % BESIDE, j = column_of(group, c, of.n);
        const T* from = of.b + (p0 + p) * of.b_down + j * of.b_across;
        of_b[c * PITCH + p] = p0 + p < of.k ? *from * factor_of(of.grades, p0 + p, -1) : 0;
    }
    __syncthreads();
    scale_lines<ROWS + BESIDE>(memory, scales);
    const int pair = me % PAIRS, run = me / PAIRS, begin = run * RUN;
    const double *x = of_a + pair / BESIDE * PITCH, *y = of_b + pair % BESIDE * PITCH;
    Run mine = {};
#pragma unroll 4
    for (int p = begin; p < min(begin + RUN, of.k - p0); ++p) mine.add(x[p] * y[p]);
    __syncthreads();
    runs[run * PAIRS + pair] = mine;
    __syncthreads();
    if (run > 0) return;
    for (int next = 1; next < RUNS; ++next) mine.append(runs[next * PAIRS + pair], length_of(p0 + next * RUN, RUN, of.k));
    const Scale of_row = scales[pair / BESIDE], of_column = scales[ROWS + pair % BESIDE];
    parts[(part * GROUPS + group) * PAIRS + pair] =
        Part{mine, {of_row.exponent, of_column.exponent}, {of_row.squares, of_column.squares}};
}

// Times 2^-far, and nothing if that is small.
__device__ __forceinline__ double below(double x, double far) { return far > 400 ? 0 : x * two_to(-(int)far); }

// The whole of an element: its run and the norms of its vectors, all in units of 2^unit; `unit` is the greatest exponents of parts.
struct Whole {
    Run run;
    double unit[2], squares[2];
};

__device__ __forceinline__ Whole put_together(const Part* parts, int count, int k)
{
    Whole whole = {{}, {-2000, -2000}, {0, 0}};
#pragma unroll 4
    for (int next = 0; next < count; ++next)
        for (int side = 0; side < 2; ++side) whole.unit[side] = fmax(whole.unit[side], parts[next * THREADS].exponents[side]);
#pragma unroll 4
    for (int next = 0; next < count; ++next) {
        const Part& part = parts[next * THREADS];
        double far[2];
        for (int side = 0; side < 2; ++side) {
            far[side] = whole.unit[side] - part.exponents[side];
            whole.squares[side] += below(below(part.squares[side], far[side]), far[side]);
        }
        const double both = far[0] + far[1];
        const Run& x = part.run;
        whole.run.append(Run{below(x.sum, both), below(x.sizes, both), below(x.partial, both), below(below(x.squares, both), both)},
                         length_of(next * PART, PART, k));
    }
    return whole;
}

// Put `count` parts of k together, and choose. Called by a whole block, when all parts are there.
__device__ __forceinline__ void conclude_trial(const Samples& of, const Part* parts, int count, double* memory, Look* look)
{
    Losses* losses = (Losses*)memory;  // [THREADS]
    const int me = threadIdx.x;
    Whole whole = put_together(parts + me, count, of.k);
    double norms[2];
    for (int side = 0; side < 2; ++side)
        norms[side] = whole.squares[side] > 0 ? 0.5 * log2(whole.squares[side]) + ABOVE : 0;  // plus its unit
    // The run in units of 2^ceil of the norms.
    const double far = ceil(norms[0]) + ceil(norms[1]);
    whole.run = Run{below(whole.run.sum, far), below(whole.run.sizes, far), below(whole.run.partial, far),
                    below(below(whole.run.squares, far), far)};
    losses[me] = Losses{};
    add_losses(losses[me], whole.run, norms[0] + whole.unit[0], norms[1] + whole.unit[1]);
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (me >= half) continue;
        losses[me].native += losses[me + half].native;
        for (int more = 0; more < COUNTS; ++more) losses[me].by_count[more] += losses[me + half].by_count[more];
    }
    if (me > 0) return;
    int chosen = LEAST;
    while (chosen <= MOST && !(losses[0].by_count[chosen - LEAST] <= MARGIN * losses[0].native)) ++chosen;
    look->trial = chosen;
}
