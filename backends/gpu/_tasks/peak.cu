// Arithmetic on registers alone: each thread repeatedly combines sums with operands in registers. Only the arithmetic units
// and the rate of their registers bound it: the ceiling for percentages.
//
//   for step over `steps` by UNROLLED
//     SUMS sums of a thread := sum (+) a (x) b, enough of them to hide the latency of an instruction
//
// Operands come from memory, so that the compiler cannot see that they are equal and compute a term only once.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    peak(const T* __restrict__ x, RESULT* __restrict__ out, int steps)
{
    T sums[SUMS], a[SUMS], b[UNROLLED];
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = ZERO, a[i] = x[i];
#pragma unroll
    for (int u = 0; u < UNROLLED; ++u) b[u] = x[SUMS + u];
    for (int step = 0; step < steps; step += UNROLLED) {
#pragma unroll
        for (int u = 0; u < UNROLLED; u += STEPS) {
#pragma unroll
            for (int v = 0; v < STEPS; ++v) forget(b[u + v]);  // else terms would be computed once, before the loop
#pragma unroll
            for (int i = 0; i < SUMS; ++i) {
#if STEPS == 2
                const T first = MULTIPLY(a[i], b[u]), second = MULTIPLY(a[(i + 1) % SUMS], b[u + 1]);
                COMBINE_TWO(sums[i], first, second);
#else
                COMBINE(sums[i], a[i], b[u]);
#endif
            }
        }
    }
    RESULT total = FINISHED(sums[0]);
#pragma unroll
    for (int i = 1; i < SUMS; ++i) total = ADD(total, FINISHED(sums[i]));
    out[blockIdx.x * THREADS + threadIdx.x] = total;
}
