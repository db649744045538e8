"""A product by the generated kernels of operands of any strides, in the fast or the careful form, by their values.

The loops need an output with contiguous rows. An output with contiguous columns becomes that of the transposed product,
``C^T = B^T (x)' A^T``; so does that of few rows of A by a B with contiguous columns, which is then read where it lies.
An output without contiguous rows is computed in an array of its own and copied. A batch is one product here: all of it
is transposed, or none, and one look at its values decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._simd.argument_table import Run, Shape, prepare_product
from backends.cpu._simd.self_product import SelfProduct, is_self_product
from backends.cpu._simd.settings import Settings
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard, Operations, guard, operations
from harness.operands import data_address, lower_triangle
from harness.semiring import BINARY_OPS, Semiring
from harness.tuning import simd as tuning_simd

# The (x) with swapped operands, where it does not commute: x (x)' y = y (x) x.
_SWAPPED = {"first": "second", "second": "first"}


# core(settings, ops, a, b, out, accumulate, block, triangle): prepares a form of a product; rows of out are contiguous.
Core = Callable[[Settings, Operations, np.ndarray, np.ndarray, np.ndarray, bool, np.ndarray | None, str], Run]


def run_of_one(
    settings: Settings, ops: Operations, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool,
    block: np.ndarray | None = None, triangle: str = "",
) -> Run:  # fmt: skip
    """Return the run of one product by the loops of its nest; of a matrix by its own transpose, by half of them."""
    shape = Shape.of(a, b, out)
    loops = settings.loops(ops, out.dtype, shape, triangle)
    is_plain = not accumulate and not triangle and block is None
    if is_plain and data_address(a) == data_address(b) and is_self_product(shape, loops.key.operations):
        run = functools.partial(SelfProduct(loops, shape).run, data_address(a), data_address(out))
        run.operands = a, out  # type: ignore[attr-defined] # it knows them by address alone
        return run
    return prepare_product(loops, a, b, out, accumulate, block)


def prepare_generated(
    semiring: Semiring,
    settings: Settings,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    accumulate: bool,
    block: np.ndarray | None = None,
    triangle: str = "",
    core: Core = run_of_one,
) -> Run:
    """Return ``run()``, which computes ``out := [out (+)] a (x) b``, for m, n, k >= 1.

    Parameters
    ----------
    semiring : Semiring
        One that `operations` knows over the dtype.
    settings : Settings
    a, b, out : (..., m, k), (..., k, n) and (..., m, n) array
        Of one dtype, any strides, with the same leading dimensions.
    accumulate : bool
    block : (..., m, n) array of int8, optional
        Takes the numbers of blocks of k, if the settings track them; then rows of both are contiguous.
    triangle : str
        As in `harness.Problem`, empty or ``"d"``.
    core : callable
        That of a batch, if there are leading dimensions.
    """
    dtype = out.dtype
    if not triangle:
        semiring, settings, a, b, out, block = as_suits_layout(semiring, settings, a, b, out, block)
    target = out if has_contiguous_rows(out) else np.empty(out.shape, dtype)
    ops, condition = operations(semiring, dtype), guard(semiring, dtype)
    assert ops is not None

    def prepare(ops: Operations) -> Run:
        return core(settings, ops, a, b, target, accumulate, block, triangle)

    careful = functools.partial(prepare, ops._replace(is_careful=True))
    if condition is Guard.NONE:
        run = prepare(ops)
    elif block is None and out.ndim == 2 and settings.streams(Shape.of(a, b, target), dtype):
        run = careful()  # a scan takes as long; and memory bounds an update, so that one form of it does
    else:
        holds = Look(condition, semiring, dtype).on(a, b)
        run = careful() if holds is None else guarded(holds, prepare(ops), careful)
    return through(target, out, accumulate, run, triangle)


def prepare_symmetric(
    semiring: Semiring, settings: Settings, a: np.ndarray, x: np.ndarray, out: np.ndarray, accumulate: bool,
    *, is_hermitian: bool = False,
) -> Run:  # fmt: skip
    """Return ``run()`` for a symmetric A, whose triangle is taken by rows or by columns, and a vector x."""
    dtype, ops = out.dtype, operations(semiring, out.dtype)
    assert ops is not None
    ops = ops._replace(is_careful=guard(semiring, dtype) is not Guard.NONE)  # a scan takes as long as the product
    is_upper = not has_contiguous_rows(a) and has_contiguous_rows(a.T)
    stored = a.T if is_upper else a
    if is_hermitian:  # an element of the stored triangle is conjugated in one of its two uses
        settings = settings.changed(conjugates="a" if is_upper else "b")
    rows = stored if has_contiguous_rows(stored) else np.empty(a.shape, dtype)
    vector, target = (z if _is_contiguous(z) else np.empty(z.shape, dtype) for z in (x, out))
    loops = settings.loops(ops, dtype, Shape.of(rows, vector, target), "a", is_upper=is_upper)
    product = prepare_product(loops, rows, vector, target, accumulate)
    copies = [(to, of) for to, of in ((rows, stored), (vector, x)) if to is not of]

    def run() -> None:
        for to, of in copies:
            to[...] = of
        product()

    return through(target, out, accumulate, run if copies else product)


def _is_contiguous(x: np.ndarray) -> bool:
    """Return whether the elements of a column of one element a row lie side by side."""
    return x.strides[0] == x.itemsize or x.shape[0] == 1


def has_contiguous_rows(x: np.ndarray) -> bool:
    """Return whether the elements of a row lie side by side."""
    return x.strides[-1] == x.itemsize or x.shape[-1] == 1


def as_suits_layout(
    semiring: Semiring, settings: Settings, a: np.ndarray, b: np.ndarray, out: np.ndarray, block: np.ndarray | None
) -> tuple[Semiring, Settings, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return a product, or its transpose where that suits the layouts better: of two matrices, or of a batch of them.

    `block`, which is written as `out` is, becomes that of the transpose too.
    """
    if _is_better_transposed(a, b, out) or (block is None and _turns(a, b, out)):
        semiring, settings, a, b, out = with_swapped_operands(semiring), settings.transposed(), b.mT, a.mT, out.mT
        block = None if block is None else block.mT
    assert block is None or has_contiguous_rows(block)  # else numbers would be written beside it
    return semiring, settings, a, b, out, block


def _is_better_transposed(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Return whether the transposed product suits the layout of the output or, if that is a vector, of the matrix."""
    (m, n), k = out.shape[-2:], a.shape[-1]
    if n == 1 and k == 1 and has_contiguous_rows(a.mT):
        return True  # a vector by a number: one row of the transposed A, in place of rows of one element
    decisive = a if n == 1 else b if m == 1 else out
    return not has_contiguous_rows(decisive) and has_contiguous_rows(decisive.mT)


def _turns(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Return whether the transposed product pays though its output has to be copied: B is then read where it lies."""
    if out.ndim > 2 or not (has_contiguous_rows(a) and has_contiguous_rows(out)) or has_contiguous_rows(b):
        return False
    return has_contiguous_rows(b.mT) and tuning_simd.turns_product(*out.shape, a.shape[1])


def guarded(holds: Callable[[], bool], fast: Run, prepare_careful: Callable[[], Run]) -> Run:
    """Return a product that is computed by `fast` where ``holds()``, elsewhere by what `prepare_careful` returns.

    That is prepared when it is first needed: its kernel takes as long to compile as the fast one, and rarely runs.
    """
    careful = functools.cache(prepare_careful)

    def run() -> None:
        (fast if holds() else careful())()

    return run


def through(target: np.ndarray, out: np.ndarray, accumulate: bool, compute: Run, triangle: str = "") -> Run:
    """Return `compute`, which works on `target`, followed by the copy to `out` if that is another array."""
    if target is out:
        return compute
    counts: Any = lower_triangle(out.shape[0]) if triangle == "d" else True

    def run() -> None:
        if accumulate:
            target[...] = out
        compute()
        np.copyto(out, target, where=counts)

    return run


def with_swapped_operands(semiring: Semiring) -> Semiring:
    """Return the semiring of the transposed product."""
    multiply = semiring.multiply
    return Semiring(semiring.add, BINARY_OPS[_SWAPPED.get(multiply.name, multiply.name)], semiring.name)
