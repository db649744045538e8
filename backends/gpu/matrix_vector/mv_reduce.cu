// y[i] = (+)_p M[i, p] (x) x[p]: a block an element of y, and a tree over its threads in shared memory.
//
//   grid    a block for each element of y
//   thread  p over k by THREADS: an element of the matrix and one of x from global memory a pair
//   tree    half of the threads add the sums of the other half, log2(THREADS) times
//
// Source: lecture notes on GPU programming, cudaReduceMV; M. Harris, "Optimizing Parallel Reduction in CUDA" (2007).
#include "matrix_vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mv_reduce(MATRIX_VECTOR_PARAMETERS)
{
    __shared__ Sum sums[THREADS];
    const int i = blockIdx.x;
    const T* row = matrix + i * step_i;
    Sum sum = no_terms();
    for (unsigned p = threadIdx.x; p < k; p += THREADS) combine(sum, row[p * step_p], x[p * step_x], alpha);
    sums[threadIdx.x] = sum;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] = joined(sums[threadIdx.x], sums[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) finish(i, sums[0], RESULT_ARGUMENTS);
}
