// Powers of two along k that make A and B alike: column p of A times 2^grade, row p of B times 2^-grade, the product the same.
//
//   BALANCED  0: there are none
#pragma once
#include "bytes.cuh"

// Marks a p where all of A or all of B is zero: nothing there counts.
constexpr int NO_GRADE = 1 << 20;

// What element p of a row of A is multiplied by, with `sign` 1; of a column of B with -1.
__device__ __forceinline__ double factor_of(const int* grades, int p, int sign)
{
    if (!BALANCED) return 1;
    const int grade = grades[p];
    return grade == NO_GRADE ? 0 : two_to(sign * grade);
}
