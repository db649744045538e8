// The left, or the right, operands of the seven products from the quarters of X, in one pass at the speed of memory.
//
//   x      rows x columns; halves are rounded up, and what a half lacks at an odd edge is read as zero
//   parts  COUNT matrices of half_rows x half_columns one after the other, their rows ld_parts apart
//
//   SUMS    statements that compute sums from x11, x12, x21 and x22 (backends/_strassen/form.py)
//   STORED  the operands to store, a list of COUNT
//   SCANS   1: every block stores the least and the greatest element that it has read as a pair of `shares`, which
//           extremes_of_all of extremes.cu reduces: the values are scanned without another pass
//
// Source: odd sizes as in Huss-Lederman et al., "Implementation of Strassen's Algorithm for Matrix Multiplication" (1996).
#include "quarters.cuh"
#include "extremes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    spread(const T* __restrict__ x, int ld, int rows, int columns, T* __restrict__ parts, int ld_parts, T* shares)
{
#if SCANS
    T low = INFINITE, high = -INFINITE;
#endif
    const int half_rows = (rows + 1) / 2, half_columns = (columns + 1) / 2, across = half_columns / WIDTH;
    const long long every = (long long)half_rows * across, step = (long long)gridDim.x * THREADS;
    for (long long index = (long long)blockIdx.x * THREADS + threadIdx.x; index < every; index += step) {
        const int i = index / across, j = index % across * WIDTH;
        const Group upper_left = read(x, ld, i, j, rows, columns);
        const Group upper_right = read(x, ld, i, j + half_columns, rows, columns);
        const Group lower_left = read(x, ld, i + half_rows, j, rows, columns);
        const Group lower_right = read(x, ld, i + half_rows, j + half_columns, rows, columns);
        Group groups[COUNT];
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) {
            const T x11 = upper_left.x[v], x12 = upper_right.x[v], x21 = lower_left.x[v], x22 = lower_right.x[v];
#if SCANS
            low = least(least(low, least(x11, x12)), least(x21, x22));  // zeros beyond the edges change nothing
            high = most(most(high, most(x11, x12)), most(x21, x22));
#endif
            SUMS
            const T values[COUNT] = {STORED};
#pragma unroll
            for (int s = 0; s < COUNT; ++s) groups[s].x[v] = values[s];
        }
#pragma unroll
        for (int s = 0; s < COUNT; ++s)
            write(parts + (long long)s * half_rows * ld_parts, ld_parts, i, j, half_rows, half_columns, groups[s]);
    }
#if SCANS
    reduce_block(low, high, shares + 2 * blockIdx.x);
#endif
}
