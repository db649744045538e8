// The functions of backends/gpu/_matrix_vector/streaming.cuh on a CPU.
#pragma once
#include "intrinsics.cuh"

template <class E, int COUNT> struct alignas(sizeof(E) * COUNT) Run {
    E x[COUNT];
};

template <int COUNT, class E> inline Run<E, COUNT> read_once(const E* address)
{
    shim::check_aligned(address, sizeof(E) * COUNT);
    return *(const Run<E, COUNT>*)address;
}

template <int COUNT, class E> inline void write_once(E* address, const Run<E, COUNT>& run)
{
    shim::check_aligned(address, sizeof(E) * COUNT);
    *(Run<E, COUNT>*)address = run;
}
