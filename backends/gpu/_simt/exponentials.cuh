// Exponentials with a scale of a power of two, and their logarithms, over floats T.
#pragma once

// ln 2 in two parts, the first with so few bits that its multiples are exact
#define LN2 (sizeof(T) == 4 ? (T)0.693145752f : (T)6.93147180369123816490e-01)
#define LN2_REST (sizeof(T) == 4 ? (T)1.42860677e-6f : (T)1.90821492927058770002e-10)

// What rounding took from `sum`, of x + y: Knuth's TwoSum. NaN if the sum is not finite.
__device__ __forceinline__ T lost_from(T sum, T x, T y)
{
    const T of_y = sum - x;
    return (x - (sum - of_y)) + (y - of_y);
}

// 2^exponent exp(x - top) for x <= top, which does not underflow where exp(x - top) alone would
__device__ __forceinline__ T scaled_exp(T x, T top, int exponent)
{
    const T below = x - top;
    if (below < (T)-2000) return 0;
    const T n = rint(below * (T)1.4426950408889634), r = fma(n, -LN2_REST, fma(n, -LN2, below));
    return ldexp(exp(r + lost_from(below, x, -top)), (int)n + exponent);
}

// log(x / 2^(2 exponent)) + u + v, as accurate as one rounding, however much of the three cancels
__device__ __forceinline__ T log_and(T x, int exponent, T u, T v)
{
    if (!(x > 0)) return x == 0 ? -INFINITE : x;
    const int whole = ilogb(x);
    const T n = whole - 2 * exponent, rest = fma(n, LN2_REST, log(ldexp(x, -whole)));
    const T of_two = u + v, total = of_two + n * LN2;
    const T lost = lost_from(of_two, u, v) + lost_from(total, of_two, n * LN2);
    return total + (lost == lost ? rest + lost : rest);
}
