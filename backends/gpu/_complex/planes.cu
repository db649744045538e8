// Complex matrices as planes of their parts, which a real product multiplies, and D from that product.
//
//   split   x, a row of A or a column of B, of k elements, becomes two lines of `width`, zeros beyond k:
//
//               of A  re(alpha x), im(alpha x)        of B  re(x), -im(x)        conjugated if so
//
//           so the dot product of both lines of A with both of B is a real part of D
//   join    of the product P of all lines, four elements each of D: with P the products of one pair of vectors,
//
//               re = P[0][0] + P[1][1]        im = P[1][0] - P[0][1]        D = re + i im [+ beta C]
//
//   grid  split: tiles of SIDE x SIDE elements, one a block at a time; blockIdx.y says which matrix
//         join: a block takes THREADS elements of a row of D at a time
//
//   FROM, T           types of a part of an operand, and of sums
//   A_SIGN, B_SIGN    -1: the operand is conjugated
//   HAS_TERMS         0: k is 0, and there is no P
//   HAS_ALPHA, HAS_C, HAS_BETA   what there is
#include "chain.cuh"
#include "intrinsics.cuh"

constexpr int SIDE = 32, DOWN = 8, THREADS = SIDE * DOWN;

template <class P> struct alignas(2 * sizeof(P)) Parts {
    P re, im;
};

__device__ __forceinline__ Parts<T> times(const Parts<T>& x, const Parts<T>& y)
{
    return Parts<T>{x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

struct Operand {
    const Parts<FROM>* x;
    T* to;
    int ld, vectors, k, is_along;  // whether the elements of a vector are neighbours; else the vectors are
};

template <bool IS_A> __device__ __forceinline__ void split_tile(const Operand& of, Parts<FROM> (*tile)[SIDE + 1], int width, int first, int p0, Parts<T> alpha)
{
    const int beside = threadIdx.x % SIDE, down = threadIdx.x / SIDE;
#pragma unroll
    for (int offset = down; offset < SIDE; offset += DOWN) {
        const int i = first + (of.is_along ? offset : beside), p = p0 + (of.is_along ? beside : offset);
        const long long at = of.is_along ? (long long)i * of.ld + p : (long long)p * of.ld + i;
        tile[i - first][p - p0] = i < of.vectors && p < of.k ? of.x[at] : Parts<FROM>{};
    }
    __syncthreads();
#pragma unroll
    for (int offset = down; offset < SIDE; offset += DOWN) {
        const int i = first + offset, p = p0 + beside;
        const Parts<FROM> x = tile[offset][beside];
        Parts<T> y = {(T)x.re, (T)(IS_A ? A_SIGN * x.im : -B_SIGN * x.im)};
        if (HAS_ALPHA && IS_A && p < of.k) y = times(alpha, y);
        T* to = of.to + (long long)i * 2 * width + p;
        if (i < of.vectors && p < width) to[0] = y.re, to[width] = y.im;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    split(const Parts<FROM>* a, int lda, int m, int a_is_along, T* to_a, const Parts<FROM>* b, int ldb, int n, int b_is_along, T* to_b,
          int k, int width, T alpha_re, T alpha_im)
{
    __shared__ Parts<FROM> tile[SIDE][SIDE + 1];
    await_launch_before();
    const bool is_b = blockIdx.y;
    const Operand of = is_b ? Operand{b, to_b, ldb, n, k, b_is_along} : Operand{a, to_a, lda, m, k, a_is_along};
    const int across = (width + SIDE - 1) / SIDE, count = (of.vectors + SIDE - 1) / SIDE * across;
    const Parts<T> alpha = {alpha_re, alpha_im};
    for (int index = blockIdx.x; index < count; index += gridDim.x) {
        const int first = index / across * SIDE, p0 = index % across * SIDE;
        if (is_b) split_tile<false>(of, tile, width, first, p0, alpha);
        else split_tile<true>(of, tile, width, first, p0, alpha);
    }
}

// Nothing if the int32 at `unless`, if there is one, is another number than 0.
extern "C" __global__ void __launch_bounds__(THREADS)
    join(const int* unless, const Parts<T>* __restrict__ products, int m, int n, T beta_re, T beta_im, const Parts<T>* c,
         long long c_down, long long c_across, Parts<T>* out, int ld)
{
    await_launch_before();
    if (unless && *unless) return;
    const int across = (n + THREADS - 1) / THREADS;
    const long long count = (long long)m * across;
    for (long long index = blockIdx.x; index < count; index += gridDim.x) {
        const long long i = index / across;
        const int j = (int)(index - i * across) * THREADS + (int)threadIdx.x;
        if (j >= n) continue;
        Parts<T> sum = {};
        if (HAS_TERMS) {
            const Parts<T> x = products[2 * i * n + j], y = products[(2 * i + 1) * n + j];
            sum = Parts<T>{x.re + y.im, y.re - x.im};
        }
        if (HAS_C) {
            Parts<T> before = c[i * c_down + j * c_across];
            if (HAS_BETA) before = times(Parts<T>{beta_re, beta_im}, before);
            sum = HAS_TERMS ? Parts<T>{sum.re + before.re, sum.im + before.im} : before;
        }
        out[i * ld + j] = sum;
    }
}
