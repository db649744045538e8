// W := the symmetric matrix whose lower triangle is that of X.
//
//   x     n x n; rows `down` and columns `across` elements apart, of which one is 1. Nothing above its diagonal is used
//   whole n x n, row by row, `ld` elements apart
//   grid  tiles of SIDE x SIDE along x, one a block; those above the diagonal are written by the blocks of their mirror
//         images. `count` matrices along y and z, `next` elements apart
//
//   T           an unsigned type as wide as an element
//   BY_COLUMNS  1: columns of x are contiguous
//   IN_PLACE    1: whole is x, and only what is above the diagonal is written
//
// Each tile is read and written along memory, through shared memory. Source: CUDA C++ Best Practices Guide, transposition.
#include "intrinsics.cuh"

constexpr int SIDE = 32, ROWS = 8;  // of threads; the padding of a row avoids bank conflicts

extern "C" __global__ void __launch_bounds__(SIDE * ROWS)
    mirror(const T* x, long long down, long long across, int n, T* whole, long long ld, int count, long long next)
{
    const long long matrix = blockIdx.z * gridDim.y + blockIdx.y;
    if (matrix >= count) return;
    x += matrix * next, whole += matrix * next;
    __shared__ T tile[SIDE][SIDE + 1];
    const int tiles = (n + SIDE - 1) / SIDE, row = blockIdx.x / tiles * SIDE, column = blockIdx.x % tiles * SIDE;
    if (column > row) return;
    const int me = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
#pragma unroll
    for (int step = first; step < SIDE; step += ROWS) {
        const int i = BY_COLUMNS ? me : step, j = BY_COLUMNS ? step : me;
        if (row + i < n && column + j <= row + i) tile[i][j] = x[(row + i) * down + (column + j) * across];
    }
    __syncthreads();
#pragma unroll
    for (int i = first; i < SIDE; i += ROWS) {
        const bool is_above = row == column && me > i;
        if (row + i < n && column + me < n && (is_above || !IN_PLACE))
            whole[(row + i) * ld + column + me] = is_above ? tile[me][i] : tile[i][me];
        if (row > column && row + me < n) whole[(column + i) * ld + row + me] = tile[me][i];
    }
}
