// Residues of the rows of A, or of the columns of B, modulo each of some small numbers: bytes that int8 tensor cores multiply.
//
//   x' = 2^e x to the nearest integer, below 2^63     e from the norm of the vector (look.cuh)
//   r_t = x' modulo p_t, nearest to zero              out[t][vector][p], rows of `width` bytes
//
// x' + 2^63 is eight bytes. Two dot products with the bytes of 256^i modulo p leave a sum below 2^18.1, and one quotient of
// floats is exact. Vectors that are neighbours are transposed through shared memory, since the tensor cores take int8 along k
// alone. Those of B are permuted within 64 (neighbours.cuh).
//
// If CERTIFIES, a layer after the last possible one holds the sizes of the elements, rounded down to 7 bits of the vector's extent.
//
// Beside them the pass counts the large elements of each vector (all of one of zeros), from which the gate proves a bound. The last block to come is
// the gate (gate.cuh): it decides about the number of moduli.
//
//   T       type of the elements
//   MODULI  p_t
//   ROOTS   of complex numbers: s_t, with s^2 = -1 modulo p. A vector is two lines, x and y, of k elements each (planes.cu), and has
//           two layers a modulus: x + s y and x - s y of A, the other way round of B, whose y has the other sign. Products of the
//           first layers are re(D) + s im(D), those of the others re(D) - s im(D), modulo p
//   A_ALONG, A_WIDE, B_ALONG, B_WIDE   whether elements of a vector are neighbours, and are read by 16 bytes: vectors begin at
//           multiples of that
#include "chain.cuh"
#include "look.cuh"
#include "bytes.cuh"
#include "grades.cuh"
#include "intrinsics.cuh"
#include "memory.cuh"
#include "neighbours.cuh"

constexpr int P[] = {MODULI};
#ifdef ROOTS
constexpr int ROOT[] = {ROOTS}, PARTS = 2;
#else
constexpr int ROOT[MOST] = {}, PARTS = 1;
#endif
constexpr int THREADS = 256, RUN = 4, ROWS = 4 / PARTS;  // elements a thread takes at once; vectors of a block whose elements are neighbours
constexpr int SIDE = 32, DEEP = 128;              // vectors and elements of other blocks
constexpr int MAGIC = 0x4B400000;                 // the float 1.5 2^23, whose last bits count units
constexpr float MAGIC_FLOAT = 12582912.f;

#include "gate.cuh"

__device__ constexpr int nearest(int x, int p) { return 2 * x >= p ? x - p : x; }
__device__ constexpr int power_of_two(int e, int p)
{
    int r = 1;
    for (int i = 0; i < e; ++i) r = r * 2 % p;
    return r;
}
// The bytes of 256^i times `factor` modulo p, for i from `first` to first + 3.
__device__ constexpr unsigned weights(int first, int p, int factor)
{
    unsigned w = 0;
    for (int i = 0; i < 4; ++i) w |= (unsigned)(nearest(power_of_two(8 * (first + i), p) * factor % p, p) & 255) << 8 * i;
    return w;
}

// Four integers as their lower and upper halves, 2^63 added.
struct Four {
    unsigned low[RUN], high[RUN];

    __device__ __forceinline__ void set(int v, double x, double scale)
    {
        const long long integer = llrint(x * scale);
        low[v] = (unsigned)integer, high[v] = (unsigned)(integer >> 32) ^ 0x80000000u;
    }
};

// The sizes of four elements in units of 2^(unit - 7), rounded down: below 128.
__device__ __forceinline__ unsigned sizes_of(const double* values, int unit)
{
    unsigned sizes[RUN];
#pragma unroll
    for (int v = 0; v < RUN; ++v) sizes[v] = (unsigned)(fabs(values[v]) * two_to(7 - unit));
    return last_bytes(sizes);
}

// Integer number v times `factor`, as a number below 2^18.1 of the same residue modulo p; `magic` is added.
template <int p, int factor> __device__ __forceinline__ int sum_of(const Four& four, int v, int magic)
{
    const int start = magic - nearest(power_of_two(63, p) * factor % p, p);
    constexpr unsigned low = weights(0, p, factor), high = weights(4, p, factor);
    return dot_of_bytes(four.low[v], low, dot_of_bytes(four.high[v], high, start));
}

// The residue of a sum with MAGIC added.
template <int p> __device__ __forceinline__ unsigned modulo(int sum)
{
    const int quotient = __float_as_int(fmaf(__int_as_float(sum) - MAGIC_FLOAT, 1.f / p, MAGIC_FLOAT));
    return (unsigned)sum - (unsigned)quotient * p;  // the last byte of MAGIC is 0
}

// Store the residues modulo the first `count` numbers, layers of `distance` words.
template <bool IS_B, int t = 0>
__device__ __forceinline__ void store_residues(const Four (&four)[PARTS], int count, unsigned* to, long long distance)
{
    if constexpr (t < MOST) {
        if (t >= count) return;
        constexpr int p = P[t];
        unsigned r[PARTS][RUN];
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            const int x = sum_of<p, 1>(four[0], v, MAGIC);
            if constexpr (PARTS == 1) r[0][v] = modulo<p>(x);
            else {
                const int y = sum_of<p, ROOT[t]>(four[PARTS - 1], v, 0);
                r[IS_B][v] = modulo<p>(x + y), r[!IS_B][v] = modulo<p>(x - y);
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; ++part) to[part * distance] = last_bytes(r[part]);
        store_residues<IS_B, t + 1>(four, count, to + PARTS * distance, distance);
    }
}

// RUN neighbours from p on, and zeros beyond k.
template <bool IS_WIDE> __device__ __forceinline__ void load(const T* from, int left, double* values)
{
    constexpr int WIDTH = 16 / sizeof(T);
    struct alignas(16) Vector {
        T x[WIDTH];
    };
    if (IS_WIDE && left >= RUN) {
#pragma unroll
        for (int v = 0; v < RUN; v += WIDTH) {
            const Vector vector = *(const Vector*)(from + v);
#pragma unroll
            for (int u = 0; u < WIDTH; ++u) values[v + u] = vector.x[u];
        }
    } else {
#pragma unroll
        for (int v = 0; v < RUN; ++v) values[v] = v < left ? from[v] : (T)0;
    }
}

// A or B; k is that of a line.
struct Operand {
    const T* x;
    int ld, vectors, k;
    const double *norms, *means;
    unsigned* large;
    const Extent* extents;
    unsigned* out;
    int all_vectors, sign;  // of a layer of `out`; of grades
};

// Vectors whose elements are neighbours: ROWS of them, and THREADS * RUN elements.
template <bool IS_WIDE, bool PERMUTES>
__device__ __forceinline__ void take_rows(const Operand& of, int block, int width, const Look* look, const int* grades)
{
    const int across = (width + THREADS * RUN - 1) / (THREADS * RUN);
    const int p = (block % across * THREADS + (int)threadIdx.x) * RUN, first = block / across * ROWS;
    const bool exists = p < width;  // for all of a warp or for none
    double values[ROWS][PARTS][RUN], norm[ROWS], mean[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {  // all loads first: what they wait for is long
        const int i = min(first + r, of.vectors - 1);
        norm[r] = of.norms[i], mean[r] = PROVES ? of.means[i] : 0;
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            load<IS_WIDE>(of.x + (long long)i * of.ld + part * of.k + p, of.k - p, values[r][part]);
    }
    if (BALANCED)
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            const double factor = p + v < of.k ? factor_of(grades, p + v, of.sign) : 0;
            for (int r = 0; r < ROWS; ++r) values[r][0][v] *= factor;
        }
    const int count = moduli_for(*look, PARTS * of.k);
    if (count == 0) return;
    const double bits = half_bits(count);
    unsigned found = 0;  // of vector number `lane`
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int i = first + r, e = exponent_for(norm[r], bits);
        const double least = share_of(count) * mean[r];
        Four four[PARTS];
        unsigned mine = 0;
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
#pragma unroll
            for (int v = 0; v < RUN; ++v)
                four[part].set(v, values[r][part][v], two_to(e)), mine += fabs(values[r][part][v]) >= least;
        const long long row = PERMUTES ? neighbour(i) : i;
        unsigned* to = of.out + (row * width + p) / 4;
        const long long layer = (long long)of.all_vectors * width / 4;
        if (exists && i < of.vectors) {
            store_residues<PERMUTES>(four, count, to, layer);
            if (CERTIFIES) to[MOST * layer] = sizes_of(values[r][0], of.extents[i].unit);
        }
        if (PROVES) {
            const unsigned sum = sum_of_lanes(mine);
            if (threadIdx.x % 32 == r) found = sum;
        }
    }
    const int lane = threadIdx.x % 32;
    if (PROVES && lane < ROWS && first + lane < of.vectors && exists) atomicAdd(of.large + first + lane, found);
}

// Vectors that are neighbours. A lane holds elements of one vector, and a warp a sixteenth of the block's elements.
template <bool PERMUTES>
__device__ __forceinline__ void take_columns(const Operand& of, int block, int width, const Look* look, const int* grades,
                                             unsigned* tile)
{
    constexpr int PITCH = SIDE + 1, WARPS = THREADS / 32, TURNS = DEEP / RUN / WARPS;  // tile[MOST + CERTIFIES][SIDE][PITCH]
    __shared__ unsigned of_warps[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, across = (of.vectors + SIDE - 1) / SIDE;
    const int first = block % across * SIDE, p0 = block / across * DEEP, j = first + lane;
    double values[TURNS][RUN];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            const int p = p0 + (warp * TURNS + turn) * RUN + v;
            values[turn][v] = p < of.k && j < of.vectors ? of.x[(long long)p * of.ld + j] * factor_of(grades, p, of.sign) : 0;
        }
    const double norm = j < of.vectors ? of.norms[j] : EMPTY;
    const int count = moduli_for(*look, of.k);
    if (count == 0) return;
    const int e = exponent_for(norm, half_bits(count));
    const double least = PROVES && j < of.vectors ? share_of(count) * of.means[j] : 0;
    unsigned found = 0;
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int place = warp * TURNS + turn;
        Four four[PARTS];  // one part: planes lie along k
#pragma unroll
        for (int v = 0; v < RUN; ++v) four[0].set(v, values[turn][v], two_to(e)), found += fabs(values[turn][v]) >= least;
        unsigned* to = tile + lane * PITCH + place;
        store_residues<PERMUTES>(four, count, to, SIDE * PITCH);
        if (CERTIFIES) to[MOST * SIDE * PITCH] = sizes_of(values[turn], j < of.vectors ? of.extents[j].unit : 0);
    }
    if (PROVES) of_warps[warp][lane] = found;
    __syncthreads();
    if (PROVES && warp == 0 && j < of.vectors) {
        for (int other = 1; other < WARPS; ++other) found += of_warps[other][lane];
        atomicAdd(of.large + j, found);
    }
#pragma unroll
    for (int vector = warp; vector < SIDE; vector += WARPS) {
        const int i = first + vector;
        if (i >= of.vectors) break;
        unsigned* to = of.out + ((long long)(PERMUTES ? neighbour(i) : i) * width + p0) / 4 + lane;
        const unsigned* from = tile + vector * PITCH + lane;
        const long long layer = (long long)of.all_vectors * width / 4;
#pragma unroll 4
        for (int t = 0; t < count; ++t) to[t * layer] = from[t * SIDE * PITCH];
        if (CERTIFIES) to[MOST * layer] = from[MOST * SIDE * PITCH];
    }
}

template <bool IS_ALONG, bool IS_WIDE, bool PERMUTES>
__device__ __forceinline__ void take(const Operand& of, int block, int width, const Look* look, const int* grades, unsigned* tile)
{
    if constexpr (IS_ALONG) take_rows<IS_WIDE, PERMUTES>(of, block, width, look, grades);
    else take_columns<PERMUTES>(of, block, width, look, grades, tile);
}

// A by the first `blocks_a` blocks, then B.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    residues(const T* __restrict__ a, int lda, int m, const double* norms_a, const double* means_a,
             unsigned* large_a, const Extent* extents_a, unsigned* out_a, const T* __restrict__ b, int ldb, int n,
             const double* norms_b, const double* means_b, unsigned* large_b, const Extent* extents_b, unsigned* out_b,
             int columns, int k, int width, Look* look, const int* grades, int blocks_a, unsigned* ticket, int* moduli)
{
    DYNAMIC_SHARED(dynamic);
    await_launch_before();
    const int block = blockIdx.x;
    if (block < blocks_a)
        take<A_ALONG, A_WIDE, false>(Operand{a, lda, m, k, norms_a, means_a, large_a, extents_a, out_a, m, 1}, block, width, look, grades,
                                     (unsigned*)dynamic);
    else
        take<B_ALONG, B_WIDE, true>(Operand{b, ldb, n, k, norms_b, means_b, large_b, extents_b, out_b, columns, -1}, block - blocks_a, width, look,
                                    grades, (unsigned*)dynamic);
    __shared__ int is_last;
    publish();
    __syncthreads();
    if (threadIdx.x == 0) is_last = take_ticket(ticket, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    publish();
    decide(look, large_a, m, large_b, n, PARTS * k, moduli);
}
