// The functions of backends/gpu/_program/memory.cuh on a CPU, where cuda_host.h comes first.
#pragma once

template <class V, class W> inline V as_value(W word)
{
    V value;
    memcpy(&value, &word, sizeof value);
    return value;
}

template <class V> inline V stream(const V* address)
{
    shim::check_aligned(address, sizeof(V));
    return *address;
}
template <class V> inline V keep(const V* address) { return stream(address); }
template <class V> inline V fresh(const V* address) { return stream(address); }

inline void copy_granule(void* to, const void* from)
{
    shim::check_aligned(to, 16);
    shim::check_aligned(from, 16);
    memcpy(to, from, 16);
}
inline void await_granules() {}
inline void prefetch(const void* address) { *(volatile const char*)address; }

// Each thread leaves its value and takes another one's, with a meeting of the warp before and after.
template <class V> inline V shuffle_xor(V value, int offset)
{
    static V values[1024];
    values[threadIdx.x] = value;
    shim::meet_warp();
    const V other = values[threadIdx.x ^ offset];
    shim::meet_warp();
    return other;
}

inline void publish() {}

// As atomicInc wraps.
inline unsigned take_ticket(unsigned* ticket, unsigned count)
{
    const unsigned before = *ticket;
    *ticket = before >= count - 1 ? 0 : before + 1;
    return before;
}

template <class V> inline V atomicAdd(V* address, V value)
{
    const V old = *address;
    *address += value;
    return old;
}
template <class V> inline void atomicMin(V* address, V value) { *address = value < *address ? value : *address; }
template <class V> inline void atomicMax(V* address, V value) { *address = value > *address ? value : *address; }
template <class V> inline void atomicAnd(V* address, V value) { *address &= value; }
template <class V> inline void atomicOr(V* address, V value) { *address |= value; }
template <class V> inline void atomicXor(V* address, V value) { *address ^= value; }
