// D from the seven products of halves, in one pass at the speed of memory.
//
//   gather         out := (alpha (x) sums of products) (+) (beta (x) c), each of alpha, c and beta only where its flag is set
//   scale_instead  scaled := alpha (x) a, for the product that is computed instead
//
// Sums of quarters could overflow, or spread a NaN or an infinity to other rows and columns. So the passes over A and B
// find their extremes. If one of them does not fit, a guarded kernel has computed `whole`, alpha included, and gather
// takes it: the host waits for nothing. Without `extremes` all values fit.
//
//   RESULT_SUMS  statements that compute c11, c12, c21 and c22 from p1 to p7 (backends/_strassen/form.py)
//
// Source: Strassen, "Gaussian Elimination is not Optimal" (1969); odd sizes: Huss-Lederman et al. (1996).
#include "quarters.cuh"

constexpr int PRODUCTS = 7;

// A NaN fits nowhere.
__device__ __forceinline__ bool fits(const T* extremes, T largest)
{
    const T least = (T)-largest;
    return !extremes || (least <= extremes[0] && extremes[1] <= largest && least <= extremes[2] && extremes[3] <= largest);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scale_instead(const T* extremes, T largest, T alpha, const T* a, int lda, int m, int k, T* scaled, int ld)
{
    if (fits(extremes, largest)) return;
    const long long every = (long long)m * k, step = (long long)gridDim.x * THREADS;
    for (long long index = (long long)blockIdx.x * THREADS + threadIdx.x; index < every; index += step)
        scaled[index / k * ld + index % k] = MULTIPLY(alpha, a[index / k * lda + index % k]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const T* products, int ld_products, const T* whole, int ld_whole, const T* extremes, T largest, int has_alpha,
           T alpha, int has_c, int has_beta, T beta, const T* c, int ldc, T* out, int ld, int m, int n)
{
    const bool is_whole = !fits(extremes, largest);
    const int half_m = (m + 1) / 2, half_n = (n + 1) / 2, across = half_n / WIDTH;
    const long long every = (long long)half_m * across, step = (long long)gridDim.x * THREADS;
    for (long long index = (long long)blockIdx.x * THREADS + threadIdx.x; index < every; index += step) {
        const int i = index / across, j = index % across * WIDTH;
        Group quarters[4];
        if (is_whole) {
#pragma unroll
            for (int q = 0; q < 4; ++q)
                quarters[q] = read(whole, ld_whole, i + q / 2 * half_m, j + q % 2 * half_n, m, n);
        } else {
            Group p[PRODUCTS];
#pragma unroll
            for (int s = 0; s < PRODUCTS; ++s)
                p[s] = read(products + (long long)s * half_m * ld_products, ld_products, i, j, half_m, half_n);
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) {
                const T p1 = p[0].x[v], p2 = p[1].x[v], p3 = p[2].x[v], p4 = p[3].x[v], p5 = p[4].x[v], p6 = p[5].x[v],
                        p7 = p[6].x[v];
                RESULT_SUMS
                quarters[0].x[v] = c11, quarters[1].x[v] = c12, quarters[2].x[v] = c21, quarters[3].x[v] = c22;
                if (has_alpha)
#pragma unroll
                    for (int q = 0; q < 4; ++q) quarters[q].x[v] = MULTIPLY(alpha, quarters[q].x[v]);
            }
        }
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int row = i + q / 2 * half_m, column = j + q % 2 * half_n;
            if (has_c) {
                const Group old = read(c, ldc, row, column, m, n);
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) {
                    const T term = has_beta ? MULTIPLY(beta, old.x[v]) : old.x[v];
                    quarters[q].x[v] = ADD(quarters[q].x[v], term);
                }
            }
            write(out, ld, row, column, m, n, quarters[q]);
        }
    }
}
