// Bytes of words: what is one or two instructions of the GPU and no expression of C++. Tests that run kernels on a CPU have
// their own such file.
#pragma once

// sum + the four bytes of x, unsigned, times those of w, signed.
__device__ __forceinline__ int dot_of_bytes(unsigned x, unsigned w, int sum)
{
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
    return result;
}

// sum + the four bytes of x times those of y, all signed; sums wrap.
__device__ __forceinline__ int dot_of_signed(unsigned x, unsigned y, int sum) { return __dp4a((int)x, (int)y, sum); }

// The same of unsigned bytes.
__device__ __forceinline__ int dot_of_unsigned(unsigned x, unsigned y, int sum) { return (int)__dp4a(x, y, (unsigned)sum); }

// Byte number `e` of x: placed below 2^52 in the bits of a number, from which 2^52 is taken.
__device__ __forceinline__ double number_of_byte(unsigned x, int e)
{
    return __hiloint2double(0x43300000, __byte_perm(x, 0, 0x4440 + e)) - 0x1p52;
}

// The last bytes of four words as one.
__device__ __forceinline__ unsigned last_bytes(const unsigned (&x)[4])
{
    return __byte_perm(__byte_perm(x[0], x[1], 0x0040), __byte_perm(x[2], x[3], 0x0040), 0x5410);
}

// 2^e of a normal number.
__device__ __forceinline__ double two_to(int e) { return __longlong_as_double((long long)(e + 1023) << 52); }

// The exponent of the power of two below |x|, of a normal number.
__device__ __forceinline__ int exponent_of(double x) { return (int)(__double_as_longlong(x) >> 52 & 0x7ff) - 1023; }

// The sum over the 32 lanes of a warp, which call it together.
__device__ __forceinline__ unsigned sum_of_lanes(unsigned x) { return __reduce_add_sync(~0u, x); }
