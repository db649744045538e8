// Order of B's columns, rows along k here, that gives a thread of wgmma the sums of neighbours of a row of C.
#pragma once

// The row of column j. It orders 64 columns so that 16 neighbours are those whose sums one thread holds: two in every eighth
// of the 64.
__device__ __forceinline__ int neighbour(int j) { return j / 64 * 64 + j % 16 / 2 * 8 + j % 64 / 16 * 2 + j % 2; }
