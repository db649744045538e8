"""Steps of sequences on the current GPU, in the current stream, of any arrays; nothing is waited for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.repeat import launch_with_scratch
from backends.gpu._sequences.program import Layout, Multiply, StepsProgram
from harness.interface import Stepped
from harness.problem import Problem

_WORD = np.dtype(np.int64)


class GpuSteps:
    """What `Abilities.prepare_steps` returns.

    Parameters
    ----------
    problem, keeps, is_relative, is_traced
        As there.
    multiply : callable
        As of `StepsProgram`; the same object for the same backend, for which programs are kept.
    """

    def __init__(self, problem: Problem, keeps: str, multiply: Multiply, *, is_relative: bool, is_traced: bool) -> None:
        self._problem, self._keeps, self._multiply = problem, keeps, multiply
        self._is_relative, self._is_traced = is_relative, is_traced

    def __call__(
        self, initial: Any, transition: Any, emission: Any, lengths: np.ndarray, firsts: np.ndarray
    ) -> Stepped:
        """Compute all steps; arrays of the host are uploaded, and results come back."""
        if isinstance(emission, np.ndarray):
            is_one = transition.shape[1] == 0 or transition.strides[:2] == (0, 0)
            matrices = device.upload(transition[:1, :1] if is_one else transition)
            matrices = device.cupy().broadcast_to(matrices, transition.shape)
            found = self(device.upload(initial), matrices, device.upload(emission), lengths, firsts)
            return Stepped(*(None if x is None else x.get() for x in found))
        cupy, dtype = device.cupy(), self._problem.dtype
        (_, steps, states), count, zero = emission.shape, len(initial), self._problem.semiring.zero(dtype)
        is_one = transition.shape[1] == 0 or transition.strides[:2] == (0, 0)
        if is_one:  # of one step there is none, and a kernel reads one
            matrix = transition[0, 0] if transition.size else cupy.zeros((states, states), dtype)
            transition = cupy.ascontiguousarray(matrix)[None, None]
        transition, emission = _with_contiguous_lines(cupy, transition), _with_contiguous_lines(cupy, emission)
        arrays = {
            "initial": cupy.ascontiguousarray(initial), "transition": transition, "emission": emission,
            "lengths": cupy.asarray(lengths), "firsts": cupy.asarray(firsts),
            "out": cupy.full((count, steps if self._keeps else 1, states), zero, dtype),
            "last": cupy.full((count, states), zero, dtype), "offsets": cupy.zeros(count),
        }  # fmt: skip
        if self._is_traced:
            arrays["paths"] = cupy.full((count, steps), -1, np.int32)
        of_transition = (0, 0, transition.strides[2]) if is_one else transition.strides[:3]
        of_transition, of_emission = (
            tuple(x // dtype.itemsize for x in strides) for strides in (of_transition, emission.strides[:2])
        )
        group = max(count // max(len(emission), 1), 1)
        layout = Layout(count, steps, states, of_transition, of_emission, is_one, group)
        if count and steps and states:
            options = self._keeps, self._multiply, self._is_relative, self._is_traced
            spare = _programs(device.current_index(), self._problem.semiring, dtype, layout, *options)
            try:
                packed = spare.pop()
            except IndexError:  # several threads compute such steps at once, or none has yet
                packed = _packed(self._problem.semiring, dtype, layout, *options)
            try:
                launch_with_scratch(packed, [x.data.ptr for x in arrays.values()], device.current_stream())
            finally:
                spare.append(packed)
        out = arrays["out"] if self._keeps else None
        return Stepped(out, arrays["last"], arrays["offsets"], arrays.get("paths"))


@functools.lru_cache(maxsize=64)
def _programs(*_: Any) -> list[PackedProgram]:
    """Return the programs for a GPU and the arguments of `_packed` that no thread uses now."""
    return []


def _packed(
    semiring: Any, dtype: np.dtype[Any], layout: Layout, keeps: str, multiply: Multiply, is_relative: bool,
    is_traced: bool,
) -> PackedProgram:  # fmt: skip
    """Return the launches for a layout on the current GPU, ready."""
    problem = Problem(layout.count, layout.states, layout.states, semiring, dtype)
    most = device.device().shared_memory
    program = StepsProgram(problem, layout, keeps, most, multiply, is_relative=is_relative, is_traced=is_traced).program
    assert program is not None
    sizes = dict.fromkeys(("initial", "transition", "emission"), dtype.itemsize)
    sizes |= {"lengths": 8, "firsts": 8, "out": dtype.itemsize, "last": dtype.itemsize, "offsets": 8}
    return PackedProgram.of(program, {**sizes, "paths": 4} if is_traced else sizes)


def _with_contiguous_lines(cupy: Any, x: Any) -> Any:
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.itemsize else cupy.ascontiguousarray(x)
