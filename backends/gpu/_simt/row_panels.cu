// C[i, j] = (+)_p A[i, p] (x) B[p, j] of a tall, narrow C with a short k, by row panels of A.
//
//   grid     persistent: blocks compute panels of C, ROWS x BN, until none is left
//     block  all of B in shared memory; a panel of A: ROWS whole rows, one run of memory, in copies of 16 bytes
//     warps  SLICES of them for the same panel, each by some of k; their sums meet in shared memory, and leave row by row
//       loop over steps of a slice   TM rows of a thread, 32 apart, by all BN columns: sums in registers
//
//   ROWS     32 * TM          BN       columns, whole granules of 16 bytes        WARPS    SLICES
//   UNIT     elements that a load of a row of A takes from shared memory; k is a multiple of it    B_BY_COLUMNS   1: columns of B are contiguous
//
// Rows lie `apart` elements from each other in shared memory: `lda`, as they come, or an odd number of granules, so that eight
// of them are in different banks. Then they are copied one by one, and are whole granules in memory. A run begins with the
// granule that its first element is in, and ends with its last element.
//
// Source: that of mv_short_rows.cu; Chen, Dongarra et al., "TSM2: optimizing tall-and-skinny matrix-matrix multiplication on
// GPUs" (2019), which streams A and keeps B.
#include "semiring.cuh"
#include "lanes.cuh"
#include "groups.cuh"

constexpr int ROWS = 32 * TM, THREADS = 32 * SLICES, GRANULE = 16 / sizeof(T), PITCH = BN + 1;
static_assert(BN % GRANULE == 0 && GRANULE % UNIT == 0, "granules of B are whole, and those of A have whole units");

// One step of k: rows have `x`.
__device__ __forceinline__ void combine_step(T (&sums)[TM][BN], const T (&x)[TM], const T* of_b)
{
#pragma unroll
    for (int q = 0; q < BN; q += GRANULE) {
        const Group<GRANULE> y = read<GRANULE>(of_b + q);
#pragma unroll
        for (int e = 0; e < GRANULE; ++e)
#pragma unroll
            for (int r = 0; r < TM; ++r) COMBINE(sums[r][q + e], x[r], y.x[e]);
    }
}

// Copy the panel that begins at `from`, `rows` of it; `before` elements of its first granule are not its own.
__device__ __forceinline__ void copy_panel(T* panel, const T* from, int before, int rows, int k, int lda, int apart)
{
    if (apart == lda) {
        const int elements = before + (rows - 1) * lda + k, granules = elements / GRANULE, rest = granules * GRANULE;
#pragma unroll 4
        for (int g = threadIdx.x; g < granules; g += THREADS)
            copy_async<16>(panel + g * GRANULE, from - before + g * GRANULE);
        const int e = rest + threadIdx.x;  // A may end within a granule
        if (e < elements) copy_async<sizeof(T)>(panel + e, from - before + e);
    } else {
        const int across = (k + GRANULE - 1) / GRANULE, down = THREADS / across, right = THREADS % across;
        int row = threadIdx.x / across, column = threadIdx.x % across;
#pragma unroll 4
        for (int g = threadIdx.x; g < rows * across; g += THREADS) {
            T* to = panel + row * apart + column * GRANULE;
            const T* x = from + (long long)row * lda + column * GRANULE;
            if (UNIT == GRANULE || (column + 1) * GRANULE <= k) copy_async<16>(to, x);
            else
                for (int e = 0; e < k % GRANULE; ++e) copy_async<sizeof(T)>(to + e, x + e);
            row += down, column += right;
            if (column >= across) column -= across, ++row;
        }
    }
    commit_copies();
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) gemm(GEMM_PARAMETERS, int apart)
{
    if (!is_chosen(extremes)) return;
    DYNAMIC_SHARED(memory);
    T *of_b = memory, *panel = memory + k * BN, *parts = panel;  // sums take the place of the panel
    const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, panels = (m + ROWS - 1) / ROWS;
    const int before = (int)((size_t)a / sizeof(T) % GRANULE);  // of every panel, as ROWS rows are whole granules
    if (blockIdx.x < panels)
        copy_panel(panel, a + (long long)blockIdx.x * ROWS * lda, before, min(m - (int)blockIdx.x * ROWS, ROWS), k, lda, apart);
#pragma unroll 4
    for (int e = threadIdx.x; e < k * BN; e += THREADS) {
        const int p = B_BY_COLUMNS ? e % k : e / BN, j = B_BY_COLUMNS ? e / k : e % BN;
        of_b[p * BN + j] = j < n ? b[B_BY_COLUMNS ? (long long)j * ldb + p : (long long)p * ldb + j] : (T)ZERO;
    }
    const int each = (k + SLICES * UNIT - 1) / (SLICES * UNIT) * UNIT, begin = slice * each, end = min(k, begin + each);

    for (int number = blockIdx.x; number < panels; number += gridDim.x) {
        wait_copies<0>();
        __syncthreads();
        const T* mine = panel + before + lane * apart;
        T sums[TM][BN];
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int j = 0; j < BN; ++j) sums[r][j] = ZERO;
        // loop over steps of a slice
#pragma unroll 1
        for (int p = begin; p < end; p += UNIT) {
            Group<UNIT> rows[TM];
#pragma unroll
            for (int r = 0; r < TM; ++r) rows[r] = read<UNIT>(mine + r * 32 * apart + p);
#pragma unroll
            for (int u = 0; u < UNIT; ++u) {
                T x[TM];
#pragma unroll
                for (int r = 0; r < TM; ++r) x[r] = rows[r].x[u];
                combine_step(sums, x, of_b + (p + u) * BN);
            }
        }
        __syncthreads();  // all have read the panel
#pragma unroll
        for (int r = 0; r < TM; ++r)
#pragma unroll
            for (int j = 0; j < BN; ++j) parts[(slice * ROWS + r * 32 + lane) * PITCH + j] = sums[r][j];
        __syncthreads();
        const int first = number * ROWS, rows = min(m - first, ROWS);
        for (int e = threadIdx.x; e < rows * n; e += THREADS) {
            const int i = e / n, j = e % n;
            T total = parts[i * PITCH + j];
#pragma unroll
            for (int s = 1; s < SLICES; ++s) total = ADD(total, parts[(s * ROWS + i) * PITCH + j]);
            store(c + (long long)(first + i) * ldc + j, total);
        }
        const int following = number + gridDim.x;
        if (following < panels) {
            __syncthreads();
            copy_panel(panel, a + (long long)following * ROWS * lda, before, min(m - following * ROWS, ROWS), k, lda, apart);
        }
    }
}
