// Sums that several blocks share: each leaves its part in scratch, and the last one to arrive adds the parts in order.
//
//   ticket   one for each group of blocks that share; 0 before, and 0 again after
//
// So there is one launch, and the same bits every time: the order of additions does not depend on who comes last.
//
// Source: CUDA samples, threadFenceReduction.
#pragma once
#include "matrix_vector.cuh"

// Whether this block is the last of `shares`; true for one thread is true for all of the block.
__device__ __forceinline__ bool is_last_share(unsigned* ticket, unsigned shares)
{
    __shared__ bool is_last;
    publish();
    __syncthreads();
    if (threadIdx.x == 0) is_last = take_ticket(ticket, shares) == shares - 1;
    __syncthreads();
    publish();
    return is_last;
}
