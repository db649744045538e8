// Kernels that read matrices stored by rows, by columns or tile by tile, without copying them first.
//
//   naive      a thread for each element of C, 32 threads side by side: one transaction reads their elements of B only
//              if neighbours in a row are neighbours in memory
//   tiled      tiles of A and B in shared memory, loaded by rows; ALONG_MEMORY: in the order of memory
//   change     a matrix from rows to another layout, element by element: reads or writes are scattered
//   transpose  from rows to columns through a tile in shared memory: reads and writes go along memory
//
//   LAYOUT_A, LAYOUT_B  0 by rows, 1 by columns, 2 tiles of TILE x TILE by rows, each of them by rows
//   TILE                also the side of a block of threads
//
// Sizes are multiples of TILE. Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; Ruetsch and
// Micikevicius, "Optimizing Matrix Transpose in CUDA" (2009).
#define BY_ROWS 0
#define BY_COLUMNS 1

// Offset of element (i, j) of a matrix of rows x columns
template <int LAYOUT> __device__ __forceinline__ long long offset(int i, int j, int rows, int columns)
{
    if (LAYOUT == BY_ROWS) return (long long)i * columns + j;
    if (LAYOUT == BY_COLUMNS) return (long long)j * rows + i;
    return ((long long)(i / TILE) * (columns / TILE) + j / TILE) * (TILE * TILE) + i % TILE * TILE + j % TILE;
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    naive(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k)
{
    const int i = blockIdx.y * TILE + threadIdx.x / TILE, j = blockIdx.x * TILE + threadIdx.x % TILE;
    T total = 0;
    for (int p = 0; p < k; ++p) total += a[offset<LAYOUT_A>(i, p, m, k)] * b[offset<LAYOUT_B>(p, j, k, n)];
    c[(long long)i * n + j] = total;
}

// Load the tile whose first element is (row, column), as `tile[i][j]`.
template <int LAYOUT>
__device__ __forceinline__ void load(T (*tile)[TILE + 1], const T* x, int row, int column, int rows, int columns)
{
    const int slow = threadIdx.x / TILE, fast = threadIdx.x % TILE;
    const bool is_transposed = ALONG_MEMORY && LAYOUT == BY_COLUMNS;
    const int i = is_transposed ? fast : slow, j = is_transposed ? slow : fast;
    tile[i][j] = x[offset<LAYOUT>(row + i, column + j, rows, columns)];
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    tiled(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k)
{
    __shared__ T tile_a[TILE][TILE + 1], tile_b[TILE][TILE + 1];  // padding of one column avoids bank conflicts
    const int y = threadIdx.x / TILE, x = threadIdx.x % TILE, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    T total = 0;
    for (int p0 = 0; p0 < k; p0 += TILE) {
        load<LAYOUT_A>(tile_a, a, row, p0, m, k);
        load<LAYOUT_B>(tile_b, b, p0, column, k, n);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < TILE; ++p) total += tile_a[y][p] * tile_b[p][x];
        __syncthreads();
    }
    c[(long long)(row + y) * n + column + x] = total;
}

extern "C" __global__ void __launch_bounds__(TILE* TILE) change(const T* __restrict__ x, T* __restrict__ y, int m, int n)
{
    const int i = blockIdx.y * TILE + threadIdx.x / TILE, j = blockIdx.x * TILE + threadIdx.x % TILE;
    y[offset<LAYOUT_A>(i, j, m, n)] = x[(long long)i * n + j];
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    transpose(const T* __restrict__ x, T* __restrict__ y, int m, int n)
{
    __shared__ T tile[TILE][TILE + 1];
    const int slow = threadIdx.x / TILE, fast = threadIdx.x % TILE;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    tile[slow][fast] = x[(long long)(row + slow) * n + column + fast];
    __syncthreads();
    y[(long long)(column + slow) * m + row + fast] = tile[fast][slow];
}
