// A matrix that serves all steps of sequences over logaddexp_plus, as exponentials:
//
//   P[i, j] = 2^h exp(A[i, j] - c[j]),  c[j] = max_i A[i, j]
#include "semiring.cuh"
#include "exponentials.cuh"

// Block j makes column j; `columns` are c[j] and the least sum that is trusted.
extern "C" __global__ void __launch_bounds__(THREADS)
    factors(const T* a, long long line, int states, T* p, T* columns, int exponent, T narrow, T limit)
{
    __shared__ T tops[THREADS], leasts[THREADS];
    const int j = blockIdx.x, me = threadIdx.x;
    T top = -INFINITE, least = INFINITE;
    for (int i = me; i < states; i += THREADS) {
        const T x = a[i * line + j];
        top = x > top ? x : top;
        if (x > -INFINITE) least = x < least ? x : least;
    }
    tops[me] = top, leasts[me] = least;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (me < half) {
            tops[me] = tops[me + half] > tops[me] ? tops[me + half] : tops[me];
            leasts[me] = leasts[me + half] < leasts[me] ? leasts[me + half] : leasts[me];
        }
    }
    __syncthreads();
    const T shift = tops[0] > -INFINITE ? tops[0] : (T)0;
    if (me == 0) columns[2 * j] = shift, columns[2 * j + 1] = leasts[0] - shift >= narrow ? (T)0 : limit;
    for (int i = me; i < states; i += THREADS) p[(long long)i * states + j] = scaled_exp(a[i * line + j], shift, exponent);
}
