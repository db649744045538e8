// The functions of backends/gpu/_program/intrinsics.cuh on a CPU, where cuda_host.h comes first.
#pragma once

inline float min_or_nan(float x, float y) { return x < y || x != x ? x : y; }
inline float max_or_nan(float x, float y) { return x > y || x != x ? x : y; }
inline double min_or_nan(double x, double y) { return x < y || x != x ? x : y; }
inline double max_or_nan(double x, double y) { return x > y || x != x ? x : y; }

template <class I> inline I add_words(I x, I y) { return (I)((unsigned)x + (unsigned)y); }
template <class I> inline I multiply_words(I x, I y) { return (I)((unsigned)x * (unsigned)y); }
template <class I> inline I smaller_word(I x, I y) { return y < x ? y : x; }
template <class I> inline I greater_word(I x, I y) { return y > x ? y : x; }
inline int min_of_3(int x, int y, int z) { return min(min(x, y), z); }
inline unsigned min_of_3(unsigned x, unsigned y, unsigned z) { return x < y ? (x < z ? x : z) : (y < z ? y : z); }
inline unsigned max_of_3(unsigned x, unsigned y, unsigned z) { return ~min_of_3(~x, ~y, ~z); }
template <class V> inline void forget(V&) {}
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which)
{
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int e = 0; e < 4; ++e) result |= (unsigned)(both >> 8 * (which >> 4 * e & 7) & 255) << 8 * e;
    return result;
}
inline float sum_or_nan(float x, float y) { return x + y == x + y ? x + y : __int_as_float(0x7fffffff); }

// Two 16-bit sums and their minimum, or maximum, with two others (DPX)
template <class H, class F> inline unsigned in_halves(unsigned a, unsigned b, unsigned c, F choose)
{
    unsigned result = 0;
    for (int half = 0; half < 32; half += 16) {
        const H sum = (H)((a >> half) + (b >> half)), before = (H)(c >> half);
        result |= (unsigned)(uint16_t)choose(sum, before) << half;
    }
    return result;
}
inline unsigned __viaddmin_s16x2(unsigned a, unsigned b, unsigned c)
{
    return in_halves<int16_t>(a, b, c, [](int x, int y) { return min(x, y); });
}
inline unsigned __viaddmax_s16x2(unsigned a, unsigned b, unsigned c)
{
    return in_halves<int16_t>(a, b, c, [](int x, int y) { return max(x, y); });
}
inline unsigned __viaddmin_u16x2(unsigned a, unsigned b, unsigned c)
{
    return in_halves<uint16_t>(a, b, c, [](int x, int y) { return min(x, y); });
}

struct Half {
    uint16_t bits;
    Half() = default;
    Half(float x)  // to nearest, ties to even: what rounds up to 2048 units carries into the exponent by itself
    {
        const float size = fabsf(x);
        const int exponent = size < 0x1p-14f ? -14 : min(ilogbf(size), 15);
        const int units = size < 0x1p16f ? (exponent + 14) * 1024 + (int)nearbyintf(ldexpf(size, 10 - exponent)) : 0x7c00;
        bits = x != x ? 0x7fff : (signbit(x) ? 0x8000 : 0) | units;
    }
    operator float() const
    {
        const int units = bits & 0x7fff;
        const float scaled = __int_as_float(units << 13), size = units < 0x7c00 ? scaled * 0x1p112f : scaled + INFINITY;
        return units > 0x7c00 ? __int_as_float(0x7fffffff) : bits & 0x8000 ? -size : size;
    }
};

inline Half half_of(unsigned bits)
{
    Half result;
    result.bits = (uint16_t)bits;
    return result;
}

// Two float16 a word
template <class F> inline unsigned in_both_halves(unsigned x, unsigned y, F operation)
{
    const Half low = operation(half_of(x), half_of(y)), high = operation(half_of(x >> 16), half_of(y >> 16));
    return low.bits | (unsigned)high.bits << 16;
}
#define IN_BOTH_HALVES(name, expression)                                                        \
    inline unsigned name(unsigned x, unsigned y)                                                \
    {                                                                                           \
        return in_both_halves(x, y, [](float x, float y) -> Half { return expression; });       \
    }
IN_BOTH_HALVES(add_halves, x + y)
IN_BOTH_HALVES(multiply_halves, x * y)
IN_BOTH_HALVES(min_halves, fminf(x, y))
IN_BOTH_HALVES(max_halves, fmaxf(x, y))
IN_BOTH_HALVES(min_halves_or_nan, min_or_nan(x, y))
IN_BOTH_HALVES(max_halves_or_nan, max_or_nan(x, y))

inline unsigned at_most_one(unsigned x) { return x < 1 ? x : 1; }

#define DYNAMIC_SHARED(name) T* name = (T*)shim::shared_memory

template <int BYTES> inline void check_aligned(const void* pointer) { shim::check_aligned(pointer, BYTES); }

template <int BYTES> inline void copy_async(void* to, const void* from) { shim::copy_async(to, from, BYTES, true); }
template <int BYTES> inline void copy_async_if(void* to, const void* from, bool is_read)
{
    shim::copy_async(to, from, BYTES, is_read);
}
inline void commit_copies() { shim::commit_copies(); }
template <int PENDING> inline void wait_copies() { shim::wait_copies(PENDING); }
