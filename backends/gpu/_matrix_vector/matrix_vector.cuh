// A matrix-vector product: y[i] = alpha (x) (+)_p M[i, p] (x) x[p] (+) beta (x) c[i], and the sums that it is made of.
//
//   M is A, and y = A x; or M is B transposed, and y = x B. Its element is at i * step_i + p * step_p, and one of the two
//   steps is 1 wherever the matrix has no gaps inside of its rows, or of its columns.
//
// Defined before this file, beside what semiring.cuh asks for:
//
//   MATRIX_LEFT  1: the matrix is A, the left argument of (x); 0: the vector is
//   HAS_ALPHA, HAS_BETA   0: the factor is the semiring's one
//   IS_LOG_SUM   1: (+) is logaddexp: a sum is its largest term and the sum of the exponentials of the rest
//
// alpha is applied to each element of A, as the definition says: over a matrix that costs less time than reading it.
#pragma once
#include "semiring.cuh"
#include "memory.cuh"

#define MATRIX_VECTOR_PARAMETERS                                                                                    \
    const T *__restrict__ matrix, const T *__restrict__ x, const T *c, T *y, T alpha, T beta, int count, int k,     \
        long long step_i, long long step_p, long long step_x, long long step_c, long long step_y

// The last parameters of `finish` below
#define RESULT_ARGUMENTS c, y, beta, step_c, step_y

#if IS_LOG_SUM
struct Sum {
    T top, total;  // the largest term, and the sum of exp(term - top)
};

// exp(x - top); equal infinities count as one
__device__ __forceinline__ T share_of(T x, T top) { return x == top ? (T)1 : exp(x - top); }

__device__ __forceinline__ Sum no_terms() { return Sum{-INFINITE, (T)0}; }

// A NaN is no greater than `top`, and makes the total NaN.
__device__ __forceinline__ void add_to(Sum& sum, T term)
{
    if (term == -INFINITE) return;
    if (term > sum.top) sum.total = sum.total * share_of(sum.top, term) + (T)1, sum.top = term;
    else sum.total += share_of(term, sum.top);
}

__device__ __forceinline__ Sum joined(Sum u, Sum v)
{
    const T top = u.top > v.top ? u.top : v.top;
    return Sum{top, u.total * share_of(u.top, top) + v.total * share_of(v.top, top)};
}

__device__ __forceinline__ T total_of(Sum sum) { return sum.top + log(sum.total); }
#else
typedef T Sum;
__device__ __forceinline__ Sum no_terms() { return ZERO; }
__device__ __forceinline__ Sum joined(Sum u, Sum v) { return ADD(u, v); }
__device__ __forceinline__ T total_of(Sum sum) { return sum; }
#endif

// alpha (x) a
__device__ __forceinline__ T scaled(T a, T alpha)
{
#if HAS_ALPHA
    return MULTIPLY(alpha, a);
#else
    return a;
#endif
}

// alpha (x) a (x) b, of an element of the matrix and one of the vector
__device__ __forceinline__ T term_of(T of_matrix, T of_vector, T alpha)
{
    const T a = scaled(MATRIX_LEFT ? of_matrix : of_vector, alpha), b = MATRIX_LEFT ? of_vector : of_matrix;
    return MULTIPLY(a, b);
}

// sum (+)= alpha (x) a (x) b
__device__ __forceinline__ void combine(Sum& sum, T of_matrix, T of_vector, T alpha)
{
#if IS_LOG_SUM
    add_to(sum, term_of(of_matrix, of_vector, alpha));
#else
    const T a = scaled(MATRIX_LEFT ? of_matrix : of_vector, alpha), b = MATRIX_LEFT ? of_vector : of_matrix;
    COMBINE(sum, a, b);
#endif
}

// zero (+) beta (x) c[i], to which the product is added; (+) decides about a NaN of c
__device__ __forceinline__ T begun(const T* c, T beta)
{
#if HAS_BETA
    const T element = *c, term = MULTIPLY(beta, element);
#else
    const T term = *c;
#endif
    return ADD(ZERO, term);
}

// y[i] := total [(+) beta (x) c[i]]. Only the thread that writes y[i] reads c[i]: they may be the same place.
__device__ __forceinline__ void finish(long long i, Sum sum, const T* c, T* y, T beta, long long step_c, long long step_y)
{
    T total = total_of(sum);
#if ACCUMULATE
    const T before = begun(c + i * step_c, beta);
    total = ADD(before, total);
#endif
    y[i * step_y] = total;
}
