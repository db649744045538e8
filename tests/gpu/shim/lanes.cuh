// The functions of backends/gpu/_program/lanes.cuh on a CPU: lanes of a warp meet; all deposit a value, meet, and take another's.
#pragma once

namespace shim {
static double passed[1024];  // of threads; wide enough for every type of element
}

inline void meet_lanes() { shim::meet_warp(); }

template <class E> inline E of_lane_across(E x, int mask)
{
    const int me = threadIdx.x;
    memcpy(&shim::passed[me], &x, sizeof x);
    shim::meet_warp();
    E taken;
    memcpy(&taken, &shim::passed[me ^ mask], sizeof taken);
    shim::meet_warp();
    return taken;
}

inline unsigned of_next_lane(unsigned x)
{
    const int me = threadIdx.x;
    memcpy(&shim::passed[me], &x, sizeof x);
    shim::meet_warp();
    unsigned taken;
    memcpy(&taken, &shim::passed[me / 32 * 32 + (me + 1) % 32], sizeof taken);
    shim::meet_warp();
    return taken;
}
