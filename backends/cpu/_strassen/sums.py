"""The sums around the seven products of Strassen's algorithm, each in one pass at memory speed.

A pass reads every quarter once and writes all sums of it, as `backends._strassen.form` lists them. Halves are rounded
up: rows and columns missing at an odd edge are read as zero, and those beyond C are not stored. So edges are handled
here, and all products have one shape.

Source: dynamic padding as in Huss-Lederman et al., "Implementation of Strassen's Algorithm for Matrix Multiplication"
(1996), which compares the ways to treat odd sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import prange, types

from backends._strassen.form import QUARTERS, RESULTS, SevenOperands, StrassenForm, Sum
from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, scalar, scratch, strided
from backends.cpu._ladder.operators import operators
from backends.cpu._vector.inlined import inlined
from harness import scalars
from harness.dtypes import parts_dtype
from harness.semiring import ScalarFunction, Semiring


def _minus(x: Any, y: Any) -> Any:
    return x - y


def _differ(x: Any, y: Any) -> Any:
    return x != y


# (+) and its inverse operation, by the name of the semiring. A sum modulo 2 is its own inverse.
RINGS: dict[str, tuple[ScalarFunction, ScalarFunction]] = {
    "plus_times": (scalars.plus, _minus),
    "lxor_land": (_differ, _differ),
}


@functools.cache
def build_spreads(semiring: Semiring, dtype: np.dtype[Any], form: StrassenForm) -> tuple[Any, Any]:
    """Compile ``spread(x, parts)`` twice: for the seven left operands and for the seven right ones.

    Of any x: a (m, k) and parts (7, m/2, k/2), or b (k, n) and parts (7, k/2, n/2), both rounded up.
    """
    return _build_spread(semiring, dtype, form.left), _build_spread(semiring, dtype, form.right)


def _function(semiring: Semiring, given: Iterable[str], sums: Iterable[Sum], returned: Iterable[str]) -> Any:
    """Compile the function that computes `sums` of what it is given, in their order, and returns some of them."""
    operations = {"+": "plus", "-": "minus"}
    lines = [f"def sums({', '.join(given)}):"]
    lines += [f"    {each.name} = {operations[each.sign]}({each.x}, {each.y})" for each in sums]
    lines += [f"    return {', '.join(returned)}"]
    plus, minus = map(inlined, RINGS[semiring.name])
    names: dict[str, Any] = {"plus": plus, "minus": minus, "__name__": __name__}
    exec(compile("\n".join(lines), __file__, "exec"), names)  # noqa: S102 as this file: it is a part of the kernel
    return inlined(names["sums"])


@kernel_builder
def _build_spread(semiring: Semiring, dtype: np.dtype[Any], operands: SevenOperands) -> Any:
    zero, seven = dtype.type(0), _function(semiring, QUARTERS, operands.sums, operands.names)

    @inlined
    def put(parts: np.ndarray, i: int, j: int, values: tuple[Any, ...]) -> None:
        parts[0, i, j], parts[1, i, j], parts[2, i, j], parts[3, i, j] = values[0], values[1], values[2], values[3]
        parts[4, i, j], parts[5, i, j], parts[6, i, j] = values[4], values[5], values[6]

    @jit(None, strided(dtype), scratch(dtype, 3))
    def spread(x: np.ndarray, parts: np.ndarray) -> None:
        _, rows, columns = parts.shape
        whole_rows, whole_columns = x.shape[0] - rows, x.shape[1] - columns
        for i in prange(rows):
            whole = whole_columns if i < whole_rows else 0
            for j in range(whole):
                put(parts, i, j, seven(x[i, j], x[i, j + columns], x[i + rows, j], x[i + rows, j + columns]))
            for j in range(whole, columns):
                right = x[i, j + columns] if j < whole_columns else zero
                below = x[i + rows, j] if i < whole_rows else zero
                put(parts, i, j, seven(x[i, j], right, below, zero))

    return spread


@kernel_builder
def build_gather(semiring: Semiring, dtype: np.dtype[Any], form: StrassenForm) -> Any:
    """Compile ``gather(products, out)``: the quarters of out (m, n) from the products (7, m/2, n/2), rounded up."""
    results = _function(semiring, [f"p{number}" for number in range(1, 8)], form.results, RESULTS)

    @inlined
    def four(p: np.ndarray, i: int, j: int) -> tuple[Any, ...]:
        return results(p[0, i, j], p[1, i, j], p[2, i, j], p[3, i, j], p[4, i, j], p[5, i, j], p[6, i, j])

    @jit(None, scratch(dtype, 3), output(dtype))
    def gather(products: np.ndarray, out: np.ndarray) -> None:
        _, rows, columns = products.shape
        whole_rows, whole_columns = out.shape[0] - rows, out.shape[1] - columns
        for i in prange(rows):
            whole = whole_columns if i < whole_rows else 0
            for j in range(whole):
                c11, c12, c21, c22 = four(products, i, j)
                out[i, j], out[i, j + columns] = c11, c12
                out[i + rows, j], out[i + rows, j + columns] = c21, c22
            for j in range(whole, columns):
                c11, c12, c21, _ = four(products, i, j)
                out[i, j] = c11
                if j < whole_columns:
                    out[i, j + columns] = c12
                if i < whole_rows:
                    out[i + rows, j] = c21

    return gather


@kernel_builder
def build_finish(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``out := (alpha (x) out) (+) (beta (x) c)``, each of alpha, c and beta only where its flag is set."""
    add, multiply, _ = operators(semiring, dtype)
    flag, factor = types.boolean, scalar(dtype)

    @jit(None, flag, factor, flag, flag, factor, strided(dtype), output(dtype), parallel=False)
    def finish(
        has_alpha: bool, alpha: Any, has_c: bool, has_beta: bool, beta: Any, c: np.ndarray, out: np.ndarray
    ) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                value = multiply(alpha, out[i, j]) if has_alpha else out[i, j]
                if has_c:
                    value = add(value, multiply(beta, c[i, j]) if has_beta else c[i, j])
                out[i, j] = value

    return finish


@kernel_builder
def build_flag_rows(dtype: np.dtype[Any]) -> Any:
    """Compile ``flag_rows(x, largest, flags)``: flags (rows of x,) where a row holds a NaN or ``|x| > largest``.

    Of complex numbers each part is compared.
    """

    @jit(None, strided(dtype), scalar(parts_dtype(dtype)), scratch(np.dtype(np.bool_), 1))
    def flag_rows(x: np.ndarray, largest: Any, flags: np.ndarray) -> None:
        for i in prange(x.shape[0]):
            outside = 0
            for j in range(x.shape[1]):
                one = x[i, j]
                outside += not (abs(one.real) <= largest and abs(one.imag) <= largest)
            flags[i] = outside > 0

    return flag_rows
