"""A closure on the host, ready to run: all stages as rows of tables of arguments, with few calls from Python.

Stages of one part are rows of one table, computed in order by one call. Those of several parts are a call each, by
threads that claim them. Addresses are offsets from that of the matrix, so further matrices change one number.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._compile.scratch import scratch
from backends.cpu._paths.block import build_run_in_order
from backends.cpu._paths.halves import Halves
from backends.cpu._simd.argument_table import Stage
from backends.cpu._simd.run_parts import OPERANDS, SCRATCH, build_run_parts
from backends.cpu._simd.value_scan import Look
from backends.cpu._threads.claims import new_claims
from backends.cpu._vector.operators import Guard, guard
from harness.elimination import find_cycle, find_nan, put_one
from harness.interface import Findings
from harness.operands import data_address
from harness.problem import Problem


class Tables:
    """The stages of one closure, and the addresses of what they work on: for one thread of Python at a time."""

    def __init__(self, halves: Halves, threads: int) -> None:
        self._addresses = np.zeros(len(OPERANDS) + 1, np.int64)
        self._scratch_bytes = max(halves.scratch_bytes * threads, 1)
        self._stages, self._threads, self._each = halves.stages, threads, halves.scratch_bytes
        groups = itertools.groupby(halves.stages, key=lambda stage: len(stage.parts) == 1)
        self._calls = [call for is_serial, stages in groups for call in self._calls_of(list(stages), is_serial)]

    def _calls_of(self, stages: list[Stage], is_serial: bool) -> list[Callable[[], Any]]:
        tables = [stage.rows(self._addresses) for stage in stages]
        if is_serial:
            return [functools.partial(build_run_in_order(), np.concatenate(tables))]
        run = build_run_parts()
        return [functools.partial(run, x, new_claims(len(x)), self._threads, self._each) for x in tables]

    def close(self, matrices: np.ndarray) -> None:
        """Close each of C-ordered (count, n, n) matrices."""
        memory = scratch(self._scratch_bytes)
        address, step = data_address(matrices), matrices.strides[0]
        self._addresses[SCRATCH] = memory.address
        for i in range(len(matrices)):
            self._addresses[: len(OPERANDS)] = address + i * step
            for call in self._calls:
                call()


class HostClosure:
    """Close matrices on the host, by any thread.

    Parameters
    ----------
    problem : Problem
        Of one matrix by itself.
    prepare : callable
        ``prepare(is_careful)`` returns the `Tables` with that form of (x).
    """

    def __init__(self, problem: Problem, prepare: Callable[[bool], Tables]) -> None:
        self._problem, self._prepare = problem, prepare
        self._spare: dict[bool, list[Tables]] = {False: [], True: []}  # those that no thread uses now

    def __call__(self, best: np.ndarray, before: Any) -> Findings:
        """Close C-ordered matrices in place."""
        n = self._problem.n
        semiring, matrices = self._problem.semiring, best.reshape(-1, n, n)
        nan = find_nan(matrices)
        put_one(matrices, semiring)
        spare = self._spare[self._needs_care(matrices)]
        try:
            tables = spare.pop()
        except IndexError:
            tables = self._prepare(spare is self._spare[True])
        try:
            tables.close(matrices)
        finally:
            spare.append(tables)
        return Findings(nan, False, find_cycle(matrices, semiring))

    def _needs_care(self, matrices: np.ndarray) -> bool:
        """Return whether a sum of paths may leave the dtype's range; others hold no NaN, or are refused."""
        semiring, dtype = self._problem.semiring, self._problem.dtype
        if guard(semiring, dtype) is not Guard.NO_EXTREME:
            return False
        look = Look(Guard.NO_EXTREME, semiring, dtype)
        low, high = look.extremes(matrices.reshape(-1, self._problem.n))
        only_improves = low >= 0 if semiring.add.name == "min" else high <= 0  # by edges, none of which betters the one
        return not (only_improves and look.allows((low, high), (low, high)))
