// The extremes of A and of B, by which the fast forms of (x) are chosen: low and high of A, then of B.
//
//   extremes_of_shares   every block reduces a share of the rows of one matrix; blockIdx.y says of which
//   extremes_of_all      one block for each matrix reduces those results
//
// Over floats a NaN among the elements is the result, and no comparison with it is true.
//
// Rows, or columns of a matrix that lies by columns, are read 16 bytes at a time if they begin and end at multiples of that.
//
//   VALUE_OF(x)  the value of an element x that is compared; x itself if it is not defined
#include "semiring.cuh"

#ifndef VALUE_OF
#define VALUE_OF(x) (x)
#endif
#define THREADS 256

#include "extremes.cuh"

// Elements that are read at once, if rows allow it
constexpr int WIDEST = 16 / sizeof(T);

template <int COUNT> struct alignas(sizeof(T) * COUNT) Group {
    T x[COUNT];
};

// Reduce this thread's elements of the block's rows, WIDTH at a time.
template <int WIDTH> __device__ __forceinline__ void reduce_rows(const T* x, int ld, int rows, int columns, T& low, T& high)
{
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
#pragma unroll 4
        for (int j = threadIdx.x * WIDTH; j < columns; j += THREADS * WIDTH) {
            const T* address = x + (long long)i * ld + j;
            check_aligned<sizeof(T) * WIDTH>(address);
            const Group<WIDTH> group = *(const Group<WIDTH>*)address;
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) {
                const T value = VALUE_OF(group.x[v]);
                low = least(low, value), high = most(high, value);
            }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    extremes_of_shares(const T* a, int lda, int rows_a, int columns_a, const T* b, int ldb, int rows_b, int columns_b, T* shares)
{
    const T* x = blockIdx.y ? b : a;
    const int ld = blockIdx.y ? ldb : lda, rows = blockIdx.y ? rows_b : rows_a, columns = blockIdx.y ? columns_b : columns_a;
    T low = VALUE_OF(x[0]), high = low;
    const bool is_wide = (ld | columns) % WIDEST == 0 && (size_t)x % (WIDEST * sizeof(T)) == 0;
    if (is_wide) reduce_rows<WIDEST>(x, ld, rows, columns, low, high);
    else reduce_rows<1>(x, ld, rows, columns, low, high);
    reduce_block(low, high, shares + 2 * (blockIdx.y * gridDim.x + blockIdx.x));
}

// `shares` holds `count` pairs of A, then as many of B; block 0 reduces those of A, block 1 those of B.
extern "C" __global__ void __launch_bounds__(THREADS) extremes_of_all(const T* shares, int count, T* extremes)
{
    shares += 2 * blockIdx.x * count;
    T low = shares[0], high = shares[1];
    for (int i = threadIdx.x; i < count; i += THREADS)
        low = least(low, shares[2 * i]), high = most(high, shares[2 * i + 1]);
    reduce_block(low, high, extremes + 2 * blockIdx.x);
}
