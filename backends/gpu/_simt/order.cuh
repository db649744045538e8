// The order in which the TM * TN pairs of a step of k are combined. The result is the same, but other registers are read
// together, which changes bank conflicts between them by some percent of the time.
//
//   ORDER 0  row by row, there and back      1  row by row           2  column by column, there and back
//         3  in squares of 4 x 4             4  two rows at a time     5  two columns at a time
//         6  column by column
#pragma once

struct Element {
    int r, s;  // row and column in the tile of a thread
};

// Pair `t` of a step.
__device__ __forceinline__ constexpr Element element_of(int t)
{
#if ORDER == 0
    return Element{t / TN, t / TN % 2 ? TN - 1 - t % TN : t % TN};
#elif ORDER == 1
    return Element{t / TN, t % TN};
#elif ORDER == 2
    return Element{t / TM % 2 ? TM - 1 - t % TM : t % TM, t / TM};
#elif ORDER == 3
    const int square = t / 16, i = t % 16 / 4, j = t % 4;
    return Element{square / (TN / 4) * 4 + i, square % (TN / 4) * 4 + (i % 2 ? 3 - j : j)};
#elif ORDER == 4
    const int pair = t / (2 * TN), u = t % (2 * TN), j = u / 2;
    return Element{2 * pair + (u + 1) / 2 % 2, pair % 2 ? TN - 1 - j : j};
#elif ORDER == 5
    const int pair = t / (2 * TM), u = t % (2 * TM), i = u / 2;
    return Element{pair % 2 ? TM - 1 - i : i, 2 * pair + (u + 1) / 2 % 2};
#else
    return Element{t % TM, t / TM};
#endif
}
