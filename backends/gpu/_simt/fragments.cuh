// The tile of a thread: which elements it has, how it reads them from shared memory, combines and stores them.
//
// A block's tile (BM x BN) is cut into tiles of warps (WM x WN), and the 32 threads of a warp stand in it as a grid of
// LANES_M x LANES_N. A thread has TM x TN elements in groups of GROUP_SIZE neighbours, so that it reads each group at
// once, and the threads of a warp, next to each other, read without bank conflicts:
//
//     columns of a warp   |g g g g|h h h h|...    thread 0: first group    TN / GROUP_SIZE such stripes,
//                          thread0 thread1         of every stripe          each LANES_N groups wide
//
// In shared memory a tile of A lies transposed: element (i, p) at [p * STRIDE_A + i], so that a column is contiguous;
// element (p, j) of B at [p * STRIDE_B + j].
//
// Source: CUTLASS, "Efficient GEMM in CUDA": warp-level and thread-level tiles.
#pragma once

// 16 bytes; for small types at most 4 elements
constexpr int GROUP_SIZE = sizeof(T) >= 4 ? 16 / sizeof(T) : 4;
constexpr int LANES_M = WM / TM, LANES_N = WN / TN, WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;

// 4 bytes x 4: a transposed store of 8 steps of k by 4 rows meets each bank once
constexpr int PADDING = sizeof(T) >= 4 ? 16 / sizeof(T) : 4, STRIDE_A = BM + PADDING, STRIDE_B = BN;
constexpr int TILE_A = BK * STRIDE_A, TILE_B = BK * STRIDE_B;

static_assert(LANES_M * LANES_N == 32, "a warp has 32 threads");
static_assert(TM % GROUP_SIZE == 0 && TN % GROUP_SIZE == 0, "a thread has whole groups");
static_assert(BK % STEPS == 0, "a tile has whole groups of steps");

template <class E, int COUNT> struct alignas(sizeof(E) * COUNT) Vector {
    E x[COUNT];
};

template <int COUNT, class E> __device__ __forceinline__ Vector<E, COUNT> read_vector(const E* place)
{
    check_aligned<sizeof(E) * COUNT>(place);
    return *(const Vector<E, COUNT>*)place;
}

template <int COUNT, class E> __device__ __forceinline__ void write_vector(E* place, const Vector<E, COUNT>& values)
{
    check_aligned<sizeof(E) * COUNT>(place);
    *(Vector<E, COUNT>*)place = values;
}

// Row and column, in the block's tile, of the first element of this thread.
struct Corner {
    int row, column;
};

__device__ __forceinline__ Corner corner_of_thread()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return Corner{warp / WARPS_N * WM + lane / LANES_N * GROUP_SIZE, warp % WARPS_N * WN + lane % LANES_N * GROUP_SIZE};
}

// Where its element r, or s, is from there.
__device__ __forceinline__ constexpr int row_of(int r) { return r / GROUP_SIZE * LANES_M * GROUP_SIZE + r % GROUP_SIZE; }
__device__ __forceinline__ constexpr int column_of(int s)
{
    return s / GROUP_SIZE * LANES_N * GROUP_SIZE + s % GROUP_SIZE;
}

// The operands of STEPS steps of k.
struct Fragment {
    T a[STEPS][TM], b[STEPS][TN];

    // `from_a` and `from_b`: this thread's corner of the tiles, at the first of the steps.
    __device__ __forceinline__ void read(const T* from_a, const T* from_b)
    {
#pragma unroll
        for (int u = 0; u < STEPS; ++u) {
#pragma unroll
            for (int r = 0; r < TM; r += GROUP_SIZE) {
                const auto group = read_vector<GROUP_SIZE>(from_a + u * STRIDE_A + row_of(r));
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) a[u][r + v] = group.x[v];
            }
#pragma unroll
            for (int s = 0; s < TN; s += GROUP_SIZE) {
                const auto group = read_vector<GROUP_SIZE>(from_b + u * STRIDE_B + column_of(s));
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) b[u][s + v] = group.x[v];
            }
        }
    }
};

struct Element {
    int r, s;
};

// The order in which the TM * TN pairs of a step are combined: the same result, other registers side by side, and so
// other bank conflicts between them, worth some percent.
//
//   ORDER 0  row by row, there and back      1  row by row           2  column by column, there and back
//         3  in squares of 4 x 4             4  two rows at a time     5  two columns at a time
//         6  column by column
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

// The tile of a thread.
struct Sums {
    T x[TM][TN];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int s = 0; s < TN; ++s) x[r][s] = ZERO;
    }

    __device__ __forceinline__ void combine(const Fragment& f)
    {
#pragma unroll
        for (int t = 0; t < TM * TN; ++t) {
            const Element e = element_of(t);
#if STEPS == 2
            const T first = MULTIPLY(f.a[0][e.r], f.b[0][e.s]), second = MULTIPLY(f.a[1][e.r], f.b[1][e.s]);
            COMBINE_TWO(x[e.r][e.s], first, second);
#else
            COMBINE(x[e.r][e.s], f.a[0][e.r], f.b[0][e.s]);
#endif
        }
    }

#if SETTLES
    __device__ __forceinline__ bool are_settled() const
    {
        bool all = true;
#pragma unroll
        for (int t = 0; t < TM * TN; ++t) all = all && TURNED(x[t / TN][t % TN]) < 0;
        return all;
    }

    __device__ __forceinline__ void turn()
    {
#pragma unroll
        for (int t = 0; t < TM * TN; ++t) x[t / TN][t % TN] = TURNED(x[t / TN][t % TN]);
    }

    // The same for sums that are settled, and turned.
    __device__ __forceinline__ void combine_settled(const Fragment& f)
    {
#pragma unroll
        for (int t = 0; t < TM * TN; ++t) {
            const Element e = element_of(t);
            const T first = sum_or_nan(TURNED(f.a[0][e.r]), TURNED(f.b[0][e.s]));
            const T second = sum_or_nan(TURNED(f.a[1][e.r]), TURNED(f.b[1][e.s]));
            x[e.r][e.s] = min_of_negative(x[e.r][e.s], first, second);
        }
    }
#endif

    // Store all of it into a tile of its own, row by row, whatever C is like.
    __device__ __forceinline__ void store_aside(RESULT* tile, Corner corner) const
    {
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int s = 0; s < TN; s += GROUP_SIZE) {
                Vector<RESULT, GROUP_SIZE> group;
#pragma unroll
                for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = FINISHED(x[r][s + v]);
                write_vector<GROUP_SIZE>(tile + (corner.row + row_of(r)) * BN + corner.column + column_of(s), group);
            }
    }

    // Store what lies inside of C; whole groups at once where C_VECTORS says that they are aligned.
    __device__ __forceinline__ void store_to(RESULT* c, int m, int n, int ldc, int row, int column) const
    {
#pragma unroll
        for (int r = 0; r < TM; ++r) {
            const int i = row + row_of(r);
            if (i >= m) continue;
#pragma unroll
            for (int s = 0; s < TN; s += GROUP_SIZE) {
                const int j = column + column_of(s);
                RESULT* place = c + (long long)i * ldc + j;
                if (C_VECTORS && j + GROUP_SIZE <= n) {
                    Vector<RESULT, GROUP_SIZE> group;
#if ACCUMULATE
                    group = read_vector<GROUP_SIZE>(place);
#pragma unroll
                    for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = ADD(group.x[v], FINISHED(x[r][s + v]));
#else
#pragma unroll
                    for (int v = 0; v < GROUP_SIZE; ++v) group.x[v] = FINISHED(x[r][s + v]);
#endif
                    write_vector<GROUP_SIZE>(place, group);
                } else {
#pragma unroll
                    for (int v = 0; v < GROUP_SIZE; ++v)
                        if (j + v < n) store(place + v, FINISHED(x[r][s + v]));
                }
            }
        }
    }
};
