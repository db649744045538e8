// y[i] = (+)_p M[i, p] (x) x[p] of short rows that follow each other without a gap: step_i = k, up to MOST_K elements.
//
//   grid     tiles of `rows` rows. They are one piece of memory, which comes through shared memory in 16-byte copies, all
//            in flight at once: the length of a row decides neither the width of a load nor how many there are
//   thread   GROUP of them add up a row from shared memory, by shuffles; then BLOCK / GROUP rows further on
//
// GROUP is chosen so that threads of a warp meet few banks twice. BLOCK / GROUP divides `rows`, and a tile holds up to
// TILE_KIB * 1024 bytes of them. It may begin anywhere: it is copied by granules of 16 bytes, from the one in which it begins.
// What that one holds before it is not used. The elements of a last granule that it does not fill are copied by themselves.
//
// Source: CUDA C++ Best Practices Guide: coalesced access through shared memory, asynchronous copies.
#include "matrix_vector.cuh"

constexpr int WIDTH = 16 / sizeof(T), LINES = BLOCK / GROUP;

struct alignas(16) Granule {
    T x[WIDTH];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    mv_short_rows(MATRIX_VECTOR_PARAMETERS, int rows)
{
    __shared__ Granule tile[TILE_KIB * 64 + 2];
    __shared__ T of_x[MOST_K];
    const long long first = (long long)blockIdx.x * rows;
    const int mine = (int)min((long long)rows, count - first);
    const T* start = matrix + first * k;
    const int before = (int)((size_t)start / sizeof(T) % WIDTH);  // elements of the first granule that are not the tile's
    const Granule* granules = (const Granule*)(start - before);
    const int whole = (before + mine * k) / WIDTH;
#pragma unroll 4
    for (int g = threadIdx.x; g < whole; g += BLOCK) copy_granule(tile + g, granules + g);
    const int e = whole * WIDTH + threadIdx.x;
    if (e < before + mine * k) ((T*)tile)[e] = keep(start - before + e);
    for (int p = threadIdx.x; p < k; p += BLOCK) of_x[p] = keep(x + p * step_x);
    await_granules();
    __syncthreads();
    const int lane = threadIdx.x % GROUP;
    for (int line = threadIdx.x / GROUP; line < rows; line += LINES) {
        const T* row = (const T*)tile + before + min(line, mine - 1) * k;
        Sum sum = no_terms();
#pragma unroll 4
        for (int p = lane; p < k; p += GROUP) combine(sum, row[p], of_x[p], alpha);
#pragma unroll
        for (int offset = GROUP / 2; offset; offset /= 2) sum = joined(sum, shuffle_xor(sum, offset));
        if (lane == 0 && line < mine) finish(first + line, sum, RESULT_ARGUMENTS);
    }
}
