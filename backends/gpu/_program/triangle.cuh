// Which elements of C are computed: all of them, or those on and below the diagonal. Defined before this file:
//
//   TRIANGLE  1: nothing above the diagonal of C is read or written; 0, the default: C is a whole matrix
#pragma once

#ifndef TRIANGLE
#define TRIANGLE 0
#endif

// The end of the columns of row `i` that are computed.
__device__ __forceinline__ int end_of_row(int i, int n) { return TRIANGLE ? min(i + 1, n) : n; }
