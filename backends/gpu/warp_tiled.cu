// Tiles of warps, and 16 bytes at a time: global memory to registers, registers to shared memory, and back.
//
//   for p0 over k by BK          tiles of A, transposed, and of B in shared memory
//     for p over BK by STEPS     TM values of A and TN of B in registers, 16 bytes a load
//
//   BM, BN, BK   tile of a block       WM, WN   tile of a warp       TM, TN   tile of a thread
//   WIDTH_A, WIDTH_B   elements that a load of A, along k, and of B, along n, takes: 16 bytes, or 1 where leading
//                      dimension or address are not aligned
//   OFFSET             an integer type that holds distances within a tile
//
// Source: CUTLASS, "Efficient GEMM in CUDA"; lecture notes on GPU programming: vectorised memory access.
#include "semiring.cuh"
#include "edges.cuh"
#include "grid.cuh"
#include "fragments.cuh"

constexpr int VECTORS_A = BK / WIDTH_A, VECTORS_B = BN / WIDTH_B;  // in a row of a tile
constexpr int LOADS_A = BM * VECTORS_A / THREADS, LOADS_B = BK * VECTORS_B / THREADS;

static_assert(BM * VECTORS_A % THREADS == 0 && BK * VECTORS_B % THREADS == 0, "each thread loads as much as the others");

extern "C" __global__ void __launch_bounds__(THREADS) gemm(GEMM_PARAMETERS)
{
    if (!is_wanted(found)) return;
    DYNAMIC_SHARED(tile_a);
    T* tile_b = tile_a + TILE_A;
    const Tile tile = tile_of_block<BM, BN, GROUP>(m, n);
    const Corner corner = corner_of_thread();
    const int me = threadIdx.x;

    // What this thread loads of each tile: vectors me, me + THREADS, ... row by row. The edges are dealt with here, once.
    OFFSET from_a[LOADS_A], from_b[LOADS_B];
    bool reads_a[LOADS_A], reads_b[LOADS_B];
#pragma unroll
    for (int q = 0; q < LOADS_A; ++q) {
        const int i = tile.row + (me + q * THREADS) / VECTORS_A;
        from_a[q] = (OFFSET)(redirect_row(i, m) - tile.row) * lda, reads_a[q] = is_inside(i, m);
    }
#pragma unroll
    for (int q = 0; q < LOADS_B; ++q) {
        const int j = tile.column + (me + q * THREADS) % VECTORS_B * WIDTH_B;
        from_b[q] = redirect_columns<BN, WIDTH_B>(j, n) - tile.column, reads_b[q] = is_inside(j, n);
    }
    a += (long long)tile.row * lda, b += tile.column;

    Sums sums;
    sums.clear();
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int left = k - p0;
        const bool is_whole = EDGE == PADDED || left >= BK;
#pragma unroll
        for (int q = 0; q < LOADS_A; ++q) {
            const int e = me + q * THREADS, row = e / VECTORS_A, p = e % VECTORS_A * WIDTH_A;
            Vector<T, WIDTH_A> vector;
            if (is_whole && reads_a[q]) vector = read_vector<WIDTH_A>(a + (from_a[q] + p));
            else
#pragma unroll
                for (int v = 0; v < WIDTH_A; ++v)
                    vector.x[v] = load_if(a + (from_a[q] + source_step(p + v, left)), reads_a[q] && is_step(p + v, left));
#pragma unroll
            for (int v = 0; v < WIDTH_A; ++v) tile_a[(p + v) * STRIDE_A + row] = vector.x[v];
        }
#pragma unroll
        for (int q = 0; q < LOADS_B; ++q) {
            const int e = me + q * THREADS, p = e / VECTORS_B, column = e % VECTORS_B * WIDTH_B;
            Vector<T, WIDTH_B> vector = {};
            if (reads_b[q] && is_step(p, left))
                vector = read_vector<WIDTH_B>(b + (from_b[q] + (OFFSET)source_step(p, left) * ldb));
            write_vector<WIDTH_B>(tile_b + p * STRIDE_B + column, vector);
        }
        a += BK, b += (long long)BK * ldb;
        __syncthreads();
#pragma unroll UNROLLED<BK>
        for (int p = 0; p < steps_of_tile<BK>(left); p += STEPS) {
            Fragment fragment;
            fragment.read(tile_a + corner.row + p * STRIDE_A, tile_b + corner.column + p * STRIDE_B);
            sums.combine(fragment);
        }
        __syncthreads();
    }
    sums.store_to(c, m, n, ldc, tile.row + corner.row, tile.column + corner.column);
}
