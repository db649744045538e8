// Elements that a kernel touches once: loads and stores of several neighbours that leave the caches to what is read again.
// Tests that run kernels on a CPU have their own such file.
#pragma once
#include "intrinsics.cuh"

template <class E, int COUNT> struct alignas(sizeof(E) * COUNT) Run {
    E x[COUNT];
};

template <int BYTES> struct Bits;
template <> struct Bits<1> { typedef unsigned char type; };
template <> struct Bits<2> { typedef unsigned short type; };
template <> struct Bits<4> { typedef unsigned type; };
template <> struct Bits<8> { typedef uint2 type; };
template <> struct Bits<16> { typedef uint4 type; };

template <int COUNT, class E> __device__ __forceinline__ Run<E, COUNT> read_once(const E* address)
{
    typedef typename Bits<sizeof(E) * COUNT>::type Word;
    const Word word = __ldcs((const Word*)address);
    return *(const Run<E, COUNT>*)&word;
}

template <int COUNT, class E> __device__ __forceinline__ void write_once(E* address, const Run<E, COUNT>& run)
{
    typedef typename Bits<sizeof(E) * COUNT>::type Word;
    __stcs((Word*)address, *(const Word*)&run);
}
