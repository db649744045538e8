// Loads by how often they are repeated, copies to shared memory, exchange between the threads of a warp, tickets, and atomic updates. Tests that run
// kernels on a CPU have their own such file.
#pragma once

template <int BYTES> struct WordOf;
template <> struct WordOf<1> { typedef unsigned char type; };
template <> struct WordOf<2> { typedef unsigned short type; };
template <> struct WordOf<4> { typedef unsigned type; };
template <> struct WordOf<8> { typedef uint2 type; };
template <> struct WordOf<16> { typedef uint4 type; };

template <class V, class W> __device__ __forceinline__ V as_value(W word)
{
    V value;
    memcpy(&value, &word, sizeof value);
    return value;
}

// What is read once: it leaves the caches first.
template <class V> __device__ __forceinline__ V stream(const V* address)
{
    return as_value<V>(__ldcs((const typename WordOf<sizeof(V)>::type*)address));
}

// What is read again, and never written by the kernel: it stays in L1.
template <class V> __device__ __forceinline__ V keep(const V* address)
{
    return as_value<V>(__ldg((const typename WordOf<sizeof(V)>::type*)address));
}

// What other blocks have written: from L2.
template <class V> __device__ __forceinline__ V fresh(const V* address)
{
    return as_value<V>(__ldcg((const typename WordOf<sizeof(V)>::type*)address));
}

// Ask for the line of L2 that this lies in.
__device__ __forceinline__ void prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// 16 bytes from global to shared memory, past the registers and L1; they are there after `await_granules`.
__device__ __forceinline__ void copy_granule(void* to, const void* from)
{
#if __CUDA_ARCH__ >= 800
    const unsigned target = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
#else
    *(uint4*)to = __ldcs((const uint4*)from);
#endif
}

__device__ __forceinline__ void await_granules()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The value of the thread whose lane differs by the bits of `offset`; all threads of the warp take part.
template <class V> __device__ __forceinline__ V shuffle_xor(V value, int offset)
{
    constexpr int WORDS = (sizeof(V) + 3) / 4;
    unsigned words[WORDS] = {};
    memcpy(words, &value, sizeof value);
#pragma unroll
    for (int w = 0; w < WORDS; ++w) words[w] = __shfl_xor_sync(0xffffffffu, words[w], offset);
    memcpy(&value, words, sizeof value);
    return value;
}

// Make what this thread has written visible to other blocks, and what they have written to it.
__device__ __forceinline__ void publish() { __threadfence(); }

// How many blocks took a ticket before: 0 to count - 1. The last one leaves 0 behind.
__device__ __forceinline__ unsigned take_ticket(unsigned* ticket, unsigned count) { return atomicInc(ticket, count - 1); }
