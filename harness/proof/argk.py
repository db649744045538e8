"""Prove what a backend says about where elements come from: the k of each, or its block of k, and nothing beside them.

D and these numbers are written in the midst of other memory, which must stay as it is, or beside memory that may not be
touched.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.errors import VerificationError
from harness.interface import Backend, Execution, Prepared, make_plan
from harness.machine import Machine
from harness.operands import CACHE_LINE, Operands, poison
from harness.plan import Plan
from harness.proof import fences, reference
from harness.proof.contract_cases import ContractCase

_AROUND = 4 * CACHE_LINE  # elements before and after an array: more than a row of any case
_K, _BLOCK = np.dtype(np.int32), np.dtype(np.int8)


def run_argk_case(backend: Backend, case: ContractCase, here: Machine) -> None:
    """Have `backend` compute one case with the k of each element, and with its block of k, as far as it can.

    Raises
    ------
    VerificationError
        If D, a k or a block is wrong, or other memory was written.
    """
    drawn, problem = case.operands(), case.problem
    product, k = np.empty(drawn.out.shape, problem.dtype), np.empty(drawn.out.shape, _K)
    for index in np.ndindex(problem.batch):
        one = drawn.at(index)
        product[index] = reference.product(problem.of_one(), one.a, one.b)
        k[index] = reference.argk(problem.of_one(), one.a, one.b)
    plan = make_plan(backend, problem, here)
    _check(plan, drawn, (product, k), "k", functools.partial(backend.prepare_argk, plan), case.side)
    if not problem.batch:
        steps = CACHE_LINE // problem.dtype.itemsize
        by_blocks = functools.partial(backend.prepare_blocks, plan, steps=steps)
        _check(plan, drawn, (product, (k // steps).astype(_BLOCK)), f"block of {steps}", by_blocks, case.side)


def _check(
    plan: Plan,
    drawn: Operands,
    right: tuple[np.ndarray, np.ndarray],
    what: str,
    prepare: Callable[..., Execution | None],
    side: fences.Side | None,
) -> None:
    """Compute twice into poisoned arrays by what ``prepare(operands, numbers)`` returns; nothing if that is None."""
    if side:
        out, numbers = (fences.fenced(np.zeros_like(x), side, name) for name, x in zip(("D", what), right, strict=True))
        room_of_out, room_of_numbers = out[:0], numbers[:0]
    else:
        (out, room_of_out), (numbers, room_of_numbers) = (_in_the_midst(x.shape, x.dtype) for x in right)
    operands = dataclasses.replace(drawn, out=out)
    execution = prepare(operands, numbers)
    for _ in range(2 if execution is not None else 0):
        assert execution is not None
        for room in (out, numbers, room_of_out, room_of_numbers):
            poison(room)
        before = _ends(room_of_out), _ends(room_of_numbers)
        Prepared(plan, operands, execution).run_once()
        for name, array, expected in zip(("D", what), (out, numbers), right, strict=True):
            if not np.array_equal(array, expected):
                place = tuple(np.argwhere(array != expected)[0].tolist())
                raise VerificationError(
                    f"{name} of element {place} is wrong", expected=str(expected[place]), got=str(array[place])
                )
        if before != (_ends(room_of_out), _ends(room_of_numbers)):
            raise VerificationError(f"memory beside D, or beside the {what} of its elements, was written")


def _ends(room: np.ndarray) -> tuple[bytes, bytes]:
    return room[:_AROUND].tobytes(), room[-_AROUND:].tobytes()


def _in_the_midst(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return a C-ordered array, and the array of one dimension that it lies in the midst of."""
    room = np.empty(math.prod(shape) + 2 * _AROUND, dtype)
    return room[_AROUND:-_AROUND].reshape(shape), room
