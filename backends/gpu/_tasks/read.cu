// A sum of all words of a buffer: every byte is read once and nothing but a word a thread is written. The ceiling of what
// reads a matrix once.
//
//   thread  granules of 16 bytes, all threads of the grid apart; LOADS of them in flight
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) read(
    const uint4* __restrict__ from, unsigned* __restrict__ totals, unsigned long long granules)
{
    const unsigned long long apart = (unsigned long long)gridDim.x * THREADS;
    const unsigned long long first = (unsigned long long)blockIdx.x * THREADS + threadIdx.x;
    unsigned long long at = first;
    unsigned total = 0;
    for (; at + (LOADS - 1) * apart < granules; at += LOADS * apart) {
        uint4 words[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) words[i] = __ldcs(from + at + i * apart);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) total += words[i].x + words[i].y + words[i].z + words[i].w;
    }
    for (; at < granules; at += apart) {
        const uint4 words = __ldcs(from + at);
        total += words.x + words.y + words.z + words.w;
    }
    totals[first] = total;
}
