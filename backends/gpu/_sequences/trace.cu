// Back along the best path of states x that are kept, by a warp:  s[t - 1] = the smallest p whose x[t - 1, p] (x) A[t - 1][p, s[t]]
// is the largest. The same operations made x[t], so nothing but x is kept on the way.
//
// Long sequences are cut into chunks of `size` steps: `maps` walks each from every end, `trace` looks its end up and walks.
#include "semiring.cuh"
#include "memory.cuh"

#define LANES 32
#define AHEAD 4              /* steps whose states are asked for before */
#define LINE (128 / sizeof(T)) /* elements of a line of the cache */

#define AT_ONCE 16 /* loads of a thread in flight */

// The smallest p with the largest x[p] (x) column[p * line], or x[p] without a column; 0 where nothing is possible.
__device__ __forceinline__ int best(const T* x, const T* column, long long line, int states)
{
    T most = ZERO;
    int from = 0;
    for (int first = threadIdx.x; first < states; first += AT_ONCE * LANES) {
        T mine[AT_ONCE], other[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int p = first + i * LANES;
            if (p < states) mine[i] = x[p];
            if (p < states && column) other[i] = column[p * line];
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int p = first + i * LANES;
            if (p >= states) break;
            const T term = column ? MULTIPLY(mine[i], other[i]) : mine[i];
            if (term > most) most = term, from = p;
        }
    }
#pragma unroll
    for (int offset = LANES / 2; offset; offset /= 2) {
        const T other = shuffle_xor(most, offset);
        const int place = shuffle_xor(from, offset);
        if (other > most || (other == most && place < from)) most = other, from = place;
    }
    return from;
}

// From `state` at end - 1 to the state at begin - 1; states are written to `path`, if there is one.
__device__ __forceinline__ int walk(const T* x, const T* a, long long a_step, long long a_line, long long a_column, int states,
                                    long long begin, long long end, int state, int* path)
{
    for (long long t = end - 1; t >= begin; --t) {
        if (path && threadIdx.x == 0) path[t] = state;
        if (t >= AHEAD)
            for (int p = threadIdx.x * LINE; p < states; p += LANES * LINE) prefetch(x + (t - AHEAD) * states + p);
        if (t) state = best(x + (t - 1) * states, a + (t - 1) * a_step + state * a_column, a_line, states);
    }
    return state;
}

#define PARAMETERS                                                                                                               \
    const T *x, const T *a, long long a_sequence, long long a_step, long long a_line, long long a_column,                       \
        const long long *lengths, int steps, int states, int size, int chunks, int *maps, int *paths

extern "C" __global__ void __launch_bounds__(LANES) maps(PARAMETERS)
{
    const int end = blockIdx.x % states;
    const long long number = blockIdx.x / states, b = number / chunks, begin = number % chunks * size, length = lengths[b];
    if (begin >= length) return;
    const long long most = begin + size < length ? begin + size : length;
    const int state =
        walk(x + b * steps * states, a + b * a_sequence, a_step, a_line, a_column, states, begin, most, end, nullptr);
    if (threadIdx.x == 0) maps[blockIdx.x] = state;
}

extern "C" __global__ void __launch_bounds__(LANES) trace(PARAMETERS)
{
    const long long b = blockIdx.x / chunks, begin = (long long)(blockIdx.x % chunks) * size, length = lengths[b];
    const long long stop = begin + size < steps ? begin + size : steps, end = stop < length ? stop : length;
    x += b * steps * states, paths += b * steps;
    for (long long t = (begin > length ? begin : length) + threadIdx.x; t < stop; t += LANES) paths[t] = -1;
    if (begin >= length) return;
    int state = best(x + (length - 1) * states, nullptr, 0, states);
    for (long long last = (length - 1) / size; last > begin / size; --last) state = maps[(b * chunks + last) * states + state];
    walk(x, a + b * a_sequence, a_step, a_line, a_column, states, begin, end, state, paths);
}
