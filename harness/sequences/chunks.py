"""A parallel scan over time: long sequences of few states, cut into chunks that are computed all at once.

    1  the matrix of a chunk: its steps from each state, all chunks and states at once       T S^2 more pairs, S times
    2  the states before each chunk, from chunk to chunk, in float64
    3  the steps of all chunks at once, each from the states before it
    4  paths are traced from the states of all steps, where they are asked for

So T steps one after the other become three times sqrt(T). One matrix serves all steps, and all sequences are T long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harness.api.gemm import gemm
from harness.interface import Backend, Stepped, Steps
from harness.problem import Problem
from harness.sequences.by_products import finite_tops
from harness.tuning.sequences import CHUNK_ROWS, CHUNK_STEPS

_WIDE = np.dtype(np.float64)


def pays(problem: Problem, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether sequences of an emission (B, T, S) are cut, by the strides of the matrices."""
    (count, steps, states), semiring = shape, problem.semiring
    is_of_logarithms = semiring.is_log_sum or (semiring.name == "max_plus" and problem.dtype.kind == "f")
    is_long = steps >= CHUNK_STEPS and count * states <= CHUNK_ROWS
    return is_of_logarithms and is_long and strides[:2] == (0, 0)


class InChunks:
    """What `Abilities.prepare_steps` returns, for logarithms on a GPU.

    Parameters
    ----------
    backend : Backend
        That has a kernel of all steps.
    problem, keeps, is_relative, is_traced
        As of `prepare_steps`.
    whole : Steps
        The same without chunks, for sequences of several lengths.
    """

    def __init__(
        self, backend: Backend, problem: Problem, whole: Steps, keeps: str, is_relative: bool, is_traced: bool
    ) -> None:
        self._problem, self._whole, self._is_traced = problem, whole, is_traced
        self._keeps, self._is_relative = ("after", True) if is_traced else (keeps, is_relative)
        wide = Problem(problem.m, problem.n, problem.k, problem.semiring, _WIDE)
        self._of_chunks = backend.prepare_steps(problem, self._keeps, is_relative=self._is_relative)
        self._of_matrices = backend.prepare_steps(problem)
        self._between = backend.prepare_steps(wide, "after")
        self._trace = backend.prepare_trace(problem) if is_traced else None

    def __call__(
        self, initial: Any, transition: Any, emission: Any, lengths: np.ndarray, firsts: np.ndarray
    ) -> Stepped:
        """Compute all steps."""
        (count, steps, states), xp = emission.shape, _module(emission)
        kernels = self._of_chunks, self._of_matrices, self._between
        if (lengths != steps).any() or None in kernels or (self._is_traced and self._trace is None):
            return self._whole(initial, transition, emission, lengths, firsts)
        size = math.isqrt(steps - 1)
        chunks = (steps - 1) // size
        end = 1 + chunks * size
        matrix = transition[0, 0]
        cut = xp.ascontiguousarray(emission[:, 1:end]).reshape(count * chunks, size, states)
        begin = initial.astype(_WIDE) + emission[:, 0]
        before = self._before(xp, begin, matrix, cut, count)
        tops = finite_tops(xp, before)
        starts = gemm((before - tops).astype(matrix.dtype).reshape(-1, states), matrix, semiring=self._problem.semiring)
        starts = starts.reshape(count, chunks + 1, states)
        of_chunks = self._run(starts[:, :chunks].reshape(-1, states), transition, cut)
        tail = self._run(starts[:, chunks], transition, emission[:, end:])
        if end == steps:  # nothing is left
            tail = tail._replace(last=(before - tops)[:, chunks].astype(matrix.dtype), offsets=xp.zeros(count))
        tail = tail._replace(offsets=tail.offsets + tops[:, chunks, 0])
        if not self._keeps:
            return tail
        first = initial if self._keeps == "before" else begin
        parts = [first[:, None], of_chunks.states.reshape(count, chunks, size, states), tail.states]
        taken = None
        if self._is_relative:
            parts[0] = parts[0] if self._keeps == "before" else parts[0] - tops[:, :1]
            taken = [tops[:, 0], of_chunks.taken.reshape(count, end - 1), tail.taken[:, : steps - end]]
            taken = xp.concatenate(taken, axis=1)
        else:
            parts[1] = parts[1] + tops[:, :chunks, None]
            parts[2] = parts[2] + tops[:, chunks, None]
        parts[1] = parts[1].reshape(count, chunks * size, states)
        whole = xp.concatenate([x.astype(emission.dtype) for x in parts], axis=1)
        if self._trace is not None:
            return tail._replace(states=None, paths=self._trace(whole, transition, lengths), taken=taken)
        return tail._replace(states=whole, taken=taken)

    def _before(self, xp: Any, begin: Any, matrix: Any, cut: Any, count: int) -> Any:
        """Return the states before each chunk, and after the last."""
        (many, size, states), semiring_one = cut.shape, xp.zeros((1, 1, 1), _WIDE)
        assert self._of_matrices is not None
        assert self._between is not None
        rows = xp.broadcast_to(matrix, (many, states, states)).reshape(-1, states)
        transition = xp.broadcast_to(matrix, (len(rows), max(size - 1, 0), states, states))
        stepped = self._of_matrices(rows, transition, cut, *_all_of(len(rows), size))
        matrices = (stepped.last.astype(_WIDE) + stepped.offsets[:, None]).reshape(count, -1, states, states)
        steps = matrices.shape[1] + 1
        nothing = xp.broadcast_to(semiring_one, (count, steps, states))
        return self._between(begin, matrices, nothing, *_all_of(count, steps)).states

    def _run(self, initial: Any, transition: Any, emission: Any) -> Stepped:
        many, size, states = emission.shape
        matrices = _module(emission).broadcast_to(transition[0, 0], (many, max(size - 1, 0), states, states))
        assert self._of_chunks is not None
        return self._of_chunks(initial, matrices, emission, *_all_of(many, size))


def _all_of(count: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths and firsts of sequences that are as long as their emission."""
    return np.full(count, steps, np.int64), np.zeros(count, np.int64)


def _module(x: Any) -> Any:
    """Return the library of an array of a GPU."""
    from harness.api.libraries.gpu import cupy

    return cupy()
