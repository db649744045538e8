// The grades of grades.cuh: half the difference of the greatest exponents of B and A at each p, their vectors scaled to norm 1.
//
//   peaks   of one operand by p: BIAS + the greatest exponent, 0 where all elements are zeros; zeros before
//   grades  grades of both peaks, which are zeros again
//
//   T  type of the elements
#include "look.cuh"
#include "grades.cuh"
#include "memory.cuh"

constexpr int THREADS = 256, LANES = 32, DOWN = 64;
constexpr int BIAS = 4096, MOST_GRADE = 400;  // elements and norms are within 2^+-450: factors are normal numbers

__device__ __forceinline__ int peak_of(double x, double norm)
{
    return x == 0 || x - x != 0 || norm == EMPTY ? 0 : BIAS + max(ilogb(x) - (int)ceil(norm), 1 - BIAS);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    peaks(const T* __restrict__ x, int ld, int is_along, int vectors, int k, const double* norms, int* peaks)
{
    __shared__ int of_threads[THREADS];
    int most = 0;
    if (is_along) {  // a thread takes an element of DOWN vectors
        const int across = (k + THREADS - 1) / THREADS, p = blockIdx.x % across * THREADS + threadIdx.x;
        const int first = blockIdx.x / across * DOWN;
        if (p >= k) return;
        for (int i = first; i < min(first + DOWN, vectors); ++i) most = max(most, peak_of(x[(long long)i * ld + p], norms[i]));
        if (most) atomicMax(peaks + p, most);
        return;
    }
    const int p = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES, lane = threadIdx.x % LANES;  // a warp takes a p
    if (p < k)
        for (int i = lane; i < vectors; i += LANES) most = max(most, peak_of(x[(long long)p * ld + i], norms[i]));
    of_threads[threadIdx.x] = most;
    __syncthreads();
    if (p >= k || lane > 0) return;
    for (int other = 1; other < LANES; ++other) most = max(most, of_threads[threadIdx.x + other]);
    peaks[p] = most;
}

extern "C" __global__ void __launch_bounds__(THREADS) grades(int* peaks_a, int* peaks_b, int k, int* grades)
{
    for (int p = blockIdx.x * THREADS + threadIdx.x; p < k; p += gridDim.x * THREADS) {
        const int a = peaks_a[p], b = peaks_b[p], grade = (b - a) / 2;
        grades[p] = a && b ? max(-MOST_GRADE, min(grade, MOST_GRADE)) : NO_GRADE;
        peaks_a[p] = peaks_b[p] = 0;
    }
}
