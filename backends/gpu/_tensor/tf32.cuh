// x = high + low, each a float32 that TF32 holds: its 11 significant bits, the other 13 zero.
#pragma once

// Half a unit of TF32's last place: with it added, dropping the 13 bits below rounds to nearest.
constexpr unsigned HALF = 0x1000u, KEPT = 0xffffe000u;

__device__ __forceinline__ void split(float x, float& high, float& low)
{
    high = __uint_as_float((__float_as_uint(x) + HALF) & KEPT);
    low = __uint_as_float((__float_as_uint(x - high) + HALF) & KEPT);
}
