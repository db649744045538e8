// The functions of backends/gpu/_tensor/mma_intrinsics.cuh on a CPU. All threads of a warp deposit their fragments, meet, and
// compute their part of C from the matrices that all deposited; then they meet again.
//
// Fragments as the PTX ISA draws them, g = lane / 4, t = lane % 4.
#pragma once

namespace shim {

struct Registers {
    double a[8], b[4];
};
static Registers deposited[1024];

// `add(c, a, b)` for each step of k of the 16 x 8 elements of C that this lane holds four of.
template <int OF_A, int OF_B, class R, class C, class F> inline void mma(C* c, const R* a, const R* b, F add)
{
    const int me = threadIdx.x, warp = me / 32 * 32, g = me % 32 / 4, t = me % 4;
    for (int v = 0; v < OF_A; ++v) deposited[me].a[v] = a[v];
    for (int v = 0; v < OF_B; ++v) deposited[me].b[v] = b[v];
    meet_warp();
    for (int v = 0; v < 4; ++v) {
        const int row = g + 8 * (v / 2), column = 2 * t + v % 2;
        for (int p = 0; p < 4 * OF_B; ++p) {
            const double of_a = deposited[warp + row % 8 * 4 + p % 4].a[row / 8 + 2 * (p / 4)];
            const double of_b = deposited[warp + column * 4 + p % 4].b[p / 4];
            add(c[v], of_a, of_b);
        }
    }
    meet_warp();
}

inline float tf32(double bits) { return __uint_as_float((unsigned)bits & 0xffffe000u); }

}  // namespace shim

template <int DEPTH> inline void mma_f64(double* c, const double* a, const double* b)
{
    shim::mma<DEPTH / 2, DEPTH / 4>(c, a, b, [](double& sum, double x, double y) { sum = fma(x, y, sum); });
}

inline void mma_tf32(float* c, const unsigned* a, const unsigned* b)
{
    shim::mma<4, 2>(c, a, b, [](float& sum, double x, double y) { sum += shim::tf32(x) * shim::tf32(y); });
}

inline void mma_b1(int* c, const unsigned* a, const unsigned* b)
{
    shim::mma<4, 2>(c, a, b, [](int& count, double x, double y) {
        count += __builtin_popcount((unsigned)x & (unsigned)y);
    });
}

template <int BYTES> inline void copy_part(void* to, const void* from, int size)
{
    shim::check_aligned(to, BYTES);
    if (size) shim::check_aligned(from, BYTES), shim::push_copy(to, from, size, true);
    if (size < BYTES) shim::push_copy((char*)to + size, from, BYTES - size, false);
}
