// Sums of what lies near the multiprocessors, read again and again: the ceilings of L2 and of shared memory.
//
//   l2       thread  granules of 16 bytes of a buffer that L2 holds, past L1; in each pass another block reads a granule
//   shared   thread  LOADS granules of 16 bytes, neighbours beside each other: no two banks in conflict
//
// `again` hides from the compiler that what is read stays the same. Of shared memory, whose address leaves no kernel, it
// would know all the same, and load only the words that it cannot tell: there the instruction is written out, volatile.

__device__ __forceinline__ void again() { asm volatile("" ::: "memory"); }

__device__ __forceinline__ unsigned sum(uint4 words) { return words.x + words.y + words.z + words.w; }

__device__ __forceinline__ uint4 read_shared(unsigned address)
{
    uint4 words;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address)
                 : "memory");
    return words;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    l2(const uint4* from, unsigned* __restrict__ totals, unsigned granules, int passes)
{
    const unsigned first = blockIdx.x * THREADS + threadIdx.x, apart = gridDim.x * THREADS;
    unsigned total = 0;
    for (int pass = 0; pass < passes; ++pass) {
        const unsigned begin = ((blockIdx.x + pass) % gridDim.x) * THREADS + threadIdx.x;
        for (unsigned at = begin; at < granules; at += LOADS * apart) {
            uint4 words[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; ++i) words[i] = at + i * apart < granules ? __ldcg(from + at + i * apart) : uint4{};
#pragma unroll
            for (int i = 0; i < LOADS; ++i) total += sum(words[i]);
        }
        again();
    }
    totals[first] = total;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) shared(unsigned* __restrict__ totals, int passes)
{
    __shared__ uint4 held[LOADS * THREADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) held[i * THREADS + threadIdx.x] = uint4{1u, 2u, 3u, threadIdx.x};
    __syncthreads();
    const unsigned first = (unsigned)__cvta_generic_to_shared(held + threadIdx.x);
    unsigned total = 0;
    for (int pass = 0; pass < passes; ++pass) {
        uint4 words[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) words[i] = read_shared(first + i * THREADS * 16);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) total += sum(words[i]);
    }
    totals[blockIdx.x * THREADS + threadIdx.x] = total;
}
