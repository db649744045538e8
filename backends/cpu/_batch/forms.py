"""The form in which a product or a batch is computed: as it is, or as another that the loops know.

bool             words of bits (`_simd.bits`)
logaddexp_plus   a real product of exponentials (`_log_sum.product`)
a triangle of A  one pass over it, by a vector (`_simd.symmetric`)
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from backends.cpu._batch.product import run_of_batch
from backends.cpu._log_sum.product import LogSumExp
from backends.cpu._simd.argument_table import Run
from backends.cpu._simd.bits import prepare_bits
from backends.cpu._simd.product import prepare_generated, prepare_symmetric, run_of_one
from backends.cpu._simd.settings import Settings
from backends.cpu._vector.operators import operations
from harness.dtypes import is_bool
from harness.problem import Problem
from harness.semiring import SEMIRINGS, Semiring


def prepare_form(
    problem: Problem, settings: Settings, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool
) -> Run:
    """Return ``out := [out (+)] a (x) b``, ready to run, for m, n, k >= 1."""
    if problem.semiring.is_log_sum:
        return _prepare_log_sum(problem, settings, a, b, out, accumulate)
    if problem.triangle in ("a", "h"):
        is_hermitian = problem.triangle == "h"
        return prepare_symmetric(problem.semiring, settings, a, b, out, accumulate, is_hermitian=is_hermitian)
    if is_bool(problem.dtype):
        return prepare_bits(problem.semiring, settings, a, b, out, accumulate)
    core = run_of_batch if problem.batch else run_of_one
    return prepare_generated(problem.semiring, settings, a, b, out, accumulate, None, problem.triangle, core)


def _prepare_log_sum(
    problem: Problem, settings: Settings, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool
) -> Run:
    """Return the same for logaddexp_plus; of a batch one product after the other, all in the scratch of the first."""
    ordinary = computed(problem.semiring)
    prepare: Callable[..., Run] = functools.partial(prepare_generated, ordinary, settings)
    if problem.batch:
        prepare = functools.partial(run_of_batch, settings, operations(ordinary, problem.dtype))
    made: list[Run] = []

    def product(x: np.ndarray, y: np.ndarray, sums: np.ndarray, adds: bool) -> None:
        if not made:
            made.append(prepare(x, y, sums, adds))
        made[0]()

    log_sum = LogSumExp(problem.semiring, problem.dtype, (problem.m, problem.n, problem.k), product)
    if not problem.batch:
        return lambda: log_sum(a, b, out, accumulate)

    def run() -> None:
        for index in np.ndindex(problem.batch):
            log_sum(a[index], b[index], out[index], accumulate)

    return run


def computed(semiring: Semiring) -> Semiring:
    """Return the semiring whose kernel computes the product: plus_times for logaddexp_plus, else `semiring`."""
    return SEMIRINGS["plus_times"] if semiring is SEMIRINGS["logaddexp_plus"] else semiring
