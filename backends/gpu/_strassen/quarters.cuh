// Elements of quarters of a matrix: WIDTH of a row at once, all of which are inside the matrix or outside.
//
//   WIDTH             a power of two that divides half a row; rows begin at multiples of so many elements
//   DIFFERENCE(x, y)  the inverse of (+), which is ADD
#pragma once
#define EDGE 2 /* PADDED: nothing here is a tile */
#include "semiring.cuh"

constexpr int THREADS = 256;

struct alignas(sizeof(T) * WIDTH) Group {
    T x[WIDTH];
};

// Those of row i from column j on; outside zeros.
__device__ __forceinline__ Group read(const T* x, int ld, int i, int j, int rows, int columns)
{
    if (i < rows && j < columns) {
        const T* address = x + (long long)i * ld + j;
        check_aligned<sizeof(Group)>(address);
        return *(const Group*)address;
    }
    Group group;
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) group.x[v] = ZERO;
    return group;
}

__device__ __forceinline__ void write(T* x, int ld, int i, int j, int rows, int columns, const Group& group)
{
    if (i >= rows || j >= columns) return;
    T* address = x + (long long)i * ld + j;
    check_aligned<sizeof(Group)>(address);
    *(Group*)address = group;
}
