// Neighbouring elements that one instruction loads.
#pragma once

template <int COUNT> struct alignas(sizeof(T) * COUNT) Group {
    T x[COUNT];
};

template <int COUNT> __device__ __forceinline__ Group<COUNT> read(const T* from)
{
    check_aligned<sizeof(T) * COUNT>(from);
    return *(const Group<COUNT>*)from;
}
