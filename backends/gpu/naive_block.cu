// C[i, j] = (+)_p A[i, p] (x) B[p, j] by one block of n x m threads, one thread an element: a first kernel.
//
//   loop over k, by 1    for each pair an element of A and one of B from global memory; the sum in a register
//
// A block has at most 1024 threads and runs on one multiprocessor, so C is at most 32 x 32 and the others are idle.
//
// Source: lecture notes on GPU programming, the first matrix product.
#include "semiring.cuh"

extern "C" __global__ void gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    ENTER_GEMM
    const int i = threadIdx.y, j = threadIdx.x;
    T total = ZERO;
    // loop over k
    for (int p = 0; p < k; ++p) COMBINE(total, a[i * lda + p], b[(long long)p * ldb + j]);
    store(c + i * ldc + j, total);
}
