// Residues of the rows of A, or of the columns of B, modulo each of some small numbers: bytes that int8 tensor cores multiply.
//
//   x' = 2^e x to the nearest integer, below 2^63     e from the norm of the vector (look.cuh)
//   r_t = x' modulo p_t, nearest to zero              out[t][vector][p], rows of `width` bytes
//
// x' + 2^63 is eight bytes. Two dot products with the bytes of 256^i modulo p leave a sum below 2^18.1, and one quotient of
// floats is exact. A block of `residue_columns` transposes through shared memory, since the tensor cores take int8 along k
// alone. Neighbours are permuted within 64 where the product asks for it (neighbours.cuh).
//
// Beside them the pass counts the large elements of each vector, from which the gate proves a bound (gate.cu).
//
//   T       type of the elements
//   MODULI  p_t
//   NARROW  1: x' is below 2^32, and its magnitude counts in units, else in units of 2^32
//   WIDE    residue_rows reads 16 bytes at once: rows begin at multiples of that
#include "look.cuh"
#include "bytes.cuh"
#include "grades.cuh"
#include "intrinsics.cuh"
#include "memory.cuh"
#include "neighbours.cuh"

constexpr int P[] = {MODULI};
constexpr int THREADS = 256, RUN = 4, ROWS = 4;  // elements a thread takes at once; vectors of a block of residue_rows
constexpr int SIDE = 32, DEEP = 128;              // vectors and elements of a block of residue_columns
constexpr int MAGIC = 0x4B400000;                 // the float 1.5 2^23, whose last bits count units
constexpr float MAGIC_FLOAT = 12582912.f;

__device__ constexpr int nearest(int x, int p) { return 2 * x >= p ? x - p : x; }
__device__ constexpr int power_of_two(int e, int p)
{
    int r = 1;
    for (int i = 0; i < e; ++i) r = r * 2 % p;
    return r;
}
// The bytes of 256^i modulo p, for i from `first` to first + 3.
__device__ constexpr unsigned weights(int first, int p)
{
    unsigned w = 0;
    for (int i = 0; i < 4; ++i) w |= (unsigned)(nearest(power_of_two(8 * (first + i), p), p) & 255) << 8 * i;
    return w;
}

// Four integers as their lower and upper halves, 2^63 added.
struct Four {
    unsigned low[RUN], high[RUN];

    // Set number v, and return its magnitude, from below.
    __device__ __forceinline__ unsigned set(int v, double x, double scale)
    {
        const long long integer = llrint(x * scale);
        const int upper = (int)(integer >> 32);
        low[v] = (unsigned)integer, high[v] = (unsigned)upper ^ 0x80000000u;
        return NARROW ? (unsigned)(integer < 0 ? -integer : integer) : (unsigned)(upper ^ upper >> 31);
    }
};

template <int t> __device__ __forceinline__ unsigned residues_of(const Four& four)
{
    constexpr int p = P[t], start = MAGIC - nearest(power_of_two(63, p), p);
    constexpr unsigned low = weights(0, p), high = weights(4, p);
    unsigned r[RUN];
#pragma unroll
    for (int v = 0; v < RUN; ++v) {
        const int sum = dot_of_bytes(four.low[v], low, dot_of_bytes(four.high[v], high, start));
        const int quotient = __float_as_int(fmaf(__int_as_float(sum) - MAGIC_FLOAT, 1.f / p, MAGIC_FLOAT));
        r[v] = (unsigned)sum - (unsigned)quotient * p;  // the last byte of MAGIC is 0
    }
    return last_bytes(r);
}

// Store the residues modulo the first `count` numbers, `distance` words apart.
template <int t = 0> __device__ __forceinline__ void store_residues(const Four& four, int count, unsigned* to, long long distance)
{
    if constexpr (t < MOST) {
        if (t >= count) return;
        *to = residues_of<t>(four);
        store_residues<t + 1>(four, count, to + distance, distance);
    }
}

// RUN neighbours from p on, and zeros beyond k.
__device__ __forceinline__ void load(const T* from, int left, double* values)
{
    constexpr int WIDTH = 16 / sizeof(T);
    struct alignas(16) Vector {
        T x[WIDTH];
    };
    if (WIDE && left >= RUN) {
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

// The magnitude from which on an element is large, from above.
__device__ __forceinline__ unsigned large_from(double norm, int e, int k, int count)
{
    return (unsigned)(share_of(count) * 1.0001f * exp2f((float)(e + norm) - (NARROW ? 0 : 32)) / sqrtf((float)k)) + 1;
}

// Elements of a vector are neighbours.
extern "C" __global__ void __launch_bounds__(THREADS)
    residue_rows(const T* __restrict__ x, int ld, int vectors, int k, const double* norms, const Look* look, unsigned* out,
                 int width, int all_vectors, int permutes, unsigned* large, const int* grades, int sign)
{
    const int across = (width + THREADS * RUN - 1) / (THREADS * RUN);
    const int p = ((int)blockIdx.x % across * THREADS + threadIdx.x) * RUN, first = blockIdx.x / across * ROWS;
    const bool exists = p < width;  // for all of a warp or for none
    double values[ROWS][RUN], norm[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {  // all loads first: what they wait for is long
        const int i = min(first + r, vectors - 1);
        norm[r] = norms[i];
        load(x + (long long)i * ld + p, k - p, values[r]);
    }
    if (BALANCED)
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            const double factor = p + v < k ? factor_of(grades, p + v, sign) : 0;
            for (int r = 0; r < ROWS; ++r) values[r][v] *= factor;
        }
    const int count = moduli_for(*look, k);
    if (count == 0) return;
    const double bits = half_bits(count);
    unsigned found = 0;  // of vector number `lane`
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int i = first + r, e = exponent_for(norm[r], bits);
        const unsigned least = large_from(norm[r], e, k, count);
        Four four;
        unsigned mine = 0;
#pragma unroll
        for (int v = 0; v < RUN; ++v) mine += four.set(v, values[r][v], two_to(e)) >= least;
        const long long row = permutes ? neighbour(i) : i;
        if (exists && i < vectors)
            store_residues(four, count, out + (row * width + p) / 4, (long long)all_vectors * width / 4);
        if (PROVES) {
            const unsigned sum = sum_of_lanes(mine);
            if (threadIdx.x % 32 == r) found = sum;
        }
    }
    const int lane = threadIdx.x % 32;
    if (PROVES && lane < ROWS && first + lane < vectors && exists) atomicAdd(large + first + lane, found);
}

// Vectors are neighbours. A lane holds elements of one vector, and a warp a sixteenth of the block's elements.
extern "C" __global__ void __launch_bounds__(THREADS)
    residue_columns(const T* __restrict__ x, int ld, int vectors, int k, const double* norms, const Look* look, unsigned* out,
                    int width, int all_vectors, int permutes, unsigned* large, const int* grades, int sign)
{
    DYNAMIC_SHARED(dynamic);
    unsigned* tile = (unsigned*)dynamic;  // [MOST][SIDE][SIDE + 1]
    constexpr int PITCH = SIDE + 1, WARPS = THREADS / 32, TURNS = DEEP / RUN / WARPS;
    __shared__ unsigned of_warps[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, across = (vectors + SIDE - 1) / SIDE;
    const int first = blockIdx.x % across * SIDE, p0 = blockIdx.x / across * DEEP, j = first + lane;
    double values[TURNS][RUN];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
        for (int v = 0; v < RUN; ++v) {
            const int p = p0 + (warp * TURNS + turn) * RUN + v;
            values[turn][v] = p < k && j < vectors ? x[(long long)p * ld + j] * factor_of(grades, p, sign) : 0;
        }
    const double norm = j < vectors ? norms[j] : EMPTY;
    const int count = moduli_for(*look, k);
    if (count == 0) return;
    const int e = exponent_for(norm, half_bits(count));
    const unsigned least = large_from(norm, e, k, count);
    unsigned found = 0;
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int place = warp * TURNS + turn;
        Four four;
#pragma unroll
        for (int v = 0; v < RUN; ++v) found += four.set(v, values[turn][v], two_to(e)) >= least;
        store_residues(four, count, tile + lane * PITCH + place, SIDE * PITCH);
    }
    if (PROVES) of_warps[warp][lane] = found;
    __syncthreads();
    if (PROVES && warp == 0 && j < vectors) {
        for (int other = 1; other < WARPS; ++other) found += of_warps[other][lane];
        atomicAdd(large + j, found);
    }
#pragma unroll
    for (int vector = warp; vector < SIDE; vector += WARPS) {
        const int i = first + vector;
        if (i >= vectors) break;
        unsigned* to = out + ((long long)(permutes ? neighbour(i) : i) * width + p0) / 4 + lane;
        const unsigned* from = tile + vector * PITCH + lane;
#pragma unroll 4
        for (int t = 0; t < count; ++t) to[t * ((long long)all_vectors * width / 4)] = from[t * SIDE * PITCH];
    }
}
