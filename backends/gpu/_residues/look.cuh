// What the passes find out about A and B, and the number of moduli that follows from it.
//
// Vectors are the rows of A and the columns of B. One of them, x, is scaled by a power of two, 2^e, so that its norm is just
// below 2^HALF_BITS. Then every sum of products lies within half of the product of the moduli, by Cauchy and Schwarz.
//
//   spread  ||x||_2 sqrt(k) / ||x||_1: 1 if all elements are alike in size, 1.25 for normal ones, sqrt(k) for a single one.
//           Errors grow as the greatest spread of A times that of B
//   trial   the number of moduli with which a sample of elements loses no more than a sum in float64 (trial.cu)
//   large   elements that are a part of the root mean square of their vector, or more; so many prove a bound (gate.cu)
//
// Defined by the host, lists by the number of moduli, from LEAST to MOST: HALF_BITS; LIMITS, the greatest product of spreads;
// SHARES, that part. UNIT_BITS: u is 2^-UNIT_BITS. CHECKS 0: finite values in range are enough. PROVES 1: the bound must be
// proven by large elements. CERTIFIES 1: it must be proven of each element (certify.cu).
#pragma once

struct Look {
    unsigned spread_a, spread_b;  // greatest square of a spread: the bits of a float, which order as integers do
    unsigned is_wild;             // a value is not finite, or a sum of squares is out of range
    unsigned trial;               // fewest moduli by the trial
};

// Of a vector, if CERTIFIES: its elements are below 2^unit, and the sum of their sizes is size 2^unit.
struct Extent {
    int unit;
    float size;
};

// Marks the norm of a vector of zeros.
constexpr double EMPTY = -1e9;

// Element number `count` - LEAST of a list.
template <class V, int SIZE> __device__ __forceinline__ V by_count(const V (&list)[SIZE], int count)
{
    V found = 0;
#pragma unroll
    for (int more = 0; more < SIZE; ++more)
        if (count == LEAST + more) found = list[more];
    return found;
}

__device__ __forceinline__ double half_bits(int count)
{
    constexpr double list[] = {HALF_BITS};
    return by_count(list, count);
}

__device__ __forceinline__ float limit_of(int count)
{
    constexpr float list[] = {LIMITS};
    return by_count(list, count);
}

__device__ __forceinline__ float share_of(int count)
{
    constexpr float list[] = {SHARES};
    return by_count(list, count);
}

// How many moduli spreads and trial ask for; 0: no number suffices. Where a few elements are all of a row, they seldom meet.
__device__ __forceinline__ int moduli_for(const Look& look, int k)
{
    if (look.is_wild) return 0;
    if (!CHECKS) return MOST;
    const float product = sqrtf(__uint_as_float(look.spread_a)) * sqrtf(__uint_as_float(look.spread_b));
    if (product > 0.25f * k) return 0;
    for (int count = max(LEAST, (int)look.trial); count <= MOST; ++count)
        if (product <= limit_of(count)) return count;
    return 0;
}

// e, for a vector whose norm has the binary logarithm `norm`.
__device__ __forceinline__ int exponent_for(double norm, double bits) { return norm == EMPTY ? 0 : (int)floor(bits - norm); }
