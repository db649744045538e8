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
//   UPPER_IM, LOWER_IM                      of complex numbers: products modulo p_t are re + s im and re - s im (residues.cu). Their
//                                           sum is 2 re, and their difference 2 s im; weights of im and of re undo the factors
#include "chain.cuh"
#include "look.cuh"
#include "bytes.cuh"

#ifdef UPPER_IM
constexpr int PARTS = 2;
constexpr double UPPERS[PARTS][MOST - LEAST + 1][MOST] = {{UPPER}, {UPPER_IM}};
constexpr double LOWERS[PARTS][MOST - LEAST + 1][MOST] = {{LOWER}, {LOWER_IM}};
#else
constexpr int PARTS = 1;
constexpr double UPPERS[PARTS][MOST - LEAST + 1][MOST] = {{UPPER}}, LOWERS[PARTS][MOST - LEAST + 1][MOST] = {{LOWER}};
#endif

constexpr int THREADS = 256, RUN = 4;

constexpr int WIDTH = 16 / sizeof(T);

struct alignas(16) Vector {
    T x[WIDTH];
};

// Four elements C' from their residues modulo COUNT numbers; parts side by side.
template <int COUNT> __device__ __forceinline__ void fold(const unsigned* words, long long distance, double* folded)
{
    constexpr double inverses[] = {INVERSES}, first[] = {FIRST}, second[] = {SECOND};
    constexpr int row = COUNT - LEAST;
    unsigned residues[COUNT][PARTS];
#pragma unroll
    for (int t = 0; t < COUNT; ++t)
#pragma unroll
        for (int part = 0; part < PARTS; ++part) residues[t][part] = words[(t * PARTS + part) * distance];
#pragma unroll
    for (int v = 0; v < RUN; ++v) {
        double high[PARTS] = {}, low[PARTS] = {};
#pragma unroll
        for (int t = 0; t < COUNT; ++t) {
            double c[PARTS];
            for (int part = 0; part < PARTS; ++part) c[part] = number_of_byte(residues[t][part], v);
            if (PARTS > 1) {
                const double difference = c[0] - c[PARTS - 1];
                c[0] += c[PARTS - 1], c[PARTS - 1] = difference;
            }
            for (int part = 0; part < PARTS; ++part)
                high[part] = fma(c[part], UPPERS[part][row][t], high[part]), low[part] = fma(c[part], LOWERS[part][row][t], low[part]);
        }
        for (int part = 0; part < PARTS; ++part) {
            const double q = rint(high[part] * inverses[row]);
            folded[v * PARTS + part] = fma(-q, first[row], high[part]) + fma(-q, second[row], low[part]);
        }
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
        const double* __restrict__ norms_b, T alpha, T beta, T beta_im, const T* c, long long c_down, long long c_across, T* out, int ld)
{
    await_launch_before();
    const int count = *moduli;
    if (count == 0) return;
    const double bits = half_bits(count);
    const unsigned across = width / RUN, words = across * (unsigned)m, stride = gridDim.x * THREADS;
    for (unsigned w = blockIdx.x * THREADS + threadIdx.x; w < words; w += stride) {
        const unsigned i = w / across, j = (w - i * across) * RUN;
        if (j >= n) continue;
        double values[RUN * PARTS];
        fold_any(count, residues + w, words, values);
        const double norm = norms_a[i];
        const int down = exponent_for(norm, bits);
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            if (j + v >= n) break;
            const double other = norms_b[j + v];
            const int e = -(down + exponent_for(other, bits)), half = e / 2;
            const bool is_empty = norm == EMPTY || other == EMPTY;
            double* value = values + v * PARTS;
            for (int part = 0; part < PARTS; ++part) {
                value[part] = is_empty ? 0 : value[part] * two_to(half) * two_to(e - half);
                if (HAS_ALPHA) value[part] *= alpha;  // of real numbers
            }
            if (HAS_C) {
                const T* from = c + (i * c_down + (j + v) * c_across) * PARTS;
                const double re = from[0], im = from[PARTS - 1];
                if (PARTS == 1) value[0] += HAS_BETA ? beta * re : re;
                else {
                    value[0] += HAS_BETA ? beta * re - beta_im * im : re;
                    value[PARTS - 1] += HAS_BETA ? beta * im + beta_im * re : im;
                }
            }
        }
        T* to = out + ((long long)i * ld + j) * PARTS;
        if (WIDE && j + RUN <= n) {
#pragma unroll
            for (int v = 0; v < RUN * PARTS; v += WIDTH) {
                Vector vector;
#pragma unroll
                for (int u = 0; u < WIDTH; ++u) vector.x[u] = values[v + u];
                *(Vector*)(to + v) = vector;
            }
        } else {
#pragma unroll
            for (int v = 0; v < RUN * PARTS; ++v)
                if (j + v / PARTS < n) to[v] = values[v];
        }
    }
}
