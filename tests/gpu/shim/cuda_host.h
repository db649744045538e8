// A CUDA kernel on a CPU, for tests: what its text finds here in place of CUDA. What runs it is in cuda_host.cpp.
//
// Two thousand kernels are compiled, each after this text. So it includes no header of the system: those of C's library
// alone take as long as a kernel.
#pragma once

typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;

// What kernels call of the library of C
extern "C" {
void *memcpy(void*, const void*, size_t), *memset(void*, int, size_t);
double ceil(double), exp(double), exp2(double), fabs(double), floor(double), log(double), log1p(double), log2(double);
double fma(double, double, double), fmax(double, double), fmin(double, double), ldexp(double, int), rint(double), sqrt(double);
float expf(float), fabsf(float), log1pf(float), logf(float), nearbyintf(float), rintf(float), sqrtf(float);
float fmaf(float, float, float), fmaxf(float, float), fminf(float, float), ldexpf(float, int);
int ilogb(double), ilogbf(float);
long long llrint(double);
}
#define INFINITY __builtin_inff()
#define isnan(x) __builtin_isnan(x)
#define signbit(x) __builtin_signbit(x)

// Of its functions, those that kernels call with a T
static inline float exp(float x) { return expf(x); }
static inline float fabs(float x) { return fabsf(x); }
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
static inline float log(float x) { return logf(x); }
static inline float log1p(float x) { return log1pf(x); }
static inline float rint(float x) { return rintf(x); }
static inline float sqrt(float x) { return sqrtf(x); }

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static
#define __restrict__

struct Index3 {
    unsigned x, y, z;
};
extern Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

[[noreturn]] void fail(const char* what);
void check_inside(const void* pointer, size_t bytes);  // of the buffer that it begins in
void check_aligned(const void* pointer, size_t bytes);  // and that

enum State { NEW, WAITING, MEETING, DONE };  // WAITING for the block, MEETING its warp

extern char *shared_memory, *shared_end;
extern unsigned turn;  // of all fibers, from barrier to barrier
extern int votes[2];   // whether all who met at the barrier of an even, or odd, turn said yes

void leave(State state);  // the thread that runs; it goes on in the next turn
void meet_warp();
void push_copy(void* to, const void* from, int bytes, bool is_read);  // happens when it is waited for
void copy_async(void* to, const void* from, int bytes, bool is_read);
void commit_copies();
void wait_copies(int pending);

const char* launch(void (*call)(), const unsigned* grid, const unsigned* block, size_t shared_bytes, bool has_barriers);

template <class F> struct Caller;
template <class... A> struct Caller<void (*)(A...)> {
    template <int... I> struct Numbers {};
    template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
    template <int... I> struct Count<0, I...> { typedef Numbers<I...> type; };

    template <int... I> static void call(void (*kernel)(A...), void** arguments, Numbers<I...>)
    {
        kernel(*(A*)arguments[I]...);
    }
    static void call(void (*kernel)(A...), void** arguments)
    {
        call(kernel, arguments, typename Count<sizeof...(A)>::type());
    }
};

}  // namespace shim

// `kernel` of this file as a function of pointers to its arguments; returns what went wrong, or an empty string.
#define EXPORT(kernel, has_barriers)                                                                                  \
    extern "C" const char* run_##kernel(const unsigned* grid, const unsigned* block, size_t shared, void** arguments) \
    {                                                                                                                 \
        static void** given;                                                                                          \
        given = arguments;                                                                                            \
        const auto call = [] { shim::Caller<decltype(&kernel)>::call(kernel, given); };                               \
        return shim::launch(call, grid, block, shared, has_barriers);                                                 \
    }

inline void __syncthreads() { shim::leave(shim::WAITING); }
inline int __syncthreads_and(int vote)
{
    int& all = shim::votes[shim::turn % 2];
    all = all && vote;
    __syncthreads();
    return shim::votes[1 - shim::turn % 2];
}

inline int min(int x, int y) { return x < y ? x : y; }
inline int max(int x, int y) { return x > y ? x : y; }

template <class To, class From> inline To bits_as(From x)
{
    To result;
    memcpy(&result, &x, sizeof result);
    return result;
}
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline int __float_as_int(float x) { return bits_as<int>(x); }
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
inline int __mulhi(int x, int y) { return (int64_t)x * y >> 32; }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return ((uint64_t)high << 32 | low) >> (shift & 31);
}
