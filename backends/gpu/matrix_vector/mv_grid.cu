// y[i] = (+)_p M[i, p] (x) x[p]: a block of TALL x DEEP threads, of which DEEP share each row.
//
//   grid    blocks of TALL * ROWS elements of y
//   thread  ROWS elements, TALL apart   p over k by DEEP: an element of x, and ROWS of the matrix from global memory
//   tree    over the DEEP threads of a row in shared memory
//
//   BY_COLUMNS  1: the matrix is contiguous along i, and neighbouring threads have neighbouring rows
//               0: along p, and neighbouring threads have neighbouring steps of k
//
// Source: lecture notes on GPU programming, cudaLargeMV: T rows by Z threads a block.
#include "matrix_vector.cuh"

extern "C" __global__ void __launch_bounds__(TALL* DEEP) mv_grid(MATRIX_VECTOR_PARAMETERS)
{
    __shared__ Sum sums[TALL * DEEP];
    const int t = BY_COLUMNS ? threadIdx.x % TALL : threadIdx.x / DEEP, z = BY_COLUMNS ? threadIdx.x / TALL : threadIdx.x % DEEP;
    const long long first = (long long)blockIdx.x * TALL * ROWS + t;
    Sum own[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) own[r] = no_terms();
    for (unsigned p = z; p < k; p += DEEP) {
        const T of_x = x[p * step_x];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const long long i = first + r * TALL < count ? first + r * TALL : count - 1;  // past the end: a sum that is not stored
            combine(own[r], matrix[i * step_i + p * step_p], of_x, alpha);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        __syncthreads();
        sums[z * TALL + t] = own[r];
        for (int half = DEEP / 2; half; half /= 2) {
            __syncthreads();
            if (z < half) sums[z * TALL + t] = joined(sums[z * TALL + t], sums[(z + half) * TALL + t]);
        }
        if (z == 0 && first + r * TALL < count) finish(first + r * TALL, sums[t], RESULT_ARGUMENTS);
    }
}
