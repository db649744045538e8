// C[i, j] = (+)_p A[i, p] (x) B[p, j] of a tall, narrow C with a short k, by row panels of A, a warp each.
//
//   grid     persistent: warps compute panels of C, ROWS x BN, until none is left
//     block  all of B in shared memory
//     warp   chunks of its panel of A, ROWS x KC, by copies of 16 bytes that it alone waits for, STAGES - 1 ahead
//       loop over the steps of a chunk    a thread has TM rows by TN columns, LANES threads side by side along a row of C
//
//   ROWS     32 / LANES * TM         BN    LANES * TN         KC    steps, an even number of granules of 16 bytes
//   UNIT     elements that a load of a row of A takes, a granule, 2 or 1: rows begin at a multiple, and k is one
//   B_BY_COLUMNS   1: columns of B are contiguous
//
// Rows may begin anywhere in a granule: it is copied whole, and read from there. Rows lie an odd number of granules apart
// in shared memory, so that eight of them are in different banks.
//
// Source: that of row_panels.cu, where the warps of a block share a panel.
#include "semiring.cuh"
#include "lanes.cuh"
#include "groups.cuh"

constexpr int TALL = 32 / LANES, ROWS = TALL * TM, TN = BN / LANES, MOST_THREADS = 512;
// A granule of elements; those of a row that a thread loads at once from B; granules of a chunk, a lane each.
constexpr int GRANULE = 16 / sizeof(T), VECTOR = TN % GRANULE == 0 ? GRANULE : TN % 2 == 0 ? 2 : 1, ACROSS = KC / GRANULE;
constexpr int APART = KC + GRANULE, OF_STAGE = ROWS * APART, PAIRS_AT_ONCE = UNIT == 1 ? 2 : 1;
constexpr bool IS_RAGGED = UNIT < GRANULE;  // a row may have one more granule
static_assert(GRANULE % UNIT == 0 && ACROSS % 2 == 0 && 32 % ACROSS == 0, "granules are whole");

// The granule that holds an element.
__device__ __forceinline__ const T* granule_of(const T* x) { return (const T*)((size_t)x / 16 * 16); }

// Copy the granule that holds `x`, or what of it lies before `end`.
__device__ __forceinline__ void copy_granule(T* to, const T* x, const T* end)
{
    const T* granule = granule_of(x);
    if (granule + GRANULE <= end) return copy_async<16>(to, granule);
    for (int e = 0; granule + e < end; ++e) copy_async<sizeof(T)>(to + e, granule + e);
}

// Copy the chunk that begins at `from`, `rows` of it, `left` steps before their end. A ends at `end`.
__device__ __forceinline__ void copy_chunk(T* chunk, const T* from, int rows, int left, long long lda, const T* end)
{
    constexpr int AT_ONCE = 32 / ACROSS;
    const int lane = threadIdx.x % 32, row = lane / ACROSS, first = lane % ACROSS * GRANULE;
    const T *x = from + row * lda + first, *last = from + lane * lda + KC;
    T* to = chunk + row * APART + first;
    if (rows == ROWS && from + (ROWS - 1) * lda + min(left, KC) + GRANULE <= end) {  // granules may be copied whole
        if (first < left + (IS_RAGGED ? GRANULE - 1 : 0))
#pragma unroll
            for (int i = 0; i < ROWS; i += AT_ONCE) copy_async<16>(to + i * APART, granule_of(x + i * lda));
        if (!IS_RAGGED || KC >= left + GRANULE - 1) return;
#pragma unroll
        for (int i = 0; i < ROWS; i += 32, last += 32 * lda)
            if (lane + i < ROWS && last != granule_of(last)) copy_async<16>(chunk + (lane + i) * APART + KC, granule_of(last));
        return;
    }
    for (int i = 0; row + i < rows; i += AT_ONCE, x += AT_ONCE * lda)
        if (granule_of(x) < x - first + left) copy_granule(to + i * APART, x, end);
    if (!IS_RAGGED) return;
    for (int i = lane; i < rows; i += 32, last += 32 * lda)
        if (granule_of(last) < last - KC + left) copy_granule(chunk + i * APART + KC, last, end);
}

// Elements of the thread's rows, UNIT steps of them.
__device__ __forceinline__ void load_rows(T (&x)[TM][UNIT], const T* const (&rows)[TM], int p)
{
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const Group<UNIT> loaded = read<UNIT>(rows[r] + p);
#pragma unroll
        for (int u = 0; u < UNIT; ++u) x[r][u] = loaded.x[u];
    }
}

// Elements of the thread's columns, of one step.
__device__ __forceinline__ void load_columns(T (&y)[TN], const T* columns)
{
#pragma unroll
    for (int q = 0; q < TN; q += VECTOR) {
        const Group<VECTOR> loaded = read<VECTOR>(columns + q * LANES);
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) y[q + e] = loaded.x[e];
    }
}

// UNIT steps from `p` on, of elements in `x[HALF]`; the next are loaded meanwhile.
template <int HALF>
__device__ __forceinline__ void combine_unit(T (&sums)[TM][TN], T (&x)[2][TM][UNIT], T (&y)[2][TN],
                                             const T* const (&rows)[TM], const T* columns, int p)
{
    load_rows(x[1 - HALF], rows, p + UNIT);
#pragma unroll
    for (int u = 0; u < UNIT; ++u) {
        const int step = HALF * UNIT + u;
        load_columns(y[(step + 1) % 2], columns + (p + u + 1) * BN);
#pragma unroll
        for (int q = 0; q < TN; ++q)
#pragma unroll
            for (int r = 0; r < TM; ++r) COMBINE(sums[r][q], x[HALF][r][u], y[step % 2][q]);
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1) gemm(GEMM_PARAMETERS)
{
    if (!is_chosen(extremes)) return;
    DYNAMIC_SHARED(memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int panels = (m + ROWS - 1) / ROWS, next = gridDim.x * warps;
    T *of_b = memory, *stages = memory + (k * BN + GRANULE - 1) / GRANULE * GRANULE + warp * STAGES * OF_STAGE;
#pragma unroll 4
    for (int e = threadIdx.x; e < k * BN; e += blockDim.x) {
        const int p = B_BY_COLUMNS ? e % k : e / BN, j = B_BY_COLUMNS ? e / k : e % BN;
        T* to = of_b + p * BN + j;
        if (j < n) copy_async<sizeof(T)>(to, b + (B_BY_COLUMNS ? (long long)j * ldb + p : (long long)p * ldb + j));
        else *to = ZERO;
    }
    const T* const end = a + (long long)(m - 1) * lda + k;
    int number = blockIdx.x * warps + warp, asked = number, asked_from = 0;
    auto request = [&](int stage) {
        if (asked < panels)
            copy_chunk(stages + stage * OF_STAGE, a + (long long)asked * ROWS * lda + asked_from, min(m - asked * ROWS, ROWS),
                       k - asked_from, lda, end);
        commit_copies();
        asked_from += KC;
        if (asked_from >= k) asked_from = 0, asked += next;
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) request(stage);
    wait_copies<STAGES - 2>();
    __syncthreads();

    const int row = lane / LANES, column = lane % LANES * VECTOR;
    int begin[TM];  // of the thread's rows in a stage: the same in every panel, as ROWS rows are whole granules
#pragma unroll
    for (int r = 0; r < TM; ++r) {
        const int i = r * TALL + row;
        begin[r] = i * APART + (IS_RAGGED ? (int)(((size_t)a / sizeof(T) + (size_t)i * lda) % GRANULE) : 0);
    }
    for (int stage = 0; number < panels; number += next) {
        T sums[TM][TN];
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int j = 0; j < TN; ++j) sums[r][j] = ZERO;
        for (int first = 0; first < k; first += KC) {
            wait_copies<STAGES - 2>();
            meet_lanes();  // all have copied this stage, and read the one before
            request(stage ? stage - 1 : STAGES - 1);
            const T *rows[TM], *columns = of_b + first * BN + column;
#pragma unroll
            for (int r = 0; r < TM; ++r) rows[r] = stages + stage * OF_STAGE + begin[r];
            // loop over the steps of a chunk: elements of each are loaded during the one before
            const int steps = min(k - first, KC);
            T x[2][TM][UNIT], y[2][TN];
            load_rows(x[0], rows, 0), load_columns(y[0], columns);
            int p = 0;
#pragma unroll PAIRS_AT_ONCE
            for (; p + 2 * UNIT <= steps; p += 2 * UNIT) {
                combine_unit<0>(sums, x, y, rows, columns, p);
                combine_unit<1>(sums, x, y, rows, columns, p + UNIT);
            }
            if (p < steps) combine_unit<0>(sums, x, y, rows, columns, p);
            if (++stage == STAGES) stage = 0;
        }
#pragma unroll
        for (int r = 0; r < TM; ++r) {
            const int i = number * ROWS + r * TALL + row;
            if (i >= m) continue;
#pragma unroll
            for (int q = 0; q < TN; ++q) {
                const int j = q / VECTOR * VECTOR * LANES + column + q % VECTOR;
                if (j < n) store(c + (long long)i * ldc + j, sums[r][q]);
            }
        }
    }
}
