// The semiring as macros, and the functions that their expressions are made of. Defined before this file:
//
//   T              element type                     ZERO           identity of (+)
//   ADD(c, t)      c (+) t                          MULTIPLY(a, b) a (x) b
//   COMBINE(c, a, b)  c (+) a (x) b, in one instruction where there is one
//   ACCUMULATE     1: C := C (+) A (x) B            0: C := A (x) B, and C is never read
//   LOW, HIGH      the extremes of T                FORM, IS_SAFE  which form of (x) this is: see is_chosen below
//   IS_LONG        1: a pair takes so many instructions that a loop over k is not unrolled
//   STEPS          steps of k that are combined at once; 2: COMBINE_TWO(c, s, t), with terms s and t
//   SETTLES        1: sums of one sign allow a faster form of two steps, by FLIPPED(x), see tuned.cu
//   RESULT         type of C, if not T, which then holds several elements: FINISHED(x) is the result of sum x, and
//                  ADD is over RESULT
//   EXTREME        type of the extremes of A and B, if it is not T
//   OPERAND        element type of A and B, if it is narrower than T, the type of the sums
//   WORD_INSTRUCTIONS  1: integers of 4 bytes by instructions, which are compiled in less time: intrinsics.cuh
#pragma once
#include "intrinsics.cuh"
#include "batch.cuh"
#include "truths.cuh"

#ifndef RESULT
#define RESULT T
#define FINISHED(x) (x)
#endif
#ifndef OPERAND
#define OPERAND T
#endif
#ifndef EXTREME
#define EXTREME T
#endif

#define INFINITE ((T)__int_as_float(0x7f800000))

#define GEMM_PARAMETERS                                                                                          \
    const OPERAND *__restrict__ a, const OPERAND *__restrict__ b, RESULT *__restrict__ c, int m, int n, int k, int lda, \
        int ldb, int ldc, const EXTREME *__restrict__ extremes                                               \
        BATCH_PARAMETERS STEP_PARAMETERS(a) STEP_PARAMETERS(b) STEP_PARAMETERS(c)

// The beginning of a kernel: the block's own product of a batch
#define ENTER_GEMM                 \
    ENTER_PRODUCT(BLOCK_PRODUCT)   \
    MOVE_TO_PRODUCT(a)             \
    MOVE_TO_PRODUCT(b)             \
    MOVE_TO_PRODUCT(c)

// The unsigned type as wide as the arithmetic, since its overflow is defined: it wraps.
template <class I> struct Wide { typedef unsigned type; };
template <> struct Wide<long long> { typedef unsigned long long type; };
template <> struct Wide<unsigned long long> { typedef unsigned long long type; };

template <class I> __device__ __forceinline__ I wrap_add(I x, I y)
{
    typedef typename Wide<I>::type W;
    return (I)((W)x + (W)y);
}

template <class I> __device__ __forceinline__ I wrap_sub(I x, I y)
{
    typedef typename Wide<I>::type W;
    return (I)((W)x - (W)y);
}

template <class I> __device__ __forceinline__ I wrap_mul(I x, I y)
{
    typedef typename Wide<I>::type W;
    return (I)((W)x * (W)y);
}

template <class I> __device__ __forceinline__ I square(I x) { return wrap_mul(x, x); }
template <> __device__ __forceinline__ float square(float x) { return x * x; }
template <> __device__ __forceinline__ double square(double x) { return x * x; }

// The first where both are equal, or `t` is NaN
template <class I> __device__ __forceinline__ I smaller(I c, I t) { return t < c ? t : c; }
template <class I> __device__ __forceinline__ I greater(I c, I t) { return t > c ? t : c; }
template <class I> __device__ __forceinline__ I distance(I x, I y) { return x > y ? wrap_sub(x, y) : wrap_sub(y, x); }

#if WORD_INSTRUCTIONS
#define FOR_WORDS(name, instruction)                                                                          \
    template <> __device__ __forceinline__ int name(int x, int y) { return instruction(x, y); }                \
    template <> __device__ __forceinline__ unsigned name(unsigned x, unsigned y) { return instruction(x, y); }
FOR_WORDS(wrap_add, add_words)
FOR_WORDS(wrap_mul, multiply_words)
FOR_WORDS(smaller, smaller_word)
FOR_WORDS(greater, greater_word)
#endif

// Integer plus under min and max: `zero` stands for infinity and absorbs, every other sum saturates. A sum has passed
// an extreme if its sign is that of neither operand; unsigned, if it is less than one.
template <class I> __device__ __forceinline__ I absorbing_add(I x, I y, I zero, I low, I high)
{
    const I sum = wrap_add(x, y);
    const bool is_signed = (I)-1 < (I)0, is_past = is_signed ? ((x ^ sum) & (y ^ sum)) < 0 : sum < x;
    const I saturated = is_past ? (is_signed && x < 0 ? low : high) : sum;
    return x == zero || y == zero ? zero : saturated;
}

// Whether plain sums do what absorbing ones would: no zero is present, and no sum can reach past an extreme.
template <class I>
__device__ __forceinline__ bool sums_fit(I low_a, I high_a, I low_b, I high_b, I zero, I low, I high)
{
    const bool is_absent = low_a != zero && high_a != zero && low_b != zero && high_b != zero;
    const bool fits_below = low_b >= 0 || low_a >= wrap_sub(low, low_b);
    return is_absent && fits_below && (high_b <= 0 || high_a <= wrap_sub(high, high_b));
}

__device__ __forceinline__ float log_add_exp(float x, float y)
{
    if (x == y) return x + 0.693147180559945309f;  // both -inf, too: x - y would be NaN
    const float high = x > y ? x : y, low = x > y ? y : x;
    return high + log1pf(expf(low - high));
}

__device__ __forceinline__ double log_add_exp(double x, double y)
{
    if (x == y) return x + 0.693147180559945309;
    const double high = x > y ? x : y, low = x > y ? y : x;
    return high + log1p(exp(low - high));
}

// Two steps of k at once where (+) is min over floats of one sign: their order is that of their bits.
__device__ __forceinline__ float min_non_negative(float c, float s, float t)
{
    return __int_as_float(min_of_3(__float_as_int(c), __float_as_int(s), __float_as_int(t)));
}

__device__ __forceinline__ float max_non_positive(float c, float s, float t)
{
    return __uint_as_float(min_of_3(__float_as_uint(c), __float_as_uint(s), __float_as_uint(t)));
}

// A fast form of (x) may be right only for some values. Then the extremes of A and B are reduced first (extremes.cu) and
// both forms are launched. The one that the extremes do not choose returns at once, so that the host need not wait for them.
#define ANY_VALUES 0
#define IF_SAFE 1
#define IF_UNSAFE 2

__device__ __forceinline__ bool is_chosen(const EXTREME* extremes)
{
#if FORM == ANY_VALUES
    return true;
#else
    return IS_SAFE(extremes[0], extremes[1], extremes[2], extremes[3]) == (FORM == IF_SAFE);
#endif
}

__device__ __forceinline__ void store(RESULT* place, RESULT total)
{
#if ACCUMULATE
    *place = ADD(*place, total);
#else
    *place = total;
#endif
}
