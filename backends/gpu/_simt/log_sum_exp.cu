// logaddexp_plus as a real product: the passes before and after it. O(n^2) exponentials and logarithms.
//
//   X[i, p] = 2^exponent exp(A[i, p] - u[i])   u[i] = max_p A[i, p]      scale_rows
//   Y[p, j] = 2^exponent exp(B[p, j] - v[j])   v[j] = max_p B[p, j]      scale_columns
//   C[i, j] = log (X Y)[i, j] + u[i] + v[j] - 2 exponent ln 2            finish
//
// A maximum of -inf counts as 0. For each row and column `finish` gets the maximum, and the least element of X Y that can be
// trusted there. It also gets the position of the only term that is not -inf, or -1: a sum of one term is that term
// unchanged. Other elements, if u + v does not determine them, are computed pair by pair.
//
//   exponent  of the scale
//   narrow    least A[i, p] - u[i] of a row whose elements of X Y can all be trusted
//   limit     least element that can be trusted otherwise
//
// These three depend on k, and are arguments: one kernel serves all sizes. Of columns a block of COLUMN_THREADS has ACROSS:
// fewer, with more threads for each, where they are long.
//
// Source: the log-sum-exp trick; Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax
// functions" (2021), sections 2 and 3.
#define EDGE 2 /* PADDED: nothing here is a tile */
#include "semiring.cuh"
#include "exponentials.cuh"
#include "triangle.cuh"

#define LANES 32
#define GROUPS 8 /* of lanes in a block */

__device__ __forceinline__ T most(T x, T y) { return x > y || x != x ? x : y; }

// The position of a term, or -1 for none, or -2 for several
__device__ __forceinline__ int only(int x, int y) { return x == -1 ? y : y == -1 ? x : -2; }

// One line of `count` terms by all threads that share `slot`, `workers` of them `spacing` apart in the block.
__device__ __forceinline__ void scale_line(const T* x, long long step, int count, T* scaled, long long scaled_step,
                                           int worker, int workers, int spacing, bool is_line, T* line, int* single,
                                           int exponent, T narrow, T limit)
{
    __shared__ T tops[COLUMN_THREADS], leasts[COLUMN_THREADS];  // no fewer than a block of rows has
    __shared__ int places[COLUMN_THREADS];
    const int me = threadIdx.x;
    T top = -INFINITE, least = INFINITE;
    int place = -1;
#pragma unroll 4
    for (int p = worker; is_line && p < count; p += workers) {
        const T term = x[p * step];
        top = most(top, term);
        if (term > -INFINITE) least = term < least ? term : least, place = only(place, p);
    }
    tops[me] = top, leasts[me] = least, places[me] = place;
    for (int half = workers / 2; half; half /= 2) {
        __syncthreads();
        if (worker < half) {
            const int other = me + half * spacing;
            tops[me] = most(tops[me], tops[other]), places[me] = only(places[me], places[other]);
            leasts[me] = leasts[other] < leasts[me] ? leasts[other] : leasts[me];
        }
    }
    __syncthreads();
    if (!is_line) return;
    const int first = me - worker * spacing;
    top = tops[first];
    const T shift = top == -INFINITE ? (T)0 : top;
    if (worker == 0) {
        line[0] = top, line[1] = leasts[first] - shift >= narrow ? (T)0 : limit;
        *single = top == top ? max(places[first], -1) : -1;
    }
#pragma unroll 4
    for (int p = worker; p < count; p += workers) scaled[p * scaled_step] = scaled_exp(x[p * step], shift, exponent);
}

extern "C" __global__ void __launch_bounds__(LANES* GROUPS)
    scale_rows(const T* a, int lda, int m, int k, T* x, T* rows, int* singles, int exponent, T narrow, T limit
               BATCH_PARAMETERS STEP_PARAMETERS(a))
{
    ENTER_PRODUCT(BLOCK_PRODUCT)
    MOVE_TO_PRODUCT(a)
    SKIP_PRODUCTS(x, (long long)m * k)
    SKIP_PRODUCTS(rows, 2 * m)
    SKIP_PRODUCTS(singles, m)
    const int i = blockIdx.x * GROUPS + threadIdx.x / LANES;
    scale_line(a + (long long)i * lda, 1, k, x + (long long)i * k, 1, threadIdx.x % LANES, LANES, 1, i < m, rows + 2 * i,
               singles + i, exponent, narrow, limit);
}

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS)
    scale_columns(const T* b, int ldb, int n, int k, T* y, T* columns, int* singles, int exponent, T narrow, T limit
                  BATCH_PARAMETERS STEP_PARAMETERS(b))
{
    ENTER_PRODUCT(BLOCK_PRODUCT)
    MOVE_TO_PRODUCT(b)
    SKIP_PRODUCTS(y, (long long)k * n)
    SKIP_PRODUCTS(columns, 2 * n)
    SKIP_PRODUCTS(singles, n)
    const int j = blockIdx.x * ACROSS + threadIdx.x % ACROSS;
    scale_line(b + j, ldb, k, y + j, n, threadIdx.x / ACROSS, COLUMN_THREADS / ACROSS, ACROSS, j < n, columns + 2 * j, singles + j,
               exponent, narrow, limit);
}

// The definition, by the largest of its terms
__device__ T pair_by_pair(const T* row, const T* column, int ldb, int k)
{
    T top = -INFINITE, total = 0;
    for (int p = 0; p < k; ++p) top = most(top, row[p] + column[(long long)p * ldb]);
    if (!(top - top == 0)) return top;
    for (int p = 0; p < k; ++p) total += exp(row[p] + column[(long long)p * ldb] - top);
    return top + log(total);
}

extern "C" __global__ void __launch_bounds__(LANES* GROUPS)
    finish(const T* a, int lda, const T* b, int ldb, const T* sums, const T* rows, const int* row_singles,
           const T* columns, const int* column_singles, T* c, int ldc, int m, int n, int k, int exponent
           BATCH_PARAMETERS STEP_PARAMETERS(a) STEP_PARAMETERS(b) STEP_PARAMETERS(c))
{
    ENTER_PRODUCT(BLOCK_PRODUCT)
    MOVE_TO_PRODUCT(a)
    MOVE_TO_PRODUCT(b)
    MOVE_TO_PRODUCT(c)
    SKIP_PRODUCTS(sums, (long long)m * n)
    SKIP_PRODUCTS(rows, 2 * m)
    SKIP_PRODUCTS(row_singles, m)
    SKIP_PRODUCTS(columns, 2 * n)
    SKIP_PRODUCTS(column_singles, n)
    const long long count = (long long)m * n, stride = (long long)gridDim.x * blockDim.x;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
        const int i = at / n, j = at % n, p = row_singles[i], q = column_singles[j];
        if (j >= end_of_row(i, n)) continue;
        const T u = rows[2 * i], v = columns[2 * j], sum = sums[at];
        const T *row = a + (long long)i * lda, *column = b + j;
        T total;
        if (p >= 0 && v < INFINITE) total = u + column[(long long)p * ldb];
        else if (q >= 0 && u < INFINITE) total = row[q] + v;
        else if ((sum >= rows[2 * i + 1] && sum >= columns[2 * j + 1]) || !(u + v > -INFINITE))
            total = log_and(sum, exponent, u, v);
        else total = pair_by_pair(row, column, ldb, k);
        store(c + (long long)i * ldc + j, total);
    }
}
