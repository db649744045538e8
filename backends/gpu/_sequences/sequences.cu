// All steps of a sequence by one block of threads:  x := (x (x) A[t]) (x) e[t],  of a vector of `states`.
//
// GROUPS threads for each of COLUMNS columns at a time take rows p in turn, and combine what they have:
//
//   FORM_FACTORS   s[j] = log(sum_p w[p] P[p, j] / 2^2h) + c[j],  w[p] = 2^h exp(x[p])     P and c: factors.cu
//   FORM_TERMS     s[j] = log(sum_p exp(x[p] + A[p, j] - top[j])) + top[j]
//   FORM_ANY       s[j] = (+)_p x[p] (x) A[p, j]
//
// With SETTLES the largest x is taken off at each step and kept as a double, so that floats keep their digits. A sum of
// exponentials is trusted if all of x and of column j that is not -inf is narrow, or if it is above `limit`, as in
// log_sum_exp.cu. Others are computed by FORM_TERMS.
//
// `group` sequences, one after the other, have one emission.
//
//   KEEPS        states that are stored: 0 none, 1 before the emission, 2 after it
//   IS_RELATIVE  1: without what was taken off, which goes to `taken`
//   HELD         0, or: the matrix serves all steps and stays with the block. Each thread has EACH columns of ROWS rows: HELD
//                of them in registers, the others in shared memory. All columns are SIDE, a multiple of EACH
//   OF_PRODUCT   1: steps from `begin` to `end` alone, for what a product of all sequences has made in `sums`, SHARES of it;
//                the state lies in `last`, `weights`, `offsets` and `wide`. 0: all steps
#include "semiring.cuh"
#include "chain.cuh"
#include "memory.cuh"

#define FORM_FACTORS 0
#define FORM_TERMS 1
#define FORM_ANY 2
#define IS_LOG (STEP_FORM <= FORM_TERMS)
#define WORK (THREADS / 16 > 4 ? THREADS / 16 : 4) /* at the beginning of shared memory: two elements of each warp */
#if HELD
#define EACH 4
#define GROUPS (THREADS / (SIDE / EACH))
#define STRIDE (GROUPS * ROWS)
#elif OF_PRODUCT
#define GROUPS SHARES
#define STRIDE lines.stride
#else
#define GROUPS (THREADS / COLUMNS)
#define STRIDE states
#endif
#if SETTLES && !IS_RELATIVE
#define PLACED(x) ((T)((x) + offset))
#else
#define PLACED(x) (x)
#endif
#if IS_LOG
#include "exponentials.cuh"
#endif

// What a block has in shared memory, one after the other.
struct Lines {
    T *x, *next, *weights;  // STRIDE of each
    T *parts, *tops;        // of each group
    long long stride;       // from group to group, of a product
};

#if SETTLES
// The largest and, for factors, the least of all threads' values; `work` has room for two of each warp.
__device__ __forceinline__ void reduce(T& most, T& least, T* work)
{
    constexpr bool has_least = STEP_FORM == FORM_FACTORS;
#pragma unroll
    for (int offset = 16; offset; offset /= 2) {
        const T other = shuffle_xor(most, offset);
        most = other > most ? other : most;
        if (has_least) {
            const T another = shuffle_xor(least, offset);
            least = another < least ? another : least;
        }
    }
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) work[2 * warp] = most, work[2 * warp + 1] = least;
    __syncthreads();  // and x is not read any more
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) {
        most = work[2 * i] > most ? work[2 * i] : most;
        if (has_least) least = work[2 * i + 1] < least ? work[2 * i + 1] : least;
    }
}
#endif

#if IS_LOG
// The definition, of one column by one thread.
__device__ T by_terms(const T* x, const T* column, long long line, int states)
{
    T top = -INFINITE, total = 0;
    for (int p = 0; p < states; ++p) {
        const T term = x[p] + column[p * line];
        top = term > top ? term : top;
    }
    if (!(top > -INFINITE)) return top;
    for (int p = 0; p < states; ++p) total += exp(x[p] + column[p * line] - top);
    return log(total) + top;
}
#endif

#if HELD
#define NOTHING (STEP_FORM == FORM_FACTORS ? (T)0 : (T)ZERO)

struct alignas(16) Quad {
    T of[EACH];
};

// A thread's part of the matrix.
struct Part {
    Quad rows[HELD];
    Quad* rest;
};

__device__ __forceinline__ Quad quad_of(const T* matrix, long long line, int states, int row)
{
    const int group = threadIdx.x / (SIDE / EACH), p = group * ROWS + row, j = threadIdx.x % (SIDE / EACH) * EACH;
    Quad quad;
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        quad.of[i] = group < GROUPS && p < states && j + i < states ? matrix[p * line + j + i] : NOTHING;
    return quad;
}

__device__ __forceinline__ void take_part(Part& part, const T* matrix, long long line, int states)
{
#pragma unroll
    for (int r = 0; r < HELD; ++r) part.rows[r] = quad_of(matrix, line, states, r);
    for (int r = HELD; r < ROWS; ++r) part.rest[(r - HELD) * THREADS + threadIdx.x] = quad_of(matrix, line, states, r);
}

// The group's part of each column, by the matrix that the block has.
__device__ __forceinline__ void advance(const Lines& lines, const Part& part)
{
    const int group = threadIdx.x / (SIDE / EACH), quad = threadIdx.x % (SIDE / EACH);
    if (group >= GROUPS) return;
    const Quad* x = (const Quad*)((STEP_FORM == FORM_FACTORS ? lines.weights : lines.x) + group * ROWS);
    Quad total = {NOTHING, NOTHING, NOTHING, NOTHING};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const Quad row = r < HELD ? part.rows[r < HELD ? r : 0] : part.rest[(r - HELD) * THREADS + threadIdx.x];
        const T a = x[r / EACH].of[r % EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
#if STEP_FORM == FORM_FACTORS
            total.of[i] = fma(a, row.of[i], total.of[i]);
#else
            COMBINE(total.of[i], a, row.of[i]);
#endif
        }
    }
    ((Quad*)(lines.parts + group * STRIDE))[quad] = total;
}
#else
// The group's part of each column.
__device__ __forceinline__ void advance(const Lines& lines, const T* matrix, long long line, int states)
{
    const int group = threadIdx.x / COLUMNS;
    for (int j = threadIdx.x % COLUMNS; j < states; j += COLUMNS) {
        const int at = group * states + j;
#if STEP_FORM == FORM_FACTORS
        T total = 0, other = 0;
        int p = group;
#pragma unroll 4
        for (; p + GROUPS < states; p += 2 * GROUPS) {
            total = fma(lines.weights[p], matrix[p * line + j], total);
            other = fma(lines.weights[p + GROUPS], matrix[(p + GROUPS) * line + j], other);
        }
        if (p < states) total = fma(lines.weights[p], matrix[p * line + j], total);
        lines.parts[at] = total + other;
#elif STEP_FORM == FORM_TERMS
        T top = -INFINITE, total = 0;
#pragma unroll 4
        for (int p = group; p < states; p += GROUPS) {
            const T term = lines.x[p] + matrix[p * line + j];
            top = term > top ? term : top;
        }
        if (top > -INFINITE)
#pragma unroll 4
            for (int p = group; p < states; p += GROUPS) total += exp(lines.x[p] + matrix[p * line + j] - top);
        lines.parts[at] = total, lines.tops[at] = top;
#else
        T total = ZERO;
#pragma unroll 4
        for (int p = group; p < states; p += GROUPS) {
            const T a = lines.x[p], b = matrix[p * line + j];
            COMBINE(total, a, b);
        }
        lines.parts[at] = total;
#endif
    }
}
#endif

// What the groups have of column j, together.
__device__ __forceinline__ T joined(const Lines& lines, int j, int states)
{
    T total = lines.parts[j];
#if STEP_FORM == FORM_TERMS
    T top = lines.tops[j];
#pragma unroll
    for (int g = 1; g < GROUPS; ++g) top = lines.tops[g * states + j] > top ? lines.tops[g * states + j] : top;
    if (!(top > -INFINITE)) return top;
    total = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) total += lines.parts[g * states + j] * exp(lines.tops[g * states + j] - top);
    return log(total) + top;
#elif STEP_FORM == FORM_FACTORS
#pragma unroll
    for (int g = 1; g < GROUPS; ++g) total += lines.parts[g * STRIDE + j];
    return total;
#else
#pragma unroll
    for (int g = 1; g < GROUPS; ++g) total = ADD(total, lines.parts[g * STRIDE + j]);
    return total;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sequence(const T* initial, const T* a, long long a_sequence, long long a_step, long long a_line, const T* e,
             long long e_sequence, long long e_step, int group, const long long* lengths, const long long* firsts, int steps,
             int states, T* out, T* last, double* offsets, double* taken, const T* p, const T* columns, int exponent,
             T narrow, T limit, int begin, int end, T* sums, T* weights, int* wide)
{
    DYNAMIC_SHARED(shared);
    const int me = threadIdx.x;
    const long long b = blockIdx.x, first = firsts[b], length = lengths[b];
    Lines lines;
#if OF_PRODUCT
    lines.next = shared + WORK, lines.x = last + b * states, lines.weights = weights + b * states;
    lines.parts = sums + b * states, lines.stride = gridDim.x * (long long)states;
    if (length <= begin) return;
#else
    lines.x = shared + WORK, lines.next = lines.x + STRIDE, lines.weights = lines.next + STRIDE;
    lines.parts = lines.weights + STRIDE, lines.tops = lines.parts + GROUPS * STRIDE;
#endif
    a += b * a_sequence + first * a_step, e += b / group * e_sequence + first * e_step;
    if (KEEPS) out += (b * steps + first) * states;
    const bool by_factors = STEP_FORM == FORM_FACTORS;
    const T* const matrix = by_factors ? p : a;
    const long long line = by_factors ? states : a_line;
#if HELD
    Part part;
    part.rest = (Quad*)lines.tops;
    take_part(part, matrix, line, states);
    for (int j = states + me; j < STRIDE; j += THREADS) lines.x[j] = lines.weights[j] = NOTHING;
#endif
    // of the next step: it takes long to come
    T ahead = (HELD || OF_PRODUCT) && me < states && begin < length ? e[begin * e_step + me] : (T)0;
    if (OF_PRODUCT) await_launch_before();
    double offset = OF_PRODUCT && begin ? offsets[b] : 0;
    bool is_wide = OF_PRODUCT && begin ? wide[b] : false;
    for (long long t = begin; t < length && t < end; ++t) {
        __syncthreads();  // x and the weights are there, and nothing of the last step is read any more
        const T seen = ahead;
        if (HELD && me < states && t + 1 < length && t + 1 < end) ahead = e[(t + 1) * e_step + me];
        if (!OF_PRODUCT && t) {
#if HELD
            advance(lines, part);
#else
            advance(lines, by_factors ? matrix : matrix + (t - 1) * a_step, line, states);
#endif
            __syncthreads();
        }
#if SETTLES
        T top = -INFINITE, least = INFINITE;
#endif
        for (int j = me; j < states; j += THREADS) {
            T value = t ? joined(lines, j, states) : initial[b * states + j];
#if STEP_FORM == FORM_FACTORS
            if (t) {
                const bool is_trusted = value >= (is_wide ? limit : columns[2 * j + 1]);
                value = is_trusted ? log_and(value, exponent, columns[2 * j], (T)0)
                                   : by_terms(lines.x, a + j, a_line, states);
            }
#endif
            if (KEEPS == 1) out[t * states + j] = PLACED(value);
            value = MULTIPLY(value, (HELD || OF_PRODUCT) && j == me ? seen : e[t * e_step + j]);
            lines.next[j] = value;
#if SETTLES
            top = value > top ? value : top;
            if (value > -INFINITE) least = value < least ? value : least;
#endif
        }
#if SETTLES
        reduce(top, least, shared);
        top = top > -INFINITE ? top : (T)0;
        offset += top;
        if (IS_RELATIVE && me == 0) taken[b * steps + first + t] = top;
        is_wide = least - top < narrow;
#else
        __syncthreads();  // x is not read any more
#endif
        for (int j = me; j < states; j += THREADS) {
            T value = lines.next[j];
#if SETTLES
            value -= top;
#endif
            lines.x[j] = value;
#if STEP_FORM == FORM_FACTORS
            lines.weights[j] = scaled_exp(value, (T)0, exponent);
#endif
            if (KEEPS == 2) out[t * states + j] = PLACED(value);
        }
    }
#if OF_PRODUCT
    if (me == 0) wide[b] = is_wide;
#else
    for (int j = me; j < states; j += THREADS) last[b * states + j] = length ? lines.x[j] : (T)ZERO;
#endif
    if (me == 0) offsets[b] = offset;
}
