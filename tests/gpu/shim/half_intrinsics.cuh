// The functions of backends/gpu/_tensor/half_intrinsics.cuh on a CPU, for a block alone. All threads of a warp deposit what
// they give, meet, and take what is theirs; then they meet again.
#pragma once

namespace shim {

struct Given {
    unsigned a[4], b[2];
    const unsigned short* row;
};
static Given given[1024];

inline float half_value(unsigned bits)
{
    if (KIND[0] == 'b') return __uint_as_float(bits << 16);
    return half_of(bits);
}

inline unsigned two_of(unsigned first, unsigned second) { return first | second << 16; }

inline void take_matrices(unsigned* to, const void* row, int count, bool is_transposed)
{
    shim::check_aligned(row, 16);
    const int me = threadIdx.x, warp = me / 32 * 32, g = me % 32 / 4, t = me % 4;
    given[me].row = (const unsigned short*)row;
    meet_warp();
    for (int v = 0; v < count; ++v) {
        const Given* rows = given + warp + 8 * v;
        to[v] = is_transposed ? two_of(rows[2 * t].row[g], rows[2 * t + 1].row[g])
                              : two_of(rows[g].row[2 * t], rows[g].row[2 * t + 1]);
    }
    meet_warp();
}

}  // namespace shim

inline void mma_half(float* c, const unsigned* a, const unsigned* b)
{
    const int me = threadIdx.x, warp = me / 32 * 32, g = me % 32 / 4, t = me % 4;
    for (int v = 0; v < 4; ++v) shim::given[me].a[v] = a[v];
    for (int v = 0; v < 2; ++v) shim::given[me].b[v] = b[v];
    shim::meet_warp();
    for (int v = 0; v < 4; ++v)
        for (int p = 0; p < 16; ++p) {
            const int row = g + 8 * (v / 2), column = 2 * t + v % 2, lane = p % 8 / 2, shift = p % 2 * 16;
            const unsigned x = shim::given[warp + row % 8 * 4 + lane].a[row / 8 + 2 * (p / 8)] >> shift & 0xffff;
            const unsigned y = shim::given[warp + column * 4 + lane].b[p / 8] >> shift & 0xffff;
            c[v] += shim::half_value(x) * shim::half_value(y);
        }
    shim::meet_warp();
}

inline void load_matrices(unsigned* to, const void* row) { shim::take_matrices(to, row, 4, false); }
inline void load_two_matrices(unsigned* to, const void* row) { shim::take_matrices(to, row, 2, false); }
inline void load_transposed(unsigned* to, const void* row) { shim::take_matrices(to, row, 4, true); }
inline void load_two_transposed(unsigned* to, const void* row)
{
    if (threadIdx.x % 32 >= 16) row = (const char*)row - (size_t)row % 16;  // not looked at
    shim::take_matrices(to, row, 2, true);
}
