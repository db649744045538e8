// A launch that begins while the one before it ends (programmatic dependent launch). It saves a microsecond or two, in which a GPU
// would do nothing. Tests that run kernels on a CPU have their own such file.
#pragma once

// The first statement of a kernel of a chain that touches memory, in all of its threads: what the launches before it have written
// is there. So is what those before that one wrote, for it waited too.
__device__ __forceinline__ void await_launch_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
