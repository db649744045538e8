// Tensor-core instructions of one warp, and the copy that fills up with zeros. Tests that run kernels on a CPU have
// their own such file.
//
// Fragments, lane = 4 g + t, DEPTH the steps of k in one instruction (words of 32 bits count as one):
//
//   A  16 x DEPTH  register v holds row g + 8 (v % 2),  column t + 4 (v / 2)
//   B  DEPTH x 8                    row t + 4 v,        column g
//   C  16 x 8                       row g + 8 (v / 2),  column 2 t + v % 2
//
// Source: PTX ISA, mma.m16n8k4, k8, k16 .f64, mma.m16n8k8 .tf32, mma.m16n8k256 .b1.
#pragma once

// c += a b in float64, DEPTH steps of k. sm_80 and sm_89 only have m8n8k4: two of them make one m16n8k4, since 16 rows are 8
// and 8. On sm_90 they would run at half the rate.
template <int DEPTH> __device__ __forceinline__ void mma_f64(double* c, const double* a, const double* b)
{
#if __CUDA_ARCH__ >= 900
    if constexpr (DEPTH == 4)
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                     : "d"(a[0]), "d"(a[1]), "d"(b[0]));
    else if constexpr (DEPTH == 8)
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
                       "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
    for (int p = 0; p < DEPTH / 4; ++p)
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                         : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                         : "d"(a[2 * p + half]), "d"(b[p]));
#endif
}

// c += a b, with a and b in TF32: floats whose last 13 bits are ignored
__device__ __forceinline__ void mma_tf32(float* c, const unsigned* a, const unsigned* b)
{
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// c += number of the 256 positions along k where both a and b have a one
__device__ __forceinline__ void mma_b1(int* c, const unsigned* a, const unsigned* b)
{
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// cp.async of the first `size` of BYTES bytes: the rest is written as zeros. `from` is a multiple of BYTES.
template <int BYTES> __device__ __forceinline__ void copy_part(void* to, const void* from, int size)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(size) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(BYTES), "r"(size)
                     : "memory");
}
