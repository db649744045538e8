// C by square tiles: a block loads a tile of A and one of B into shared memory, and uses each element TILE times.
//
//   C[i, j] = (+)_p A[i, p] (x) B[p, j]
//
//   loop over tiles of k, by TILE       tiles of A and B in shared memory   sequential: each adds to the same sums
//     loop over steps of a tile, by 1   one pair for each thread, from two values of shared memory
//
//   TILE    side of a tile, and of a block of TILE * TILE threads, one element of C each
//   UNROLL  0: the loop over steps of a tile stays a loop; may be left undefined
//
// Source: CUDA C++ Programming Guide, "Shared Memory": the blocked matrix product.
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"

#ifndef UNROLL
#define UNROLL 1
#endif
constexpr int STEPS_UNROLLED = UNROLL ? UNROLLED<TILE> : 1;

extern "C" __global__ void __launch_bounds__(TILE* TILE) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    DYNAMIC_SHARED(tile_a);
    T* tile_b = tile_a + TILE * TILE;
    const Tile tile = tile_of_block<TILE, TILE, 1>(m, n);
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE, i = tile.row + y, j = tile.column + x;
    const bool reads_a = is_inside(i, m), reads_b = is_inside(j, n);
    const T* row = a + (long long)redirect_row(i, m) * lda;
    const T* column = b + redirect_columns<TILE, 1>(j, n);

    T total = ZERO;
    // loop over tiles of k
    for (int p0 = 0; p0 < k; p0 += TILE) {
        const int left = k - p0;
        const T* step = column + (long long)(p0 + source_step(y, left)) * ldb;
        tile_a[y * TILE + x] = load_if(row + p0 + source_step(x, left), reads_a && is_step(x, left));
        tile_b[y * TILE + x] = load_if(step, reads_b && is_step(y, left));
        __syncthreads();
        // loop over steps of a tile
#pragma unroll STEPS_UNROLLED
        for (int p = 0; p < steps_of_tile<TILE>(left); ++p) COMBINE(total, tile_a[y * TILE + p], tile_b[p * TILE + x]);
        __syncthreads();
    }
    if (i < m && j < n) store(c + (long long)i * ldc + j, total);
}
