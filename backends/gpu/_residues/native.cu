// What the native kernel needs before it computes a product that residues cannot: rows that begin at multiples of 16 bytes,
// alpha A, and beta C in the output. Each returns at once unless `*moduli` is 0, if there is a `moduli`.
//
//   copy_rows  padded := alpha x, for x by rows or by columns, through shared memory; zeros beyond the ends of rows
//   begin      out := beta c, or zeros
//
//   T  type of the elements    HAS_C  whether there is a c
#include "chain.cuh"
#include "intrinsics.cuh"

constexpr int SIDE = 32, DOWN = 8, THREADS = SIDE * DOWN;

extern "C" __global__ void __launch_bounds__(THREADS)
    copy_rows(const int* moduli, T alpha, const T* __restrict__ x, int ld, int by_columns, int rows, int columns,
              T* __restrict__ padded, int width)
{
    __shared__ T tile[SIDE][SIDE + 1];
    await_launch_before();
    if (*moduli) return;
    const int beside = threadIdx.x % SIDE, down = threadIdx.x / SIDE, across = (width + SIDE - 1) / SIDE;
    const int tiles = across * ((rows + SIDE - 1) / SIDE);
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
        const int i0 = index / across * SIDE, j0 = index % across * SIDE;
        for (int offset = down; offset < SIDE; offset += DOWN) {
            const int i = i0 + (by_columns ? beside : offset), j = j0 + (by_columns ? offset : beside);
            const bool exists = i < rows && j < columns;
            const long long place = by_columns ? (long long)j * ld + i : (long long)i * ld + j;
            tile[i - i0][j - j0] = exists ? alpha * x[place] : (T)0;
        }
        __syncthreads();
        for (int offset = down; offset < SIDE; offset += DOWN)
            if (i0 + offset < rows && j0 + beside < width)
                padded[(long long)(i0 + offset) * width + j0 + beside] = tile[offset][beside];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    begin(const int* moduli, T beta, const T* c, long long c_down, long long c_across, T* out, int ld, int m, int n)
{
    await_launch_before();
    if (moduli && *moduli) return;
    for (int i = blockIdx.x; i < m; i += gridDim.x)
        for (int j = threadIdx.x; j < n; j += THREADS) 
            out[(long long)i * ld + j] = HAS_C ? beta * c[i * c_down + j * c_across] : (T)0;
}
