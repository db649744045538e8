// Back from the best of the last states along the stored ones: the path of a sequence by one thread.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    trace(const T* last, const POINTER* pointers, const long long* lengths, int count, int steps, int states, int* paths)
{
    const long long b = blockIdx.x * (long long)THREADS + threadIdx.x;
    if (b >= count) return;
    last += b * states, pointers += b * (steps - 1) * (long long)states, paths += b * steps;
    int state = 0;
    for (int j = 1; j < states; ++j) state = last[j] > last[state] ? j : state;
    for (long long t = steps - 1; t >= 0; --t) {
        if (t < lengths[b] - 1) state = pointers[t * states + state];
        paths[t] = t < lengths[b] ? state : -1;
    }
}
