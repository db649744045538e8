"""The steps of sequences as a program: the factors of the matrix, then all steps by one launch. And one of their paths.

Of many sequences and states, whose matrix no multiprocessor holds, a step is a product of all sequences by a backend's
own kernels, and a pass over what it made, in the same form.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.operators import semiring_defines
from backends.gpu._program.program import Kernel, Matrix, Place, Program
from backends.gpu._simt.log_sum_exp import scale
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.tuning.gpu.sequences import (
    CROWD,
    HELD_BYTES,
    HELD_THREADS,
    LEAST_COLUMNS,
    LEAST_DEPTH,
    PRODUCT_COUNT,
    PRODUCT_STATES,
    SHARED_ELEMENTS,
    THREADS,
    THREADS_OF_CROWD,
)
from harness.tuning.sequences import CHUNK_ROWS, CHUNK_STEPS

# Returns the program of a product, of its problem and the matrices a, b and out.
Multiply = Callable[..., Program]

_KEEPS = ("", "before", "after")  # by the numbers of sequences.cu
_LANES = 32
_EACH, _SIDES = 4, 16  # columns of a thread; what sides of a matrix are a multiple of, so that few kernels are compiled


class StepForm(enum.Enum):
    """The form of a step; the numbers are those of sequences.cu."""

    FACTORS = 0
    TERMS = 1
    ANY = 2


class Layout(NamedTuple):
    """What a program is made for, beside its problem: sizes, and distances in elements.

    Attributes
    ----------
    count, steps, states : int
    transition, emission : tuple of int
        Distances of sequences, steps and lines; of sequences and steps.
    is_one : bool
        Whether one matrix serves all steps.
    group : int
        Sequences, one after the other, that have one emission.
    """

    count: int
    steps: int
    states: int
    transition: tuple[int, int, int]
    emission: tuple[int, int]
    is_one: bool
    group: int = 1


class _Held(NamedTuple):
    """How a block keeps a matrix: HELD, ROWS and SIDE of sequences.cu."""

    threads: int = 0
    side: int = 0
    rows: int = 0
    held: int = 0

    @classmethod
    def of(cls, states: int, dtype: np.dtype[Any]) -> _Held | None:
        """Return it for square matrices; None if a row has more columns than all threads."""
        side = -(-states // _SIDES) * _SIDES
        threads = min(max(_LANES, 1 << (side - 1).bit_length()), HELD_THREADS)
        groups = threads // (side // _EACH)
        if not groups:
            return None
        rows = -(-side // (groups * _EACH)) * _EACH
        return cls(threads, side, rows, min(rows, HELD_BYTES // (_EACH * dtype.itemsize)))

    def shared_bytes(self, dtype: np.dtype[Any]) -> int:
        """Return the shared memory of a block."""
        groups = self.threads // (self.side // _EACH)
        rest = (self.rows - self.held) * self.threads * _EACH
        return ((3 + groups) * groups * self.rows + rest + _work(self.threads)) * dtype.itemsize


class StepsProgram:
    """The launches, in `program`: None if a state vector does not fit into shared memory.

    The buffers are "initial", "transition", "emission", "lengths", "firsts", "out", "last", "offsets" and "taken".

    Parameters
    ----------
    problem : Problem
        The product of all states by one matrix.
    layout : Layout
    keeps, is_relative
        As of `Abilities.prepare_steps`.
    most_shared : int
        Bytes of shared memory of a block.
    multiply : callable
        Returns the program of a product, of its problem and the matrices a, b and out. All of a batch is one program.
    """

    def __init__(
        self, problem: Problem, layout: Layout, keeps: str, most_shared: int, multiply: Multiply, *, is_relative: bool
    ) -> None:
        self._problem, self._layout, self._multiply = problem, layout, multiply
        self._form, self._program = _form(problem, layout), Program()
        semiring = problem.semiring
        self._is_of_logarithms = semiring.is_log_sum or (semiring.add.name, semiring.multiply.name) == ("max", "plus")
        self._is_of_products = (
            layout.is_one and layout.count >= PRODUCT_COUNT and layout.states >= PRODUCT_STATES
        )  # fmt: skip
        self._shares = _shares(layout) if self._is_of_products else 1
        self._set_sizes(most_shared)
        self.program = self._program if self._shared <= most_shared else None
        if self.program is not None:
            self._set_defines(keeps, is_relative=is_relative)
            self._add()

    def _set_sizes(self, most_shared: int) -> None:
        states, dtype = self._layout.states, self._problem.dtype
        self._columns = min(max(LEAST_COLUMNS, 1 << max(states - 1, 0).bit_length()), THREADS)
        is_crowded = self._layout.count >= CROWD and not self._is_of_products
        self._threads = max(min(THREADS, THREADS_OF_CROWD), self._columns) if is_crowded else THREADS
        if self._is_of_products:
            self._columns, elements = THREADS, states
        else:
            groups = self._threads // self._columns
            elements = (3 + groups * (2 if self._form is StepForm.TERMS else 1)) * states
        self._shared = (elements + _work(self._threads)) * dtype.itemsize
        held = _Held.of(states, dtype)
        can_hold = self._layout.is_one and not self._is_of_products and self._is_of_logarithms
        self._held = held if can_hold and held is not None and held.shared_bytes(dtype) <= most_shared else None
        if self._held is not None:
            self._threads, self._shared = self._held.threads, self._held.shared_bytes(dtype)

    def _set_defines(self, keeps: str, *, is_relative: bool) -> None:
        semiring, dtype = self._problem.semiring, self._problem.dtype
        computed = SEMIRINGS["max_plus"] if semiring.is_log_sum else semiring
        held = self._held or _Held()
        macros = {
            "THREADS": self._threads, "COLUMNS": self._columns, "STEP_FORM": self._form.value,
            "KEEPS": _KEEPS.index(keeps),
            "SETTLES": self._is_of_logarithms and dtype.kind == "f", "IS_RELATIVE": is_relative,
            "OF_PRODUCT": self._is_of_products, "SHARES": self._shares,
            "HELD": held.held, "SIDE": held.side, "ROWS": held.rows,
        }  # fmt: skip
        self._defines = semiring_defines(computed, dtype) + as_defines(macros)

    def _add(self) -> None:
        layout, dtype, program = self._layout, self._problem.dtype, self._program
        states, factors, tops = layout.states, Place("transition"), Place("transition")
        numbers: tuple[object, ...] = (0, dtype.type(0), dtype.type(0))
        if self._form is StepForm.FACTORS:
            numbers = scale(dtype, states)
            factors, tops = program.reserve("factors", states**2, dtype), program.reserve("columns", 2 * states, dtype)
            line = np.int64(layout.transition[2])
            self._launch("factors", states, Place("transition"), line, states, factors, tops, *numbers)
        arguments = (
            Place("initial"), Place("transition"), *map(np.int64, layout.transition), Place("emission"),
            *map(np.int64, layout.emission), layout.group, Place("lengths"), Place("firsts"), layout.steps, states,
            Place("out"), Place("last"), Place("offsets"), Place("taken"), factors, tops, *numbers,
        )  # fmt: skip
        if self._is_of_products:
            self._add_products(arguments, factors)
        else:
            self._launch("sequence", layout.count, *arguments, 0, layout.steps, *[Place("last")] * 3)

    def _add_products(self, arguments: tuple[object, ...], factors: Place) -> None:
        """Add a product of all sequences and a pass over them for each step."""
        program, dtype, (count, steps, states) = self._program, self._problem.dtype, self._layout[:3]
        is_log, shares, depth = self._form is StepForm.FACTORS, self._shares, states // self._shares
        alignment = _alignment(math.gcd(states, depth), dtype)
        sums = program.reserve("step_sums", shares * count * states, dtype)
        weights = program.reserve("weights", count * states, dtype) if is_log else Place("last")
        wide = program.reserve("wide", count, np.dtype(np.int32))
        line = states if is_log else self._layout.transition[2]
        b = Matrix(factors, line, alignment) if is_log else Matrix(Place("transition"), line, dtype.itemsize)
        problem = Problem(
            count, states, depth, SEMIRINGS["plus_times"] if is_log else self._problem.semiring, dtype,
            batch=(shares,) if shares > 1 else (),
        )  # fmt: skip
        product = self._multiply(
            problem, Matrix(weights, states, alignment, next=(0, depth)), b._replace(next=(0, depth * line)),
            Matrix(sums, states, alignment, next=(0, count * states)),
        )  # fmt: skip
        program.share(product)
        for t in range(steps):
            if t:
                program.steps += product.steps
            self._launch("sequence", count, *arguments, t, t + 1, sums, weights, wide)

    def _launch(self, function: str, blocks: int, *arguments: object) -> None:
        stem, shared = ("sequences", self._shared) if function == "sequence" else (function, 0)
        is_chained = function == "sequence" and self._is_of_products
        kernel = Kernel(stem, self._defines, (self._threads,), shared, function, is_chained=is_chained)
        self._program.launch(kernel, blocks, *arguments)


def _work(threads: int) -> int:
    """Return WORK of sequences.cu, in elements."""
    return max(2 * (threads // _LANES), 4)


def _shares(layout: Layout) -> int:
    """Return in how many shares of k a step's product is made, which the pass after it adds up: to fill a GPU."""
    count, states = layout.count, layout.states
    most = min(SHARED_ELEMENTS // (count * states), states // LEAST_DEPTH)
    return next((x for x in range(most, 1, -1) if states % (4 * x) == 0), 1)


def _alignment(states: int, dtype: np.dtype[Any]) -> int:
    return 16 if states * dtype.itemsize % 16 == 0 else dtype.itemsize


def _form(problem: Problem, layout: Layout) -> StepForm:
    if problem.semiring.is_log_sum:
        return StepForm.FACTORS if layout.is_one else StepForm.TERMS
    return StepForm.ANY


def trace_program(problem: Problem, layout: Layout) -> Program:
    """Return the launches that find the "paths" of sequences whose states "x" after each step were kept.

    Further buffers are "transition" and "lengths"; a matrix that serves all steps is transposed. Few long sequences of
    few states are traced in chunks, all at once.
    """
    (count, steps, states), program = layout[:3], Program()
    size = math.isqrt(steps) if steps >= CHUNK_STEPS and count * states <= CHUNK_ROWS else steps
    chunks = -(-steps // size)
    ends = program.reserve("maps", count * chunks * states, np.dtype(np.int32)) if chunks > 1 else Place("paths")
    line = layout.transition[2]
    along = (1, line) if layout.is_one else (line, 1)  # from one p to the next, and from state to state
    arguments = (
        Place("x"), Place("transition"), *map(np.int64, layout.transition[:2]), *map(np.int64, along), Place("lengths"),
        steps, states, size, chunks, ends, Place("paths"),
    )  # fmt: skip
    defines = semiring_defines(problem.semiring, problem.dtype)
    if chunks > 1:
        program.launch(Kernel("trace", defines, (_LANES,), 0, "maps"), count * chunks * states, *arguments)
    program.launch(Kernel("trace", defines, (_LANES,), 0, "trace"), count * chunks, *arguments)
    return program
