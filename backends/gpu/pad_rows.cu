// padded := x in a buffer of its own, zeros to the right of it and below: rows begin at multiples of 16 bytes, or the
// matrix is made of whole tiles. A block copies a row at a time. O(n^2) beside O(n^3).
//
//   T  any type of the size of an element
#include "intrinsics.cuh"

extern "C" __global__ void __launch_bounds__(256)
    pad_rows(const T* __restrict__ x, int ld, int rows, int columns, T* __restrict__ padded, int all_rows,
             int all_columns)
{
    for (int i = blockIdx.x; i < all_rows; i += gridDim.x) {
        const T* from = x + (long long)min(i, rows - 1) * ld;
        T* to = padded + (long long)i * all_columns;
        for (int j = threadIdx.x; j < all_columns; j += blockDim.x)
            to[j] = i < rows && j < columns ? from[j] : (T)0;
    }
}
