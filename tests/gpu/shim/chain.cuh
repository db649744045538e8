// The function of backends/gpu/_simt/chain.cuh on a CPU, where launches follow one another.
#pragma once

inline void await_launch_before() {}
