// Bools from memory: a byte that is not 0 is true. What kernels compute with and write is 0 or 1.
#pragma once

template <class I> __device__ __forceinline__ I truth(I x) { return (I)at_most_one(x); }

// Of the four bytes of a word.
__device__ __forceinline__ unsigned truths(unsigned x) { return ((x & 0x7f7f7f7fu) + 0x7f7f7f7fu | x) >> 7 & 0x01010101u; }
