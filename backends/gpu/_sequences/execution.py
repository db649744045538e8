"""Steps of sequences on the current GPU, in the current stream, of any arrays; nothing is waited for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Program
from backends.gpu._program.repeat import launch_with_scratch
from backends.gpu._sequences.program import Layout, Multiply, StepsProgram, trace_program
from harness.interface import Stepped
from harness.problem import Problem


class GpuSteps:
    """What `Abilities.prepare_steps` returns.

    Parameters
    ----------
    problem, keeps, is_relative
        As there.
    multiply : callable
        As of `StepsProgram`; the same object for the same backend, for which programs are kept.
    trace : callable or None
        What finds paths from states that are kept "after" each step, if they are to be found.
    """

    def __init__(
        self, problem: Problem, keeps: str, multiply: Multiply, *, is_relative: bool, trace: Any = None
    ) -> None:
        self._problem, self._keeps, self._multiply = problem, keeps, multiply
        self._is_relative, self._trace = is_relative, trace

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
        matrices, of_transition = _matrices(transition, dtype)
        emission = _with_contiguous_lines(emission)
        kept = count, steps if self._keeps else 1, states
        is_whole = bool((lengths == steps).all())  # else what lies beyond the ends is zero
        out = cupy.empty(kept, dtype) if is_whole else cupy.full(kept, zero, dtype)
        arrays = {
            "initial": cupy.ascontiguousarray(initial), "transition": matrices, "emission": emission,
            "lengths": cupy.asarray(lengths), "firsts": cupy.asarray(firsts),
            "out": out, "last": cupy.full((count, states), zero, dtype), "offsets": cupy.zeros(count),
            "taken": cupy.zeros((count, steps if self._is_relative else 1)),
        }  # fmt: skip
        of_emission = emission.strides[0] // dtype.itemsize, emission.strides[1] // dtype.itemsize
        group, is_one = max(count // max(len(emission), 1), 1), of_transition[:2] == (0, 0)
        layout = Layout(count, steps, states, of_transition, of_emission, is_one, group)
        options = self._keeps, self._multiply, self._is_relative
        _launch(_steps_program, (self._problem.semiring, dtype, layout, *options), arrays)
        paths = None if self._trace is None else self._trace(out, transition, lengths)
        is_given = self._keeps and self._trace is None
        taken = arrays["taken"] if self._is_relative else None
        return Stepped(out if is_given else None, arrays["last"], arrays["offsets"], paths, taken)


class GpuTrace:
    """What `Abilities.prepare_trace` returns.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def __call__(self, states: Any, transition: Any, lengths: np.ndarray) -> Any:
        """Return the paths."""
        cupy, dtype = device.cupy(), self._problem.dtype
        matrices, of_transition = _matrices(transition, dtype)
        is_one = of_transition[:2] == (0, 0)
        if is_one:  # what leads to a state lies together
            matrices, of_transition = _matrices(matrices.swapaxes(-1, -2), dtype)
        layout = Layout(*states.shape, of_transition, (0, 0), is_one)
        arrays = {
            "x": cupy.ascontiguousarray(states), "transition": matrices, "lengths": cupy.asarray(lengths),
            "paths": cupy.empty(states.shape[:2], np.int32),
        }  # fmt: skip
        _launch(_trace_program, (self._problem.semiring, dtype, layout), arrays)
        return arrays["paths"]


def _launch(make: Callable[..., Program], key: tuple[Any, ...], arrays: dict[str, Any]) -> None:
    """Launch the program ``make(*key)``, whose key has a layout, with arrays by the names of its buffers."""
    layout = next(x for x in key if isinstance(x, Layout))
    if not (layout.count and layout.steps and layout.states):
        return
    spare = _programs(device.current_index(), make, key)
    try:
        packed = spare.pop()
    except IndexError:  # several threads launch it at once, or none has yet
        packed = PackedProgram.of(make(*key), {name: x.itemsize for name, x in arrays.items()})
    try:
        launch_with_scratch(packed, [x.data.ptr for x in arrays.values()], device.current_stream())
    finally:
        spare.append(packed)


@functools.lru_cache(maxsize=64)
def _programs(*_: Any) -> list[PackedProgram]:
    """Return the programs for a GPU, what makes them and its arguments that no thread uses now."""
    return []


def _steps_program(
    semiring: Any, dtype: np.dtype[Any], layout: Layout, keeps: str, multiply: Multiply, is_relative: bool
) -> Program:
    problem, most = Problem(layout.count, layout.states, layout.states, semiring, dtype), device.device().shared_memory
    program = StepsProgram(problem, layout, keeps, most, multiply, is_relative=is_relative).program
    assert program is not None
    return program


def _trace_program(semiring: Any, dtype: np.dtype[Any], layout: Layout) -> Program:
    return trace_program(Problem(layout.count, layout.states, layout.states, semiring, dtype), layout)


def _matrices(transition: Any, dtype: np.dtype[Any]) -> tuple[Any, tuple[int, int, int]]:
    """Return matrices whose lines are contiguous, one alone if it serves all steps, and distances in elements."""
    cupy, states = device.cupy(), transition.shape[-1]
    if transition.shape[1] == 0 or transition.strides[:2] == (0, 0):
        # of one step there is none, and a kernel reads one
        matrix = transition[0, 0] if transition.size else cupy.zeros((states, states), dtype)
        matrix = cupy.ascontiguousarray(matrix)
        return matrix[None, None], (0, 0, matrix.strides[0] // dtype.itemsize)
    transition = _with_contiguous_lines(transition)
    a_sequence, a_step, a_line = (x // dtype.itemsize for x in transition.strides[:3])
    return transition, (a_sequence, a_step, a_line)


def _with_contiguous_lines(x: Any) -> Any:
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.itemsize else device.cupy().ascontiguousarray(x)
