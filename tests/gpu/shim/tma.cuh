// The functions of backends/gpu/_tensor/tma.cuh on a CPU, for a block alone. Threads that wait let the others have their turn; a copy
// happens only when somebody waits at its barrier, so that who forgets to wait finds nothing.
#pragma once
#include "intrinsics.cuh"

#define IN_CLUSTER(blocks)
#define __grid_constant__
#ifndef __align__
#define __align__(bytes)
#endif
static_assert(CLUSTER == 1, "blocks run one after the other here");
#ifndef TOGETHER
#define TOGETHER 0
#endif
static const int FETCHERS = 1;

struct TensorMap {
    const char* data;
    long long ld, distance;
    unsigned rows, columns, box_rows, box_columns, itemsize, layers;
    char rest[128 - 24 - 24];
};

namespace shim {

struct Box {
    const TensorMap* from;
    unsigned to;
    int column, row, layer;
};
struct Run {
    unsigned to;
    const void* from;
    int bytes;
};
struct Barrier {
    int expected, pending, parity;
    long long bytes;
    Box boxes[32];
    int box_count;
    Run runs[32];
    int run_count;
};
static Barrier barriers[64];
static const void* first_barrier;
static const unsigned BARRIERS = 1u << 30;  // where their addresses begin; those of dynamic shared memory begin at 0
static unsigned left, last_turn, met, met_turn;
static const int PATIENCE = 2000;

inline Barrier& barrier_at(unsigned address) { return barriers[(address - BARRIERS) / 8]; }
inline char* shared_at(unsigned address) { return shared_memory + address; }

// Rows of 128 bytes, their pieces of 16 exchanged by the number of the row.
inline unsigned swizzle(unsigned address) { return address ^ (address >> 7 & 7) << 4; }

inline void conclude(Barrier& barrier)
{
    if (barrier.pending || barrier.bytes) return;
    barrier.parity ^= 1, barrier.pending = barrier.expected;
}

inline void perform(const Box& box)
{
    const TensorMap& from = *box.from;
    if (from.box_columns * from.itemsize != 128 || from.ld * from.itemsize % 16 || from.distance * from.itemsize % 16)
        fail("a box is not what is swizzled");
    for (unsigned r = 0; r < from.box_rows; ++r)
        for (unsigned c = 0; c < from.box_columns; ++c) {
            const long long i = box.row + (long long)r, j = box.column + (long long)c;
            char* to = shared_at(swizzle(box.to + r * 128 + c * from.itemsize));
            const char* there = from.data + (box.layer * from.distance + i * from.ld + j) * from.itemsize;
            if (i < from.rows && j < from.columns) memcpy(to, there, from.itemsize);
            else memset(to, 0, from.itemsize);
        }
}

}  // namespace shim

inline unsigned shared_address(const void* p)
{
    if (p >= shim::shared_memory && p < shim::shared_end)
        return (unsigned)((const char*)p - shim::shared_memory);
    if (!shim::first_barrier) shim::first_barrier = p;
    return shim::BARRIERS + (unsigned)((const char*)p - (const char*)shim::first_barrier);
}

inline void make_barrier(unsigned barrier, int arrivals) { shim::barrier_at(barrier) = {arrivals, arrivals, 0, 0, {}, 0, {}, 0}; }
inline void publish_barriers() { shim::left = 0; }

inline void end_reads() {}

inline void arrive(unsigned barrier)
{
    shim::Barrier& it = shim::barrier_at(barrier);
    if (--it.pending < 0) shim::fail("more arrive than are expected");
    shim::conclude(it);
}
inline void arrive_at(unsigned barrier, int) { arrive(barrier); }

inline void expect(unsigned barrier, int bytes)
{
    shim::barrier_at(barrier).bytes += bytes;
    arrive(barrier);
}

inline void wait(unsigned barrier, int parity)
{
    shim::Barrier& it = shim::barrier_at(barrier);
    for (int turns = 0;; ++turns) {
        for (int box = 0; box < it.box_count; ++box) {
            shim::perform(it.boxes[box]);
            it.bytes -= it.boxes[box].from->box_rows * 128;
        }
        for (int run = 0; run < it.run_count; ++run) {
            memcpy(shim::shared_at(it.runs[run].to), it.runs[run].from, it.runs[run].bytes);
            it.bytes -= it.runs[run].bytes;
        }
        if (it.box_count + it.run_count) it.box_count = it.run_count = 0, shim::conclude(it);
        if (it.parity != parity) return;
        if (turns == shim::PATIENCE) shim::fail("threads wait for each other");
        shim::leave(shim::WAITING);
    }
}

inline void copy_run(unsigned to, const void* from, int bytes, unsigned barrier)
{
    shim::Barrier& it = shim::barrier_at(barrier);
    if (it.run_count == 32) shim::fail("the shim has no room for more copies");
    if (bytes % 16 || to % 16 || (unsigned long long)from % 16) shim::fail("a run is no granules");
    shim::check_inside(from, bytes);
    it.runs[it.run_count++] = {to, from, bytes};
}

inline void end_writes() {}
inline void store_run(void* to, unsigned from, int bytes)
{
    if (bytes % 16 || from % 16 || (unsigned long long)to % 16) shim::fail("a run is no granules");
    memcpy(to, shim::shared_at(from), bytes);
}
inline void await_stores() {}

// `layer` is given of stacks of matrices alone.
inline void copy_box(unsigned to, const TensorMap* from, unsigned barrier, int column, int row, int layer = -1)
{
    shim::Barrier& it = shim::barrier_at(barrier);
    if (it.box_count == 32) shim::fail("the shim has no room for more copies");
    if ((layer >= 0) != (from->layers > 0) || layer >= (int)from->layers) shim::fail("a map has no such layer");
    it.boxes[it.box_count++] = {from, to, column, row, layer < 0 ? 0 : layer};
}
inline void copy_box_to_all(unsigned to, const TensorMap* from, unsigned barrier, int column, int row, int layer = -1)
{
    copy_box(to, from, barrier, column, row, layer);
}

inline int rank_in_cluster() { return 0; }

// Threads that came on different ways wait until all have come as often, and go on in one turn.
inline void meet_cluster()
{
    const unsigned round = shim::met++ / blockDim.x;
    if (shim::met % blockDim.x == 0) shim::met_turn = shim::turn;
    do shim::leave(shim::WAITING);
    while (shim::met / blockDim.x == round || shim::turn == shim::met_turn);
}

template <int COUNT> inline void read_from_block(float* to, const float* from, int)
{
    for (int i = 0; i < COUNT; ++i) to[i] = from[i];
}

// Threads end together here: the scheduler takes one that ends alone for one that misses a barrier.
inline void leave_cluster()
{
    if (++shim::left == blockDim.x) shim::last_turn = shim::turn;
    do shim::leave(shim::WAITING);
    while (shim::left < blockDim.x || shim::turn == shim::last_turn);
}

template <int COUNT> inline void leave_registers() {}
template <int COUNT> inline void take_registers() {}

inline void __syncwarp() { shim::meet_warp(); }
