// What is one instruction of the GPU and no expression of C++. Tests that run kernels on a CPU have their own such file.
#pragma once

// min and max that return NaN if an operand is NaN, as (x) must: the term is NaN then, and absent
__device__ __forceinline__ float min_or_nan(float x, float y)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
    return result;
#else
    return x < y || x != x ? x : y;
#endif
}

__device__ __forceinline__ float max_or_nan(float x, float y)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
    return result;
#else
    return x > y || x != x ? x : y;
#endif
}

__device__ __forceinline__ double min_or_nan(double x, double y) { return x < y || x != x ? x : y; }
__device__ __forceinline__ double max_or_nan(double x, double y) { return x > y || x != x ? x : y; }

// Dynamic shared memory of the block, from its beginning
#define DYNAMIC_SHARED(name)                                            \
    extern __shared__ __align__(16) unsigned char dynamic_shared_memory[]; \
    T* name = (T*)dynamic_shared_memory

// What a vector load relies on; only tests on a CPU look.
template <int BYTES> __device__ __forceinline__ void check_aligned(const void*) {}

// The place of a pointer into shared memory, as cp.async wants it.
__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// cp.async: global to shared memory, past the registers, complete only after wait_copies. 4 and 8 bytes go through L1,
// 16 bytes do not; fewer it cannot do.
template <int BYTES> __device__ __forceinline__ void copy_async(void* to, const void* from)
{
#if __CUDA_ARCH__ >= 800
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES)
                     : "memory");
#endif
}

// The same; if not `is_read`, the source is not touched and zeros are written.
template <int BYTES> __device__ __forceinline__ void copy_async_if(void* to, const void* from, bool is_read)
{
#if __CUDA_ARCH__ >= 800
    const int size = is_read ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(size)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES),
                     "r"(size)
                     : "memory");
#endif
}

__device__ __forceinline__ void commit_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Return when all but the last PENDING groups of copies of this thread are complete.
template <int PENDING>
__device__ __forceinline__ void wait_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// The smallest, and the greatest, of three as integers: one instruction from sm_90 on
__device__ __forceinline__ int min_of_3(int x, int y, int z) { return min(min(x, y), z); }
__device__ __forceinline__ unsigned min_of_3(unsigned x, unsigned y, unsigned z) { return min(min(x, y), z); }
__device__ __forceinline__ unsigned max_of_3(unsigned x, unsigned y, unsigned z) { return max(max(x, y), z); }

// x + y, and of all NaNs the positive one, as every addition on a GPU gives
__device__ __forceinline__ float sum_or_nan(float x, float y) { return x + y; }

// What the compiler must take for a new value here: it would otherwise compute once what is to be computed again.
__device__ __forceinline__ void forget(float& x) { asm volatile("" : "+f"(x)); }
__device__ __forceinline__ void forget(double& x) { asm volatile("" : "+d"(x)); }
__device__ __forceinline__ void forget(int& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void forget(unsigned& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void forget(short& x) { asm volatile("" : "+h"(x)); }
__device__ __forceinline__ void forget(unsigned short& x) { asm volatile("" : "+h"(x)); }
__device__ __forceinline__ void forget(long long& x) { asm volatile("" : "+l"(x)); }
__device__ __forceinline__ void forget(unsigned long long& x) { asm volatile("" : "+l"(x)); }
