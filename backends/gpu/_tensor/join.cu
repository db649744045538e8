// C := [C +] alpha times what tensor_core_s8.cu leaves of integers of 8 bytes, a stack of int32 (5, m, ld), modulo 2^64
//
//   2^32 sums[0] + 2^24 sums[1] + 2^16 sums[2] + 2^8 sums[3] + sums[4]
//
// Memory bounds it: a thread reads WIDTH neighbours of each layer at once.
//
//   WIDTH       4 where the rows of C allow vectors of 16 bytes, else 1        ACCUMULATE  1: C := C + sum
#include "intrinsics.cuh"
#include "triangle.cuh"

constexpr int LAYERS = 5, THREADS = 256;

template <class X, int COUNT> struct alignas(COUNT * sizeof(X) < 16 ? COUNT * sizeof(X) : 16) Several {
    X x[COUNT];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    join(const int* __restrict__ sums, int ld, unsigned long long* __restrict__ c, int ldc, int m, int n,
         unsigned long long alpha)
{
    for (int i = blockIdx.x; i < m; i += gridDim.x)
        for (int j = threadIdx.x * WIDTH; j < n; j += THREADS * WIDTH) {
            const int* from = sums + (long long)i * ld + j;
            Several<int, WIDTH> layers[LAYERS];
#pragma unroll
            for (int s = 0; s < LAYERS; ++s) layers[s] = *(const Several<int, WIDTH>*)(from + s * ((long long)m * ld));
            unsigned long long* to = c + (long long)i * ldc + j;
            Several<unsigned long long, WIDTH> total;
            const int left = end_of_row(i, n) - j;
            if (ACCUMULATE && left >= WIDTH) total = *(const Several<unsigned long long, WIDTH>*)to;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) {
                unsigned long long x = (unsigned long long)(unsigned)layers[0].x[v] << 32;
#pragma unroll
                for (int s = 1; s < LAYERS; ++s) x += (unsigned long long)(long long)layers[s].x[v] << 8 * (LAYERS - 1 - s);
                x *= alpha;
                total.x[v] = ACCUMULATE && left >= WIDTH ? total.x[v] + x : x;
            }
            if (left >= WIDTH) {
                *(Several<unsigned long long, WIDTH>*)to = total;
            } else {
#pragma unroll
                for (int v = 0; v < WIDTH; ++v)
                    if (v < left) to[v] = ACCUMULATE ? to[v] + total.x[v] : total.x[v];
            }
        }
}
