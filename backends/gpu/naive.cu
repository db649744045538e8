// C[i, j] = (+)_p A[i, p] (x) B[p, j]: one thread an element, every operand from global memory.
//
//   loop over k, by 1    for each pair an element of A and one of B from global memory; the sum in a register
//
// Of a mixed product each element is widened as it is read: float32 operands, float64 sums.
//
//   BM, BN      elements of C that a block of BM * BN threads computes
//   COALESCED   1: the 32 threads of a warp have 32 columns: they read neighbours in a row of B, and one element of A
//               0: they have 32 rows: each of their 32 loads of A fetches a line of its own
//
// Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
#include "semiring.cuh"
#include "grid.cuh"

extern "C" __global__ void __launch_bounds__(BM* BN) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    const Tile tile = tile_of_block<BM, BN, 1>(m, n);
    const int i = tile.row + (COALESCED ? threadIdx.x / BN : threadIdx.x % BM);
    const int j = tile.column + (COALESCED ? threadIdx.x % BN : threadIdx.x / BM);
    if (i >= m || j >= end_of_row(i, n)) return;

    const OPERAND* row = a + (long long)i * lda;
    const OPERAND* column = b + j;
    T total = ZERO;
    // loop over k
    for (int p = 0; p < k; ++p, column += ldb) COMBINE(total, (T)row[p], (T)*column);
    store(c + (long long)i * ldc + j, total);
}
