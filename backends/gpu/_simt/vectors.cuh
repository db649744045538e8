// Loads and stores of several neighbouring elements by one instruction, and of the groups of a thread's tile.
//
// Defined before this file: what semiring.cuh and warp_tiles.cuh ask for.
//
// Source: lecture notes on GPU programming: vectorised memory access.
#pragma once
#include "warp_tiles.cuh"

// Bytes that one instruction moves at most: a longer vector takes several, and needs no wider alignment.
constexpr int WIDEST = 16;
template <class E, int COUNT> constexpr int ALIGNMENT = sizeof(E) * COUNT < WIDEST ? sizeof(E) * COUNT : WIDEST;

template <class E, int COUNT> struct alignas(ALIGNMENT<E, COUNT>) Vector {
    E x[COUNT];
};

template <int COUNT, class E> __device__ __forceinline__ Vector<E, COUNT> read_vector(const E* address)
{
    check_aligned<ALIGNMENT<E, COUNT>>(address);
    return *(const Vector<E, COUNT>*)address;
}

template <int COUNT, class E> __device__ __forceinline__ void write_vector(E* address, const Vector<E, COUNT>& values)
{
    check_aligned<ALIGNMENT<E, COUNT>>(address);
    *(Vector<E, COUNT>*)address = values;
}

// Read a group from shared memory.
__device__ __forceinline__ void read_group(T* values, const T* address)
{
    const auto group = read_vector<GROUP_SIZE>(address);
#pragma unroll
    for (int v = 0; v < GROUP_SIZE; ++v) values[v] = group.x[v];
}
