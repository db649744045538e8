// What a closure takes beside products: the beginning and the end, pivots that are closed, and copies.
//
//   reset, begin, finish   D := D with the one on the diagonal; what is wrong with it goes to `findings`, on the device
//   close_block   all paths of SIDE vertices or fewer through each other, by one block of threads
//   close_rows    the rows of pivots, by a block of threads for each WIDTH columns, beside D
//   copy_values   columns that a product reads while its rows are written
//   take_rows     rows of a symmetric matrix, of which only the lower triangle is true
//
// A thread has PER x PER elements in registers. For each pivot its row passes through shared memory, in two buffers by
// turns, so that there is one barrier for each pivot. So both kernels do what Floyd and Warshall's loop over pivots does
// with whole rows, and where a path is strictly better, its predecessor is that of the pivot's path.
//
// close_rows closes the pivots' own block once more in each block of threads, beside its columns: none waits for another.
// D is not written. A product does that, of the columns as they were and the rows as they are now: for the rows of the
// pivots as well, since the one is on the diagonal.
//
//   SIDE, WIDTH, PER   pivots of a block, columns of a strip, and elements along the side of a thread's tile
//   PREDECESSORS       1: `before` is updated too; 0: it is not looked at
//   ONE                the value of the empty path
//
// Source: Floyd (1962), Warshall (1962).
#include "semiring.cuh"
#include "chain.cuh"
#include "memory.cuh"

#define NO_PREDECESSOR (-9999)  // as scipy.sparse.csgraph has it
#define PASS_THREADS 256

// Where an edge is NaN; whether an edge betters the one; which vertex lies on a cycle that does.
#define OF_NAN 0
#define BETTERS 1
#define OF_CYCLE 2
typedef unsigned long long Place;

extern "C" __global__ void __launch_bounds__(PASS_THREADS) reset(Place* findings)
{
    await_launch_before();
    if (threadIdx.x == 0) findings[OF_NAN] = findings[OF_CYCLE] = ~0ull, findings[BETTERS] = 0;
}

// `rows` of all matrices, n elements each.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) begin(T* d, int* before, int rows, int n, Place* findings)
{
    await_launch_before();
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const int i = row % n;
        const long long first = (long long)row * n;
        bool betters = false;
        for (int j = threadIdx.x; j < n; j += PASS_THREADS) {
            T value = d[first + j];
            if (!(value == value)) atomicMin(findings + OF_NAN, (Place)(first + j));
            value = ADD(i == j ? (T)ONE : (T)ZERO, value);  // of a bool any byte becomes 0 or 1
            d[first + j] = value;
            betters = betters || ADD((T)ONE, value) != (T)ONE;
#if PREDECESSORS
            before[first + j] = i == j || value == (T)ZERO ? NO_PREDECESSOR : i;
#endif
        }
        if (betters) findings[BETTERS] = 1;
    }
}

extern "C" __global__ void __launch_bounds__(PASS_THREADS) finish(const T* d, int rows, int n, Place* findings)
{
    await_launch_before();
    for (int row = blockIdx.x * PASS_THREADS + threadIdx.x; row < rows; row += gridDim.x * PASS_THREADS)
        if (d[(long long)row * n + row % n] != (T)ONE) atomicMin(findings + OF_CYCLE, (Place)row);
}

template <class E> struct alignas(sizeof(E) * PER < 16 ? sizeof(E) * PER : 16) Few {
    E x[PER];
};

constexpr int ALONG = SIDE / PER, ACROSS = WIDTH / PER;

// The row of a pivot, for all threads.
template <int COUNT> struct Row {
    Few<T> values[COUNT];
#if PREDECESSORS
    Few<int> predecessors[COUNT];
#endif
};

// The elements of a thread: rows from `i` and columns from `j`.
struct Elements {
    T x[PER][PER];
#if PREDECESSORS
    int of[PER][PER];
#endif

    // Of `rows` and `columns` that there are.
    __device__ __forceinline__ void load(const T* d, const int* before, int i, int j, int rows, int columns, int ld)
    {
#pragma unroll
        for (int r = 0; r < PER; ++r)
#pragma unroll
            for (int s = 0; s < PER; ++s) {
                const bool is_inside = i + r < rows && j + s < columns;
                const long long place = (long long)(i + r) * ld + j + s;
                x[r][s] = is_inside ? d[place] : (T)ZERO;
#if PREDECESSORS
                of[r][s] = is_inside ? before[place] : NO_PREDECESSOR;
#endif
            }
    }

    __device__ __forceinline__ void
    store(T* d, int* before, int i, int j, int rows, int columns, int ld, int ld_before) const
    {
#pragma unroll
        for (int r = 0; r < PER; ++r)
#pragma unroll
            for (int s = 0; s < PER; ++s) {
                if (i + r >= rows || j + s >= columns) continue;
                d[(long long)(i + r) * ld + j + s] = x[r][s];
#if PREDECESSORS
                before[(long long)(i + r) * ld_before + j + s] = of[r][s];
#endif
            }
    }

    // Of the elements that the next pivot reads, in row and column `q`, or of all others.
    template <int COUNT>
    __device__ __forceinline__ void improve(const Row<COUNT>& row, int at, const Few<T>& column, int q, bool is_next)
    {
        const Few<T> values = row.values[at];
#if PREDECESSORS
        const Few<int> through = row.predecessors[at];
#endif
#pragma unroll
        for (int r = 0; r < PER; ++r)
#pragma unroll
            for (int s = 0; s < PER; ++s) {
                if ((r == q || s == q) != is_next) continue;
#if PREDECESSORS
                const T better = ADD(x[r][s], MULTIPLY(column.x[r], values.x[s]));
                of[r][s] = better != x[r][s] ? through.x[s] : of[r][s];
                x[r][s] = better;
#else
                T& c = x[r][s];
                const T a = column.x[r], b = values.x[s];
                COMBINE(c, a, b);
#endif
            }
    }

    // Row and column `q` of tile p, where they are this thread's.
    template <int COUNT>
    __device__ __forceinline__ void publish(Row<COUNT>& row, Few<T>* column, int p, int q, int ty, int tx) const
    {
        if (ty == p) {
#pragma unroll
            for (int s = 0; s < PER; ++s) row.values[tx].x[s] = x[q][s];
#if PREDECESSORS
#pragma unroll
            for (int s = 0; s < PER; ++s) row.predecessors[tx].x[s] = of[q][s];
#endif
        }
        if (tx == p)
#pragma unroll
            for (int r = 0; r < PER; ++r) column[ty].x[r] = x[r][q];
    }

    // Follow paths through `size` pivots, by COUNT columns of tiles, of which the first are the pivots' own. What the next
    // pivot reads is on its way while other elements are improved.
    template <int COUNT> __device__ __forceinline__ void follow(int size, int ty, int tx)
    {
        __shared__ Row<COUNT> rows[2];
        __shared__ Few<T> columns[2][ALONG];
        publish(rows[0], columns[0], 0, 0, ty, tx);
        // loop over pivots
        for (int p = 0; p * PER < size; ++p)
#pragma unroll
            for (int q = 0; q < PER; ++q) {
                const int next = (q + 1) % PER, now = q % 2;
                __syncthreads();
                const Few<T> column = columns[now][ty];
                improve(rows[now], tx, column, next, true);
                publish(rows[1 - now], columns[1 - now], next ? p : p + 1, next, ty, tx);
                improve(rows[now], tx, column, next, false);
            }
    }
};

// Block g closes the matrix that begins at d + g * n * n.
extern "C" __global__ void __launch_bounds__(ALONG* ALONG) close_block(T* d, int* before, int n)
{
    await_launch_before();
    const int ty = threadIdx.x / ALONG, tx = threadIdx.x % ALONG;
    d += (long long)blockIdx.x * n * n, before += (long long)blockIdx.x * n * n;
    Elements mine;
    mine.load(d, before, ty * PER, tx * PER, n, n, n);
    mine.follow<ALONG>(n, ty, tx);
    mine.store(d, before, ty * PER, tx * PER, n, n, n, n);
}

// The matrix of a block of threads: those of a batch lie along y and z of the grid, `next` elements apart.
#define ENTER_MATRIX(count)                                       \
    const long long matrix = blockIdx.z * gridDim.y + blockIdx.y; \
    if (matrix >= count) return;

// `pivot_rows` and `pivot_before` become rows of `size` pivots from `first` on, with all paths through them.
// `columns` becomes those of the pivots as they are, of `rows` rows from `from` on, SIDE elements each.
extern "C" __global__ void __launch_bounds__(ALONG*(ALONG + ACROSS))
    close_rows(const T* d, const int* before, int from, int rows, int first, int size, int n, T* columns, T* pivot_rows,
        int* pivot_before, int ld, int count)
{
    await_launch_before();
    ENTER_MATRIX(count)
    d += matrix * n * n, columns += matrix * n * SIDE, pivot_rows += matrix * SIDE * ld;
    before += PREDECESSORS * matrix * n * n, pivot_before += PREDECESSORS * matrix * SIDE * n;
    constexpr int OWN = ALONG * ALONG, WARPS = ALONG * (ALONG + ACROSS) / 32;
    const bool is_own = threadIdx.x < OWN;  // of the pivots' own block
    const int t = is_own ? threadIdx.x : threadIdx.x - OWN;
    const int ty = is_own ? t / ALONG : t / ACROSS, tx = is_own ? t % ALONG : ALONG + t % ACROSS;
    const int i = ty * PER, j = is_own ? first + tx * PER : blockIdx.x * WIDTH + (tx - ALONG) * PER;
    const long long row = (long long)first * n;
    Elements mine;
    mine.load(d + row, before + row, i, j, size, is_own ? first + size : n, n);
    for (int r = blockIdx.x * WARPS + threadIdx.x / 32; r < rows; r += gridDim.x * WARPS)
        for (int c = threadIdx.x % 32; c < size; c += 32)
            columns[(long long)r * SIDE + c] = d[(long long)(from + r) * n + first + c];
    mine.follow<ALONG + ACROSS>(size, ty, tx);
    if (!is_own) mine.store(pivot_rows, pivot_before, i, j, size, n, ld, n);
}

extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    copy_values(const T* x, int ld, int rows, int columns, T* to, int ld_to, int count, long long next, long long next_to)
{
    await_launch_before();
    ENTER_MATRIX(count)
    x += matrix * next, to += matrix * next_to;
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int j = threadIdx.x; j < columns; j += PASS_THREADS) to[(long long)i * ld_to + j] = x[(long long)i * ld + j];
}

// `rows` := `size` rows of D from `first` on. A block takes a tile, and reads what is above the diagonal along its columns.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) take_rows(const T* d, int n, int first, int size, T* rows)
{
    await_launch_before();
    constexpr int SIDE_OF_TILE = 32, DOWN = PASS_THREADS / SIDE_OF_TILE;
    __shared__ T tile[SIDE_OF_TILE][SIDE_OF_TILE + 1];
    const int r = blockIdx.y * SIDE_OF_TILE, c = blockIdx.x * SIDE_OF_TILE;
    const int along = threadIdx.x % SIDE_OF_TILE, down = threadIdx.x / SIDE_OF_TILE;
    for (int step = down; step < SIDE_OF_TILE; step += DOWN) {
        if (r + step < size && c + along <= first + r + step) tile[step][along] = d[(long long)(first + r + step) * n + c + along];
        if (c + step < n && r + along < size && c + step > first + r + along)
            tile[along][step] = d[(long long)(c + step) * n + first + r + along];
    }
    __syncthreads();
    for (int step = down; step < SIDE_OF_TILE; step += DOWN)
        if (r + step < size && c + along < n) rows[(long long)(r + step) * n + c + along] = tile[step][along];
}
