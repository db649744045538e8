// The functions of backends/gpu/_tensor/bytes.cuh on a CPU.
#pragma once

inline int dot_of_bytes(unsigned x, unsigned w, int sum)
{
    for (int i = 0; i < 32; i += 8) sum += (int)(x >> i & 255) * (signed char)(w >> i & 255);
    return sum;
}

inline int dot_of_signed(unsigned x, unsigned y, int sum)
{
    for (int i = 0; i < 32; i += 8) sum += (signed char)(x >> i & 255) * (signed char)(y >> i & 255);
    return sum;
}

inline int dot_of_unsigned(unsigned x, unsigned y, int sum)
{
    for (int i = 0; i < 32; i += 8) sum += (int)((x >> i & 255) * (y >> i & 255));
    return sum;
}

inline double number_of_byte(unsigned x, int e) { return x >> 8 * e & 255; }
inline unsigned last_bytes(const unsigned (&x)[4])
{
    return (x[0] & 255) | (x[1] & 255) << 8 | (x[2] & 255) << 16 | x[3] << 24;
}
inline double two_to(int e) { return bits_as<double>((long long)(e + 1023) << 52); }
inline int exponent_of(double x) { return (int)(bits_as<long long>(x) >> 52 & 0x7ff) - 1023; }

namespace shim {
static unsigned of_lanes[1024];
}

inline unsigned sum_of_lanes(unsigned x)
{
    const int me = threadIdx.x, warp = me / 32 * 32;
    shim::of_lanes[me] = x;
    shim::meet_warp();
    unsigned sum = 0;
    for (int lane = 0; lane < 32; ++lane) sum += shim::of_lanes[warp + lane];
    shim::meet_warp();
    return sum;
}
