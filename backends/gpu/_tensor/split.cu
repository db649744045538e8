// The parts of float32 matrices for three TF32 products, high ones above low ones: x = high + low, each rounded to TF32.
//
//   split_rows     parts (2 rows, width):     row i of x as rows i and rows + i
//   split_columns  parts (2 columns, width):  column j of x as rows j and columns + j, through shared memory
//
// Rows of the parts are whole lines of 128 bytes: width is a multiple of 32. Elements past the end of a row are neither
// written nor read. O(n^2) beside O(n^3).
//
//   VECTOR  elements that split_rows reads at once: 4 where rows of x begin at multiples of 16 bytes, else 1
#define T float
#include "intrinsics.cuh"
#include "tf32.cuh"

constexpr int SIDE = 32, ROWS = 8;  // of a tile of x; threads along its columns

template <int WIDTH> struct alignas(4 * WIDTH) Several {
    float x[WIDTH];
};

extern "C" __global__ void __launch_bounds__(256)
    split_rows(const float* __restrict__ x, int ld, int rows, int columns, float* __restrict__ parts, int width)
{
    const long long below = (long long)rows * width;
    for (int i = blockIdx.x; i < rows; i += gridDim.x)
        for (int j = threadIdx.x * VECTOR; j < columns; j += 256 * VECTOR) {
            const long long place = (long long)i * width + j;
            const float* from = x + (long long)i * ld + j;
            Several<VECTOR> high, low;
            if (j + VECTOR <= columns) {
                const auto given = *(const Several<VECTOR>*)from;
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) split(given.x[v], high.x[v], low.x[v]);
            } else {
                for (int v = 0; v < VECTOR; ++v) split(j + v < columns ? from[v] : 0, high.x[v], low.x[v]);
            }
            *(Several<VECTOR>*)(parts + place) = high;
            *(Several<VECTOR>*)(parts + below + place) = low;
        }
}

// A block of 32 x 8 threads transposes a tile of 32 x 32.
extern "C" __global__ void __launch_bounds__(256)
    split_columns(const float* __restrict__ x, int ld, int rows, int columns, float* __restrict__ parts, int width)
{
    __shared__ float tile[SIDE][SIDE + 1];
    const int along = threadIdx.x % SIDE, down = threadIdx.x / SIDE;
    const int across = (columns + SIDE - 1) / SIDE;
    const int first_row = blockIdx.x / across * SIDE, first_column = blockIdx.x % across * SIDE;
    const long long below = (long long)columns * width;
#pragma unroll
    for (int offset = 0; offset < SIDE; offset += ROWS) {
        const int i = first_row + down + offset, j = first_column + along;
        if (i < rows && j < columns) tile[down + offset][along] = x[(long long)i * ld + j];
    }
    __syncthreads();
#pragma unroll
    for (int offset = 0; offset < SIDE; offset += ROWS) {
        const int j = first_column + down + offset, i = first_row + along;
        if (i >= rows || j >= columns) continue;
        const long long place = (long long)j * width + i;
        split(tile[along][down + offset], parts[place], parts[below + place]);
    }
}
