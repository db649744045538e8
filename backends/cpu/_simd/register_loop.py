"""Peak of the arithmetic units alone: the instructions of the micro-kernel on accumulators, without its loads.

A and B are registers from beginning to end. There are as many accumulators as registers hold beside the temporaries of
a term: more than hide the latency of any (+), and none of them is spilled. The rate of a kernel divided by the rate of
this loop is its percentage of peak.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, scalar
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import emits


@kernel_builder
def build_register_loop(key: KernelKey) -> Any:
    """Compile ``extend(steps, x, y, results, i)``: ``results[i]`` becomes the (+) of lane 0 of every accumulator.

    Each of the key's mr x nv accumulators is extended `steps` times by ``x (x) y``.
    """
    tile, scalar_type = _tile_intrinsic(key), scalar(np.dtype(key.dtype))

    def extend(steps: int, x: Any, y: Any, results: np.ndarray, i: int) -> None:
        results[i] = tile(steps, x, y)

    signature = (types.intp, scalar_type, scalar_type, types.Array(scalar_type, 1, "C"), types.intp)
    return jit(None, *signature, parallel=False)(extend)


@kernel_builder
def build_on_threads(dtype: np.dtype[Any]) -> Any:
    """Compile ``loop(extend, steps, x, y, results)``: a thread for each result; `extend` is given by its address."""

    def loop(extend: Any, steps: int, x: Any, y: Any, results: np.ndarray) -> None:
        for thread in prange(results.size):
            call(extend, (steps, x, y, results, np.intp(thread)))

    element = scalar(dtype)
    return jit(None, types.intp, types.intp, element, element, types.Array(element, 1, "C"))(loop)


def register_loop(key: KernelKey, threads: int) -> Any:
    """Return ``loop(steps, x, y, results)`` on that many threads; with one, none is started."""
    extend = build_register_loop(key)
    if threads == 1:
        return lambda steps, x, y, results: extend(steps, x, y, results, 0)
    return functools.partial(build_on_threads(np.dtype(key.dtype)), address_of(extend))


def _tile_intrinsic(key: KernelKey) -> Any:
    """Return the intrinsic ``tile(steps, x, y)``."""
    llvm.initialize_native_asmparser()  # else LLVM aborts the process at the empty assembly below
    code, operations, element = key.code(), key.operations, scalar(np.dtype(key.dtype))

    @emits(element, types.intp, element, element)
    def tile(builder: Builder, iterations: Value, x: Value, y: Value) -> Value:
        hidden = functools.partial(_opaque, builder, code.vector)

        def step(state: list[Value]) -> list[Value]:
            # Empty assembly in place hides values, so that LLVM computes each term anew. It is no instruction.
            # As in the micro-kernel, what is made of an operand alone, as halves of int8, serves a row or a column.
            of_a, *totals = state[: -key.nv]
            of_b = [hidden(value) for value in state[-key.nv :]]
            extended = []
            for i, total in enumerate(totals):
                of_a = of_a if i % key.nv else hidden(of_a)
                # A constant term would be added all at once.
                before = hidden(total) if operations.multiply == "pair" else total
                extended.append(operations.extend(code, builder, before, of_a, of_b[i % key.nv]))
            return [of_a, *extended, *of_b]

        of_a, of_b = (code.splat(builder, value) for value in (x, y))
        zeros = [code.constant(operations.zero)] * (key.mr * key.nv)
        _, *totals = v.loop(builder, iterations, [of_a, *zeros, *[of_b] * key.nv], step)[: -key.nv]
        total = functools.reduce(lambda c, t: operations.combine(code, builder, c, t), totals)
        return builder.extract_element(total, v.index(0))

    return tile


def _opaque(builder: Builder, vector: Any, value: Value) -> Value:
    constraint = f"={v.vector_register(builder)},0"
    return builder.asm(ir.FunctionType(vector, [vector]), "", constraint, [value], side_effect=False)
