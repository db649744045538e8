// The function of backends/gpu/_cuda/chain.cuh on a CPU, where launches follow one another.
#pragma once

inline void await_launch_before() {}
