// Sums that are flushed, by terms of two steps in turn: while those of one are added, the instructions of the other execute.
//
// No round of the loop leaves instructions to the next one: of such, ptxas lets no two execute at once.
//
// Source: Shah et al., FlashAttention-3 (2024), section 3.2, for two products in flight within a warpgroup.
#pragma once

// Add the products of all steps to the sums.
__device__ __forceinline__ void add_alternately(Ring& ring, unsigned tiles, int steps, int part, Sum* sums)
{
    constexpr int AT_ONCE = 4;  // steps of a round
    Sum terms[2][SUMS];
    const auto begin = [&](Sum* of_step) {
        wait(ring.full + 8 * ring.stage, ring.parity);
        begin_group();
        begin_step(of_step, tiles + ring.stage * BYTES, part, true);
        end_group();
        const int stage = ring.stage;
        ring.advance();
        return stage;
    };
    const auto add = [&](const Sum* of_step, int stage) {
        release(ring, stage, threadIdx.x % 128);
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] += of_step[i];
    };
    int step = 0;
#pragma unroll 1
    for (; step + AT_ONCE <= steps; step += AT_ONCE) {
        int before = begin(terms[0]);
#pragma unroll
        for (int u = 1; u < AT_ONCE; ++u) {
            const int stage = begin(terms[u % 2]);
            wait_groups<1>();
            add(terms[(u - 1) % 2], before);
            before = stage;
        }
        wait_groups<0>();
        add(terms[(AT_ONCE - 1) % 2], before);
    }
#pragma unroll 1
    for (; step < steps; ++step) {
        const int stage = begin(terms[0]);
        wait_groups<0>();
        add(terms[0], stage);
    }
}
