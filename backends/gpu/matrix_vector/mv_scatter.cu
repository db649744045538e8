// y[i] (+)= M[i, p] (x) x[p] by atomic updates: threads on elements of x, each adding to elements of y.
//
//   begin    keys[i] := (beta (x) c[i]) or the zero, as keys
//   scatter  thread: one element of x, ROWS elements of y   i by 1: an atomic update a pair
//   end      y[i] := the value of keys[i]
//
// A key is a value that the GPU's atomic operations know: an integer of 4 or 8 bytes, or a float to be summed. Floats under
// min and max become integers of the same order. The order of the updates, and so the last bits of sums of floats, differ
// from run to run.
//
//   KEY        type of the keys              ATOMIC     the operation on them
//   IS_ORDERED 1: keys are floats as integers of the same order; a NaN term is absent
//
// Source: Kirk and Hwu, "Programming Massively Parallel Processors": scatter and gather.
#include "matrix_vector.cuh"

#if IS_ORDERED
constexpr KEY SIGN = (KEY)1 << (8 * sizeof(KEY) - 1);
#endif

__device__ __forceinline__ KEY key_of(T x)
{
#if IS_ORDERED
    const KEY bits = as_value<KEY>(x);
    return bits & SIGN ? ~bits : bits | SIGN;  // below zero a larger number has smaller bits
#else
    return (KEY)x;
#endif
}

__device__ __forceinline__ T value_of(KEY key)
{
#if IS_ORDERED
    return as_value<T>(key & SIGN ? key ^ SIGN : ~key);
#else
    return (T)key;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    mv_scatter_begin(const T* c, KEY* keys, T beta, int count, long long step_c)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) keys[i] = key_of(ACCUMULATE ? begun(c + i * step_c, beta) : ZERO);
}

extern "C" __global__ void __launch_bounds__(THREADS) mv_scatter(MATRIX_VECTOR_PARAMETERS, KEY* keys, int blocks)
{
    const unsigned p = blockIdx.x % blocks * THREADS + threadIdx.x;
    if (p >= k) return;
    const long long first = (long long)(blockIdx.x / blocks) * ROWS;
    const T of_x = x[p * step_x];
    const T* element = matrix + first * step_i + p * step_p;
    for (int r = 0; r < ROWS && first + r < count; ++r, element += step_i) {
        const T term = term_of(*element, of_x, alpha);
        if (IS_ORDERED && term != term) continue;
        ATOMIC(keys + first + r, key_of(term));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) mv_scatter_end(const KEY* keys, T* y, int count, long long step_y)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) y[i * step_y] = value_of(keys[i]);
}
