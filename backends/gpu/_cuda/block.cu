// Holds up whatever is queued behind it until the host sets a flag, or until it has waited long enough.
//
// `flags` lies in memory of the host that the GPU reads: [0] is set by the host, [1] here, when the time is over.
//
// Source: the blocking kernel of NVIDIA's nvbench.
__device__ __forceinline__ long long time_ns()
{
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

extern "C" __global__ void block(volatile int* flags, long long most_ns)
{
    const long long begin = time_ns();
    while (!flags[0]) {
        if (time_ns() - begin > most_ns) {
            flags[1] = 1;
            return;
        }
    }
}
