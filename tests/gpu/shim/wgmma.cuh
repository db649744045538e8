// The functions of backends/gpu/_tensor/wgmma.cuh on a CPU: each thread computes its own sums from the tiles, when it waits for them.
#pragma once

#ifdef INTEGERS
typedef int Sum;
#else
typedef float Sum;
#endif

namespace shim {

struct Product {
    Sum* sums;
    unsigned long long a, b;
    int adds, group;
};
struct Queue {
    Product products[64];
    int first, count, open_group;
};
static Queue queues[1024];

// FLAGS: "" or ", x, y", where 1 is an operand that lies along m or n.
constexpr bool IS_A_ALONG_M = sizeof(FLAGS) > 1 && FLAGS[sizeof(FLAGS) > 1 ? 2 : 0] == '1';
constexpr bool IS_B_ALONG_N = sizeof(FLAGS) > 1 && FLAGS[sizeof(FLAGS) > 1 ? 5 : 0] == '1';
constexpr bool IS_BITS = KIND[0] == 'b' && KIND[1] == '1', IS_BYTES = KIND[1] == '8';
constexpr bool IS_FLOAT8 = KIND[0] == 'e';
constexpr int ITEMSIZE = KIND[0] == 't' || IS_BITS ? 4 : IS_BYTES || IS_FLOAT8 ? 1 : 2;
constexpr int ELEMENTS = IS_BITS ? DEPTH / 32 : DEPTH;  // of k; words of bits count as one

// Nearly all of the time of a kernel is spent here. Its own text is compiled without optimisation, which would take longer.
#pragma GCC push_options
#pragma GCC optimize("O2")

inline unsigned field(unsigned long long descriptor, int bit) { return (unsigned)(descriptor >> bit & 0x3fff) << 4; }

#ifdef INTEGERS
typedef unsigned Element, Total;  // of 32 bits, which wrap
inline unsigned term(Element x, Element y) { return IS_BYTES ? x * y : __builtin_popcount(x & y); }
#else
typedef float Element, Total;
inline float term(Element x, Element y) { return x * y; }
#endif

inline unsigned swizzled(unsigned address) { return address ^ (address >> 7 & 7) << 4; }  // as tma.cuh has it

#ifdef FLUSHES
inline float read_byte(unsigned char bits)
{
    NUMBER x;
    x.bits = bits;
    return x;
}
// Number x without what lies below 2^lowest.
inline double cut(double x, int lowest) { return ldexp(__builtin_trunc(ldexp(x, -lowest)), lowest); }

// The exponent by which a factor of a product is aligned: subnormal numbers are not normalised.
inline int exponent(float x) { return x == 0 ? -1000 : max(ilogbf(x), KIND[1] == '4' ? -6 : -14); }

// A sum as an H200 has it, to the last bit (docs/lab/2026-11-29-float8.md): 14 bits, all aligned by the greatest exponent.
inline float sum_of_float8(float before, const float* x, const float* y)
{
    int greatest = before == 0 ? -1000 : ilogbf(before);
    double plain = before;
    for (int p = 0; p < ELEMENTS; ++p) {
        plain += (double)x[p] * y[p];
        greatest = max(greatest, exponent(x[p]) + exponent(y[p]));
    }
    if (greatest < -500 || !__builtin_isfinite(plain)) return (float)plain;
    double sum = cut(before, greatest - 13);
    for (int p = 0; p < ELEMENTS; ++p) sum += cut((double)x[p] * y[p], greatest - 13);
    return sum == 0 ? 0 : (float)cut(sum, __builtin_ilogb(sum) - 13);
}
#else
inline float read_byte(unsigned char) { return 0; }
inline float sum_of_float8(float, const float*, const float*) { return 0; }
#endif

inline Element element(unsigned address)
{
    const char* place = shared_memory + swizzled(address);
    if (IS_BITS) return *(const unsigned*)place;
    if (IS_BYTES) return KIND[0] == 's' ? (unsigned)*(const signed char*)place : (unsigned)*(const unsigned char*)place;
    if (KIND[0] == 't') return __uint_as_float(*(const unsigned*)place & 0xffffe000u);
    if (IS_FLOAT8) return read_byte(*(const unsigned char*)place);
    if (KIND[0] == 'f') return half_of(*(const unsigned short*)place);
    return __uint_as_float((unsigned)*(const unsigned short*)place << 16);
}

// Element (i, p) of rows along k, and (p, j) of rows along n; 8 rows are 1024 bytes, 64 columns a box.
inline Element along_k(unsigned long long x, int i, int p)
{
    return element(field(x, 0) + i / 8 * field(x, 32) + i % 8 * 128 + p * ITEMSIZE);
}
inline Element along_n(unsigned long long x, int p, int j)
{
    return element(field(x, 0) + j / 64 * field(x, 16) + p / 8 * field(x, 32) + p % 8 * 128 + j % 64 * ITEMSIZE);
}

inline void perform(const Product& product)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, g = lane / 4, t = lane % 4;
    Element of_a[2][ELEMENTS];
    for (int half = 0; half < 2; ++half)
        for (int p = 0; p < ELEMENTS; ++p) {
            const int i = warp * 16 + half * 8 + g;
            of_a[half][p] = IS_A_ALONG_M ? along_n(product.a, p, i) : along_k(product.a, i, p);
        }
    for (int v = 0; v < BN / 2; ++v) {
        const int j = v / 4 * 8 + 2 * t + v % 2;
        Total sum = product.adds ? (Total)product.sums[v] : 0;
        if (IS_FLOAT8) {
            float of_b[ELEMENTS];
            for (int p = 0; p < ELEMENTS; ++p) of_b[p] = along_k(product.b, j, p);
            product.sums[v] = sum_of_float8((float)sum, (const float*)of_a[v % 4 / 2], of_b);
            continue;
        }
        for (int p = 0; p < ELEMENTS; ++p)
            sum += term(of_a[v % 4 / 2][p], IS_B_ALONG_N ? along_n(product.b, p, j) : along_k(product.b, j, p));
        product.sums[v] = sum;
    }
}

#pragma GCC pop_options

}  // namespace shim

inline unsigned long long describe(unsigned address, unsigned leading, unsigned stride)
{
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | 1ULL << 62;
}

inline void multiply(Sum* sums, unsigned long long a, unsigned long long b, int adds)
{
    shim::Queue& mine = shim::queues[threadIdx.x];
    if (mine.count == 64) shim::fail("the shim has no room for more products");
    mine.products[(mine.first + mine.count++) % 64] = {sums, a, b, adds, mine.open_group};
}

inline void begin_group() {}
inline void end_group() { ++shim::queues[threadIdx.x].open_group; }

template <int PENDING> inline void wait_groups()
{
    shim::Queue& mine = shim::queues[threadIdx.x];
    for (; mine.count && mine.products[mine.first].group < mine.open_group - PENDING; --mine.count) {
        shim::perform(mine.products[mine.first]);
        mine.first = (mine.first + 1) % 64;
    }
}

inline unsigned saturated_halves(int low, int high) { return (unsigned)min(low, 0xffff) | (unsigned)min(high, 0xffff) << 16; }
inline unsigned min_in_halves(unsigned x, unsigned y)
{
    return (unsigned)min(x & 0xffff, y & 0xffff) | (unsigned)min(x >> 16, y >> 16) << 16;
}
