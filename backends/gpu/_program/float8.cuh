// float8 in memory: read as float32, which every such number has its own of.
#pragma once
#include "intrinsics.cuh"

// The upper byte of a float16
struct E5M2 {
    unsigned char bits;
    E5M2() = default;
    __device__ __forceinline__ E5M2(int zero) : bits((unsigned char)zero) {}
    __device__ __forceinline__ operator float() const { return half_of(bits << 8u); }
};

// Four bits of an exponent that is 8 less than that of a float16 with the same bits; no infinity, and NaN has all bits set.
struct E4M3 {
    unsigned char bits;
    E4M3() = default;
    __device__ __forceinline__ E4M3(int zero) : bits((unsigned char)zero) {}
    __device__ __forceinline__ operator float() const
    {
        const unsigned size = bits & 0x7fu, sign = (bits & 0x80u) << 8;
        return size == 0x7f ? (float)half_of(0x7e00u) : (float)half_of(sign | size << 7) * 256;
    }
};

// The four numbers of a word, the lowest byte first
template <class NUMBER> __device__ __forceinline__ void read_float8(unsigned word, float (&x)[4])
{
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        NUMBER number;
        number.bits = (unsigned char)(word >> 8 * e);
        x[e] = number;
    }
}

#if __CUDA_ARCH__ >= 890
// By an instruction for each two
#define READ_FLOAT8(type, kind)                                                                                      \
    template <> __device__ __forceinline__ void read_float8<type>(unsigned word, float (&x)[4])                      \
    {                                                                                                                \
        unsigned low, high;                                                                                          \
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2." kind "x2 %0, low; cvt.rn.f16x2." kind     \
            "x2 %1, high;}"                                                                                          \
            : "=r"(low), "=r"(high)                                                                                  \
            : "r"(word));                                                                                            \
        x[0] = half_of(low & 0xffffu), x[1] = half_of(low >> 16);                                                    \
        x[2] = half_of(high & 0xffffu), x[3] = half_of(high >> 16);                                                  \
    }
READ_FLOAT8(E4M3, "e4m3")
READ_FLOAT8(E5M2, "e5m2")
#endif
