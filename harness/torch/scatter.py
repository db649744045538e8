"""Gradients of a selecting (+) on a GPU in one launch: each element of g is added where its term came from.

    dA[i, q] += g[i, j] * d1(A[i, q], B[q, j])
    dB[q, j] += g[i, j] * d2(A[i, q], B[q, j])       q = argk[i, j], unless it is -1

A thread takes an element at a time, a warp a piece of a row of g. Along a batch an operand moves by a step of its own;
a step of 0 adds up the gradients of an operand that is repeated. Additions are atomic, so that their order is free.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from harness.torch.tensors import cupy, stream_of

THREADS = 256
TYPES = {torch.float32: "float", torch.float64: "double"}

# d1 and d2 by (x); of equal operands of min and max the first one counts.
DERIVATIVES = {
    "plus": ("1", "1"),
    "first": ("1", "0"),
    "second": ("0", "1"),
    "times": ("y", "x"),
    "min": ("x <= y", "x > y"),
    "max": ("x >= y", "x < y"),
}

SOURCE = r"""
extern "C" __global__ void scatter(
    const REAL* a, const REAL* b, const int* argk, const REAL* g, REAL* of_a, REAL* of_b, long long count, long long m,
    long long n, long long k, long long step_a, long long row_a, long long column_a, long long step_b, long long row_b,
    long long column_b, long long step_of_a, long long step_of_b
) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += threads) {
        const int q = argk[e];
        if (q < 0) continue;
        const long long product = e / (m * n), i = e / n % m, j = e % n;
        const REAL x = a[product * step_a + i * row_a + q * column_a];
        const REAL y = b[product * step_b + q * row_b + j * column_b];
        if (of_a) atomicAdd(of_a + product * step_of_a + i * k + q, g[e] * (REAL)(D1));
        if (of_b) atomicAdd(of_b + product * step_of_b + (long long)q * n + j, g[e] * (REAL)(D2));
    }
}
"""


def defines(multiply: str, dtype: Any) -> tuple[str, ...]:
    """Return the macros of the kernel for a (x) of the table."""
    d1, d2 = DERIVATIVES[multiply]
    return f"-DREAL={TYPES[dtype]}", f"-DD1={d1}".replace(" ", ""), f"-DD2={d2}".replace(" ", "")


def takes(a: Any, b: Any, g: Any) -> bool:
    """Return whether the kernel computes these gradients: on a GPU, with all of the batch or none of it."""
    batch = g.shape[:-2]
    return (
        g.is_cuda
        and g.dtype in TYPES
        and g.numel() > 0
        and all(x.shape[:-2] in {batch, ()} and (x.dim() == 2 or x.is_contiguous()) for x in (a, b))
    )


def scatter(multiply: str, a: Any, b: Any, argk: Any, g: Any, needs: tuple[bool, bool]) -> tuple[Any, Any]:
    """Return the gradients that are asked for; arguments as of `rules.selected`, of which `takes` has approved."""
    of_a, of_b = (
        torch.zeros(x.shape, dtype=x.dtype, device=x.device) if is_needed else None
        for x, is_needed in zip((a, b), needs, strict=True)
    )
    g, argk = g.contiguous(), argk.contiguous()
    (m, n), k = g.shape[-2:], a.shape[-1]
    steps = [(0 if x.dim() == 2 else x.shape[-2] * x.shape[-1]) for x in (a, b)]
    pointers = [0 if x is None else x.data_ptr() for x in (a, b, argk, g, of_a, of_b)]
    strides = steps[0], a.stride(-2), a.stride(-1), steps[1], b.stride(-2), b.stride(-1)
    with stream_of(g):
        kernel = _kernel(multiply, g.dtype, g.device.index)
        blocks = -(-g.numel() // THREADS)
        kernel((min(blocks, 1 << 20),), (THREADS,), (*pointers, g.numel(), m, n, k, *strides, *steps))
    return of_a, of_b


@functools.lru_cache(maxsize=64)
def _kernel(multiply: str, dtype: Any, device: int) -> Any:
    return cupy().RawKernel(SOURCE, "scatter", defines(multiply, dtype))
