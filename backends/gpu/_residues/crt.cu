// D := alpha A B [+ beta C] from the residues of (2^e_i a_i) (b_j 2^f_j), by the Chinese remainder theorem.
//
//   C' = sum_t c_t w_t modulo P        w_t = (P / p_t) ((P / p_t)^-1 modulo p_t), P the product of the moduli
//
// Weights are sums of two doubles. The upper ones are multiples of so large a power of two that their sum H is exact; L is
// the sum of the lower ones. With q = H / P to the nearest integer, and P = P1 + P2,
//
//   C' = fma(-q, P1, H) + fma(-q, P2, L)
//
// the first of which is exact. The power of two is taken back in two factors, so that neither overflows.
//
//   grid  a thread takes RUN neighbours of a row at a time
//
//   UPPER, LOWER, INVERSES, FIRST, SECOND   tables of the weights, of 1 / P, P1 and P2 by the number of moduli
//   HAS_ALPHA, HAS_C, HAS_BETA              what there is
//   WIDE                                    16 bytes of D are stored at once: its rows begin at multiples of that
#include "chain.cuh"
#include "look.cuh"
#include "bytes.cuh"

constexpr int THREADS = 256, RUN = 4;

constexpr int WIDTH = 16 / sizeof(T);

struct alignas(16) Vector {
    T x[WIDTH];
};

// Four elements C' from their residues modulo COUNT numbers.
template <int COUNT> __device__ __forceinline__ void fold(const unsigned* words, long long distance, double* folded)
{
    constexpr double upper[][MOST] = {UPPER}, lower[][MOST] = {LOWER};
    constexpr double inverses[] = {INVERSES}, first[] = {FIRST}, second[] = {SECOND};
    constexpr int row = COUNT - LEAST;
    unsigned residues[COUNT];
#pragma unroll
    for (int t = 0; t < COUNT; ++t) residues[t] = words[t * distance];
#pragma unroll
    for (int v = 0; v < RUN; ++v) {
        double high = 0, low = 0;
#pragma unroll
        for (int t = 0; t < COUNT; ++t) {
            const double c = number_of_byte(residues[t], v);
            high = fma(c, upper[row][t], high), low = fma(c, lower[row][t], low);
        }
        const double q = rint(high * inverses[row]);
        folded[v] = fma(-q, first[row], high) + fma(-q, second[row], low);
    }
}

template <int COUNT = LEAST>
__device__ __forceinline__ void fold_any(int count, const unsigned* words, long long distance, double* folded)
{
    if (COUNT == count) fold<COUNT>(words, distance, folded);
    else if constexpr (COUNT < MOST) fold_any<COUNT + 1>(count, words, distance, folded);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    crt(const int* moduli, const unsigned* __restrict__ residues, int width, int m, int n, const double* __restrict__ norms_a,
        const double* __restrict__ norms_b, T alpha, T beta, const T* c, long long c_down, long long c_across, T* out, int ld)
{
    await_launch_before();
    const int count = *moduli;
    if (count == 0) return;
    const double bits = half_bits(count);
    const unsigned across = width / RUN, words = across * (unsigned)m, stride = gridDim.x * THREADS;
    for (unsigned w = blockIdx.x * THREADS + threadIdx.x; w < words; w += stride) {
        const unsigned i = w / across, j = (w - i * across) * RUN;
        if (j >= n) continue;
        double values[RUN];
        fold_any(count, residues + w, words, values);
        const double norm = norms_a[i];
        const int down = exponent_for(norm, bits);
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            if (j + v >= n) break;
            const double other = norms_b[j + v];
            const int e = -(down + exponent_for(other, bits)), half = e / 2;
            double value = norm == EMPTY || other == EMPTY ? 0 : values[v] * two_to(half) * two_to(e - half);
            if (HAS_ALPHA) value *= alpha;
            if (HAS_C) {
                const double before = c[i * c_down + (j + v) * c_across];
                value += HAS_BETA ? beta * before : before;
            }
            values[v] = value;
        }
        T* to = out + (long long)i * ld + j;
        if (WIDE && j + RUN <= n) {
#pragma unroll
            for (int v = 0; v < RUN; v += WIDTH) {
                Vector vector;
#pragma unroll
                for (int u = 0; u < WIDTH; ++u) vector.x[u] = values[v + u];
                *(Vector*)(to + v) = vector;
            }
        } else {
#pragma unroll
            for (int v = 0; v < RUN; ++v)
                if (j + v < n) to[v] = values[v];
        }
    }
}
