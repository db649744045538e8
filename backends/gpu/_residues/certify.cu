// A bound of the error of each element of A B against that of a sum in any order, from one product of bytes; if one element is not
// within it, the product is native. For CERTIFIES.
//
// x_l and y_l are the sizes of elements of a row of A and a column of B, rounded down to multiples of 2^(unit - 7). So
//
//   |A||B| >= 2^(unit_a + unit_b - 14) sum x_l y_l        the error is at most (2^-e |b|_1 + 2^-f |a|_1) / 2 + k 2^-(e + f) / 4
//
// but for roundings that every sum has. Where k u times the first is no less than the second, the element is certain.
//
//   sums   of x_l y_l, `width` columns, those of each 64 permuted (neighbours.cuh)
//   grid   blocks take rows in turn
//
//   T  unused; LEAST and lists: look.cuh
#include "chain.cuh"
#include "look.cuh"
#include "bytes.cuh"
#include "intrinsics.cuh"
#include "neighbours.cuh"

constexpr int THREADS = 256;

// A vector as the bound has it, in units of 2^unit: what rounding an element loses twice, and the sum of sizes.
struct Vector {
    float loss, size;
};

__device__ __forceinline__ Vector vector_of(double norm, const Extent& extent, double bits)
{
    if (norm == EMPTY) return Vector{0, 0};
    return Vector{(float)exp2(-(double)(exponent_for(norm, bits) + extent.unit)), extent.size};
}

extern "C" __global__ void __launch_bounds__(THREADS)
    certify(const int* __restrict__ sums, int width, int m, int n, int k, const double* __restrict__ norms_a,
            const Extent* __restrict__ extents_a, const double* __restrict__ norms_b, const Extent* __restrict__ extents_b,
            int* moduli)
{
    await_launch_before();
    const int count = *(volatile int*)moduli;
    if (count == 0) return;
    const double bits = half_bits(count);
    // Of k u |A||B| from below; the last factor is for the roundings of this line and the next.
    const float unit = (float)(k * exp2(-14.0 - UNIT_BITS) * 0.9999);
    bool is_certain = true;
    for (int i = blockIdx.x; i < m; i += gridDim.x) {
        const Vector a = vector_of(norms_a[i], extents_a[i], bits);
        for (int j = threadIdx.x; j < n; j += THREADS) {
            const Vector b = vector_of(norms_b[j], extents_b[j], bits);
            const float error = 0.5f * (a.loss * b.size + b.loss * a.size) + 0.25f * k * a.loss * b.loss;
            if (!(unit * (float)sums[(long long)i * width + neighbour(j)] >= error)) is_certain = false;
        }
    }
    if (!is_certain) *moduli = 0;
}
