"""A product on the host with the number of the block of k that each element comes from, by any backend.

A later block replaces an earlier one only if it is strictly better, so the first of equal terms wins.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from harness import registry
from harness.interface import Backend, Prepared, make_plan, prepare
from harness.machine import Machine
from harness.operands import Operands, aligned_empty
from harness.problem import Problem
from harness.tuning import argk as tuning_argk

NO_BLOCK = -1

# The backend that numbers blocks for those that do not.
_NUMBERS = "cpu-simd"


class Numbered(NamedTuple):
    """A product that is ready to be computed: ``run()`` also writes the numbers of blocks of `steps` terms."""

    steps: int
    run: Callable[[], Any]


@functools.cache
def passes() -> Any:
    """Return the compiled passes over host arrays, which serve every backend: a part of the CPU family.

    Raises
    ------
    BackendUnavailable
        If they cannot be loaded, for which the family's first backend has the reason.
    """
    try:
        return importlib.import_module("backends.cpu._argk.passes")
    except Exception:
        registry.find(_NUMBERS)
        raise


def number_blocks(backend: Backend, problem: Problem, here: Machine, operands: Operands, block: np.ndarray) -> Numbered:
    """Return the product by `backend`, with numbers by itself, by another backend beside it, or tile by tile.

    Parameters
    ----------
    backend : Backend
    problem : Problem
    here : Machine
        With the threads of the call.
    operands : Operands
        Without a C.
    block : (m, n) array of int8
        Receives the number of each element's block, and -1 where the element is the semiring's zero.
    """
    return (
        _at_once(backend, problem, here, operands, block)
        or _beside(backend, problem, here, operands, block)
        or _by_tiles(backend, problem, here, operands, block)
    )


def prepare_part(backend: Backend, problem: Problem, here: Machine, operands: Operands) -> Prepared:
    """Have `backend` prepare a part of the product `problem`."""
    (m, n), k = operands.out.shape, len(operands.b)
    part = Problem(m, n, k, problem.semiring, problem.dtype)
    return prepare(backend, make_plan(backend, part, here), operands)


def _at_once(
    backend: Backend, problem: Problem, here: Machine, operands: Operands, block: np.ndarray
) -> Numbered | None:
    """Have the backend write the product and the numbers; None: it cannot."""
    steps, plan = tuning_argk.argk_steps(problem), make_plan(backend, problem, here)
    execution = backend.prepare_blocks(plan, operands, block, steps)
    return None if execution is None else Numbered(steps, Prepared(plan, operands, execution).run_once)


def _beside(
    backend: Backend, problem: Problem, here: Machine, operands: Operands, block: np.ndarray
) -> Numbered | None:
    """Have `_NUMBERS` write the numbers, beside the product of the backend asked for; None: it cannot."""
    beside = next((other for other in registry.able(problem, on_device=False) if other.name == _NUMBERS), backend)
    if beside is backend:
        return None
    apart = dataclasses.replace(operands, out=aligned_empty(operands.out.shape, operands.out.dtype))
    numbered = _at_once(beside, problem, here, apart, block)
    if numbered is None:
        return None
    product = prepare(backend, make_plan(backend, problem, here), operands)

    def run() -> None:
        numbered.run()
        product.run_once()

    return Numbered(numbered.steps, run)


def _by_tiles(backend: Backend, problem: Problem, here: Machine, operands: Operands, block: np.ndarray) -> Numbered:
    """Have any backend write the product and the numbers, tile by tile of C."""
    dtype, (a, b, product) = problem.dtype, (operands.a, operands.b, operands.out)
    height, width, steps = tuning_argk.argk_blocks(problem, here)
    merge = passes().build_merge(problem.semiring, dtype)
    panel, terms = np.zeros((problem.k, width), dtype), aligned_empty((height, width), dtype)
    tiles = [slice(i, min(i + height, problem.m)) for i in range(0, problem.m, height)]
    parts = [slice(begin, begin + steps) for begin in range(0, problem.k, steps)]
    prepared = [
        [
            prepare_part(backend, problem, here, Operands(a[rows, p], panel[p], None, terms[: rows.stop - rows.start]))
            for p in parts
        ]
        for rows in tiles
    ]

    def run() -> None:
        product.fill(problem.semiring.zero(dtype))
        block.fill(NO_BLOCK)
        for j in range(0, problem.n, width):
            columns = slice(j, min(j + width, problem.n))
            panel[:, : columns.stop - j] = b[:, columns]
            for rows, products in zip(tiles, prepared, strict=True):
                for q, part in enumerate(products):
                    part.upload()
                    merge(part.run_once(), product[rows, columns], block[rows, columns], q)

    return Numbered(steps, run)
