// Matrices of 16-bit elements, to words of two neighbours along k.
//
//   join         of A: a word holds elements 2 q and 2 q + 1 of a row
//   interleave   of B: word j of row q holds elements j of rows 2 q and 2 q + 1; beyond the matrix the last column again
//
// Bits are moved without interpretation. If k is odd, its last step is repeated. Threads run along rows of words, with
// gridDim.y rows at once: dividing an index by the width of a row would take as long as the copy.
typedef unsigned short Bits;

__device__ __forceinline__ unsigned pair_of(Bits low, Bits high) { return low | (unsigned)high << 16; }

extern "C" __global__ void __launch_bounds__(256)
    join(const Bits* __restrict__ a, int lda, int m, int k, unsigned* __restrict__ words)
{
    const int width = k / 2 + k % 2, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= width) return;
    for (int i = blockIdx.y; i < m; i += gridDim.y) {
        const Bits* row = a + (long long)i * lda;
        words[(long long)i * width + q] = pair_of(row[2 * q], row[min(2 * q + 1, k - 1)]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    interleave(const Bits* __restrict__ b, int ldb, int k, int n, unsigned* __restrict__ words, int width)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= width) return;
    const Bits* column = b + min(j, n - 1);
    for (int q = blockIdx.y; q < k / 2 + k % 2; q += gridDim.y)
        words[(long long)q * width + j] =
            pair_of(column[(long long)(2 * q) * ldb], column[(long long)min(2 * q + 1, k - 1) * ldb]);
}
