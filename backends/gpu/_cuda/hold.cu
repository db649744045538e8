// Holds up the work queued behind it until the host sets a flag, or for `most_ns` at most.
//
// `flags` lies in host memory that the GPU reads: the host sets [0]; this kernel sets [1] when the time is over.
//
// Source: the blocking kernel of NVIDIA's nvbench.
__device__ __forceinline__ long long time_ns()
{
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

extern "C" __global__ void hold(volatile int* flags, long long most_ns)
{
    const long long begin = time_ns();
    while (!flags[0]) {
        if (time_ns() - begin > most_ns) {
            flags[1] = 1;
            return;
        }
    }
}
