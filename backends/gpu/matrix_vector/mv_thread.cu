// y[i] = (+)_p M[i, p] (x) x[p]: one thread an element of y.
//
//   thread  one element   p over k by 1: an element of the matrix and one of x from global memory a pair
//
// The threads of a warp read neighbours of a matrix that is contiguous along i. Of one that is contiguous along p each of
// their loads fetches a line of its own.
//
// Source: lecture notes on GPU programming, the first matrix-vector product (cudaSimpleMV).
#include "matrix_vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mv_thread(MATRIX_VECTOR_PARAMETERS)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const T* element = matrix + i * step_i;
    Sum sum = no_terms();
    for (int p = 0; p < k; ++p, element += step_p) combine(sum, *element, x[p * step_x], alpha);
    finish(i, sum, RESULT_ARGUMENTS);
}
