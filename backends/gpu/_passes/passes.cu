// The passes around a product that touch each element once, O(n^2) beside O(n^3): the same for every rung.
//
// Source: the definition D = alpha (x) A (x) B (+) beta (x) C; alpha folds into A, beta (x) C is the first summand.
#define EDGE 2 /* PADDED: nothing here is a tile */
#include "semiring.cuh"
#include "edges.cuh"
#include "triangle.cuh"
#include "batch.cuh"

#define FOR_EACH(index, count) \
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < (count); \
         index += (long long)gridDim.x * blockDim.x)

// scaled := alpha (x) a, without gaps between rows
extern "C" __global__ void scale(T alpha, const T* a, int lda, T* scaled, int m, int k
                                  BATCH_PARAMETERS STEP_PARAMETERS(a) STEP_PARAMETERS(scaled))
{
    ENTER_PRODUCT(BLOCK_PRODUCT)
    MOVE_TO_PRODUCT(a)
    MOVE_TO_PRODUCT(scaled)
    FOR_EACH(index, (long long)m * k)
    {
        const T x = a[index / k * lda + index % k];
        scaled[index] = MULTIPLY(alpha, x);
    }
}

// out := zero (+) beta (x) c, to which the product is added; (+) decides about a NaN of c
extern "C" __global__ void begin(int has_beta, T beta, const T* c, int ldc, T* out, int ldd, int m, int n
                                  BATCH_PARAMETERS STEP_PARAMETERS(c) STEP_PARAMETERS(out))
{
    ENTER_PRODUCT(BLOCK_PRODUCT)
    MOVE_TO_PRODUCT(c)
    MOVE_TO_PRODUCT(out)
    FOR_EACH(index, (long long)m * n)
    {
        const long long i = index / n, j = index % n;
        if (j >= end_of_row(i, n)) continue;
        const T x = c[i * ldc + j];
        const T term = has_beta ? MULTIPLY(beta, x) : x;
        out[i * ldd + j] = ADD(ZERO, term);
    }
}

// out := zero, the product without terms
extern "C" __global__ void fill(T* out, int ldd, int m, int n BATCH_PARAMETERS STEP_PARAMETERS(out))
{
    ENTER_PRODUCT(BLOCK_PRODUCT)
    MOVE_TO_PRODUCT(out)
    FOR_EACH(index, (long long)m * n)
        if (index % n < end_of_row(index / n, n)) out[index / n * ldd + index % n] = ZERO;
}

// padded := x in a buffer of whole tiles, its last row and column repeated; beyond k, zeros if K_TAIL says so
extern "C" __global__ void pad(const T* x, int ld, int rows, int columns, T* padded, int all_rows, int all_columns,
                               int k_is_columns)
{
    FOR_EACH(index, (long long)all_rows * all_columns)
    {
        const int i = index / all_columns, j = index % all_columns;
        const T value = x[(long long)min(i, rows - 1) * ld + min(j, columns - 1)];
        const bool is_beyond_k = k_is_columns ? j >= columns : i >= rows;
        padded[index] = is_beyond_k && K_TAIL == FILL ? (T)0 : value;
    }
}
