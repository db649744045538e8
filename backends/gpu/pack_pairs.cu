// Matrices of 16-bit elements, to words of two neighbours of a row, and back.
//
//   pair        a word holds elements 2 j and 2 j + 1 of a row; beyond the matrix the last element again
//   duplicate   a word holds an element twice
//   separate    out := the elements of words, or out (+) those, by ADD of semiring.cuh
//   widen       what a look found, four elements, as four words
#include "semiring.cuh"

#define FOR_EACH(index, count) \
    for (long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x; index < (count); \
         index += (long long)gridDim.x * blockDim.x)

__device__ __forceinline__ unsigned bits_of(T x) { return (unsigned short)x; }

extern "C" __global__ void __launch_bounds__(256)
    pair(const T* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ words, int all_words)
{
    FOR_EACH(index, (long long)rows * all_words)
    {
        const int j = index % all_words * 2;
        const T* row = x + index / all_words * ld;
        words[index] = bits_of(row[min(j, columns - 1)]) | bits_of(row[min(j + 1, columns - 1)]) << 16;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    duplicate(const T* __restrict__ x, int ld, int rows, int columns, unsigned* __restrict__ words)
{
    FOR_EACH(index, (long long)rows * columns) words[index] = bits_of(x[index / columns * ld + index % columns]) * 0x10001u;
}

extern "C" __global__ void __launch_bounds__(256)
    separate(const unsigned* __restrict__ words, int all_words, T* __restrict__ out, int ld, int rows, int columns,
             const T* __restrict__ found)
{
    if (!is_wanted(found)) return;
    FOR_EACH(index, (long long)rows * columns)
    {
        const int i = index / columns, j = index % columns;
        store(out + (long long)i * ld + j, (T)(words[(long long)i * all_words + j / 2] >> j % 2 * 16));
    }
}

extern "C" __global__ void widen(const T* found, int* words)
{
    if (threadIdx.x < 4) words[threadIdx.x] = found[threadIdx.x];
}
