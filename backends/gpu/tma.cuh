// Barriers in shared memory and the copy engine (TMA) of Hopper, an instruction a function. Addresses are of shared memory.
//
//   CLUSTER  blocks that share their shared memories: 1 or 2
//
// Tests that run kernels on a CPU have their own such file. Source: PTX ISA, mbarrier, cp.async.bulk.tensor, setmaxnreg,
// barrier.cluster.
#pragma once
#include "intrinsics.cuh"

#if CLUSTER > 1
#define IN_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define IN_CLUSTER(blocks)
#endif

struct alignas(64) TensorMap {
    char opaque[128];
};

__device__ __forceinline__ void make_barrier(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Make new barriers known to the copy engine and to the other blocks.
__device__ __forceinline__ void publish_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same at the barrier that stands at this address in block `rank` of the cluster. Relaxed: what was read was read by
// the tensor core, and is complete. A release for the cluster would wait for all of memory, most of a microsecond a step.
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank)
{
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];}" ::"r"(barrier), "r"(rank)
                 : "memory");
}

// Arrive, and let the barrier wait for so many bytes of copies too.
__device__ __forceinline__ void expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, int parity)
{
    int is_done = 0;
    while (!is_done)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                     : "=r"(is_done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

// Begin to copy a box of the matrix; its bytes count at the barrier. What lies outside of the matrix is written as zeros.
__device__ __forceinline__ void copy_box(unsigned to, const TensorMap* from, unsigned barrier, int column, int row)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        ::"r"(to), "l"(from), "r"(barrier), "r"(column), "r"(row)
        : "memory");
}

// The same to this address in every block of the cluster, and each counts the bytes at its own barrier.
__device__ __forceinline__ void copy_box_to_all(unsigned to, const TensorMap* from, unsigned barrier, int column, int row)
{
    if (CLUSTER == 1) return copy_box(to, from, barrier, column, row);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(from), "r"(barrier), "r"(column), "r"(row),
                 "h"((short)((1 << CLUSTER) - 1))
                 : "memory");
}

__device__ __forceinline__ int rank_in_cluster()
{
    unsigned rank = 0;
    if (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Wait for every thread of every block of the cluster.
__device__ __forceinline__ void meet_cluster()
{
    if (CLUSTER == 1) return __syncthreads();
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// The last that a thread does: no block leaves while others copy into its memory.
__device__ __forceinline__ void leave_cluster()
{
    if (CLUSTER > 1) meet_cluster();
}

// Leave registers to the other warpgroups, or take them; COUNT a thread.
template <int COUNT> __device__ __forceinline__ void leave_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
