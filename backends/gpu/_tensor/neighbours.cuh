// Order of B's columns, rows along k here, that gives a thread of wgmma the sums of neighbours of a row of C.
#pragma once

// The row of column j. It orders RUN columns, of instructions with that many, so that a quarter of them, which are
// neighbours, are those whose sums one thread holds: two in every eighth register of a row. Narrower instructions do as well.
template <int RUN = 64> __device__ __forceinline__ int neighbour(int j)
{
    constexpr int PART = RUN / 4;
    return j / RUN * RUN + j % PART / 2 * 8 + j % RUN / PART * 2 + j % 2;
}
