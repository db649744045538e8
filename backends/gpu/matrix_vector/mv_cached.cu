// y[i] = (+)_p M[i, p] (x) x[p]: one thread an element of y, and x comes through shared memory.
//
//   block   THREADS elements of y   p over k by THREADS: that many elements of x, one by each thread, to shared memory
//   thread  one element             p over them by 1: an element of the matrix from global memory a pair
//
// Source: lecture notes on GPU programming: the vector in shared memory.
#include "matrix_vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mv_cached(MATRIX_VECTOR_PARAMETERS)
{
    __shared__ T of_x[THREADS];
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    const T* row = matrix + min(i, (unsigned)count - 1) * step_i;  // past the end: a row whose sum is not stored
    Sum sum = no_terms();
    for (unsigned begin = 0; begin < k; begin += THREADS) {
        const unsigned depth = min((unsigned)THREADS, k - begin);
        if (threadIdx.x < depth) of_x[threadIdx.x] = x[(begin + threadIdx.x) * step_x];
        __syncthreads();
        for (unsigned p = 0; p < depth; ++p) combine(sum, row[(begin + p) * step_p], of_x[p], alpha);
        __syncthreads();
    }
    if (i < count) finish(i, sum, RESULT_ARGUMENTS);
}
