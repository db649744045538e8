"""The steps of sequences as a program: the factors of the matrix, all steps by one launch, and the paths."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.operators import semiring_defines
from backends.gpu._program.program import Kernel, Place, Program, ceil_div
from backends.gpu._simt.log_sum_exp import scale
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.tuning.gpu.sequences import LEAST_COLUMNS, THREADS

_KEEPS = ("", "before", "after")  # by the numbers of sequences.cu
_POINTERS = {1: "unsigned char", 2: "unsigned short", 4: "int"}


class StepForm(enum.Enum):
    """The form of a step; the numbers are those of sequences.cu."""

    FACTORS = 0
    TERMS = 1
    BEST = 2
    ANY = 3


class Layout(NamedTuple):
    """What a program is made for, beside its problem: sizes, and distances in elements.

    Attributes
    ----------
    count, steps, states : int
    transition, emission : tuple of int
        Distances of sequences, steps and lines; of sequences and steps.
    is_one : bool
        Whether one matrix serves all steps.
    """

    count: int
    steps: int
    states: int
    transition: tuple[int, int, int]
    emission: tuple[int, int]
    is_one: bool


def pointer_bytes(states: int) -> int:
    """Return the bytes in which the number of a state is stored."""
    return 1 if states <= 1 << 8 else 2 if states <= 1 << 16 else 4


def steps_program(
    problem: Problem, layout: Layout, keeps: str, most_shared: int, *, is_relative: bool, is_traced: bool
) -> Program | None:
    """Return the launches, or None if a state vector does not fit into shared memory.

    The buffers are "initial", "transition", "emission", "lengths", "firsts", "out", "last", "offsets", and "paths" if
    they are traced.
    """
    form, dtype, program = _form(problem, layout, is_traced=is_traced), problem.dtype, Program()
    states, bytes_ = layout.states, pointer_bytes(layout.states)
    columns = min(max(LEAST_COLUMNS, 1 << max(states - 1, 0).bit_length()), THREADS)
    shared, is_staged = _shared_bytes(form, dtype, states, THREADS // columns, most_shared)
    if shared > most_shared:
        return None
    computed = SEMIRINGS["max_plus"] if problem.semiring.is_log_sum else problem.semiring
    is_of_logarithms = (computed.add.name, computed.multiply.name) == ("max", "plus")
    macros = {
        "THREADS": THREADS, "COLUMNS": columns, "STEP_FORM": form.value, "KEEPS": _KEEPS.index(keeps),
        "SETTLES": is_of_logarithms and dtype.kind == "f", "IS_RELATIVE": is_relative, "POINTER": _POINTERS[bytes_],
        "IS_STAGED": is_staged,
    }  # fmt: skip
    defines = semiring_defines(computed, dtype) + as_defines(macros)
    factors = tops = Place("transition")
    numbers: tuple[object, ...] = (0, dtype.type(0), dtype.type(0))
    if form is StepForm.FACTORS:
        numbers = scale(dtype, states)
        factors, tops = program.reserve("factors", states**2, dtype), program.reserve("columns", 2 * states, dtype)
        line = np.int64(layout.transition[2])
        _launch(program, defines, "factors", states, Place("transition"), line, states, factors, tops, *numbers)
    pointers = Place("out")
    if is_traced:
        elements = layout.count * max(layout.steps - 1, 1) * states
        pointers = program.reserve("pointers", elements * bytes_, np.dtype(np.uint8))
    _launch(
        program, defines, "sequence", layout.count, Place("initial"), Place("transition"),
        *map(np.int64, layout.transition), Place("emission"), *map(np.int64, layout.emission), Place("lengths"),
        Place("firsts"), layout.steps, states, Place("out"), Place("last"), Place("offsets"), pointers, factors, tops,
        *numbers, shared=shared,
    )  # fmt: skip
    if is_traced:
        blocks, sizes = ceil_div(layout.count, THREADS), (layout.count, layout.steps, states)
        _launch(program, defines, "trace", blocks, Place("last"), pointers, Place("lengths"), *sizes, Place("paths"))
    return program


def _form(problem: Problem, layout: Layout, *, is_traced: bool) -> StepForm:
    if problem.semiring.is_log_sum:
        return StepForm.FACTORS if layout.is_one else StepForm.TERMS
    return StepForm.BEST if is_traced else StepForm.ANY


def _shared_bytes(form: StepForm, dtype: np.dtype, states: int, groups: int, most: int) -> tuple[int, bool]:
    """Return the shared memory of a block, and whether the factors lie in it."""
    elements = (3 + groups) * states + 2 * (THREADS // 32)
    extra = {StepForm.TERMS: dtype.itemsize, StepForm.BEST: 4}.get(form, 0)
    shared = elements * dtype.itemsize + groups * states * extra
    with_factors = shared + states**2 * dtype.itemsize
    is_staged = form is StepForm.FACTORS and with_factors <= most
    return (with_factors if is_staged else shared), is_staged


def _launch(
    program: Program, defines: Defines, function: str, blocks: int, *arguments: object, shared: int = 0
) -> None:
    stem = "sequences" if function == "sequence" else function
    program.launch(Kernel(stem, defines, (THREADS,), shared, function), blocks, *arguments)
