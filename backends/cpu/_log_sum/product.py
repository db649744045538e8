"""logaddexp_plus as an ordinary product: the running maximum of rows and columns, and a real product of exponentials.

    C[i, j] = log sum_p exp(A[i, p] + B[p, j])
            = log (X Y)[i, j] + u[i] + v[j] - 2 h ln 2,     X[i, p] = 2^h exp(A[i, p] - u[i]),  u[i] = max_p A[i, p]
                                                            Y[p, j] = 2^h exp(B[p, j] - v[j]),  v[j] = max_p B[p, j]

This takes m k + k n exponentials and m n logarithms beside the m n k multiply-adds of ``X Y``. The definition takes
both for every pair. A maximum of -inf is replaced by 0, since -inf - (-inf) would be NaN.

Cancellation: u[i] and v[j] may be large and of opposite signs, and the logarithm far below their sum, while every term
is small. So u and v are maxima rounded to few digits, with which all sums before the last one are exact, and what
rounding takes from the differences is made good (`exp_log.Elementary`). Errors are relative to C and not to A or B.

Underflow: an exponential, or a product of two, below the smallest normal number s may be lost from X Y. The factor 2^h,
as large as k terms allow, makes that rarer. Two tests tell which elements can be trusted:

* Narrow row and narrow column: no finite term makes an element of X or Y smaller than sqrt(s). Then no
  product of two falls below s. A sum of 0 means that every term is -inf, so X Y is right whatever it is.
* Otherwise the k losses of at most ``4 s 2^h`` are below 4 roundings if ``X Y >= k s 2^h / eps``.

Elements that pass neither test, or are NaN, are *in doubt* unless u[i] + v[j] determines the result. They are computed
pairwise (`_log_sum.pairwise`), which is always right and slower by an exponential for every pair.

The logarithm of an exponential is rounded. So a row or column with a *single* term, all others being -inf, uses that
term unchanged: A (x) I is A, bit for bit.

Source: the log-sum-exp trick; Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax
functions" (2021), sections 2 and 3, for its rounding errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._compile.pieces import build_run_pieces
from backends.cpu._ir.functions import compile_functions
from backends.cpu._log_sum.lines import LINE_BYTES, ROWS, WORDS, Code
from backends.cpu._log_sum.logarithms import logarithms
from backends.cpu._log_sum.pairwise import copy_strip, pairwise
from backends.cpu._log_sum.scaling import Scale, scale_columns, scale_rows
from backends.cpu._vector import code as v
from harness.dtypes import dtype_name
from harness.operands import aligned_empty, data_address
from harness.semiring import Semiring

# product(x, y, out, accumulate): out := x y, or out + x y; all C-ordered, of one dtype.
Product = Callable[[np.ndarray, np.ndarray, np.ndarray, bool], None]

_OPERANDS, _IN_DOUBT = slice(WORDS.index("a"), WORDS.index("accumulate") + 1), WORDS.index("is_any_in_doubt")


class LogSumExp:
    """The kernel of logaddexp_plus around a kernel of plus_times.

    Parameters
    ----------
    semiring : Semiring
        logaddexp_plus.
    dtype : dtype
        float32 or float64.
    shape : (m, n, k)
        Of the products that it will compute.
    product : callable
        ``product(x, y, out, accumulate)``: out := x y, or out + x y, with x (m, k), y (k, n) and out (m, n) C-ordered
        arrays of `dtype`. It may take the sums in any order, but must not subtract: the error bound of Strassen's
        method holds for the largest element, not for each one.

    Notes
    -----
    Works in scratch that is allocated here: X, Y and X Y, as large as the operands together.
    """

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any], shape: tuple[int, int, int], product: Product) -> None:
        assert semiring.is_log_sum, semiring.name
        assert semiring.multiply.name == "plus", semiring.name
        (m, n, k), width = shape, LINE_BYTES // dtype.itemsize
        self._product, self._dtype = product, dtype
        self._blocks, self._strips = -(-m // ROWS), -(-n // width)
        self._x, self._y, self._sums = (aligned_empty(size, dtype) for size in ((m, k), (k, n), (m, n)))
        self._doubt = aligned_empty((self._strips, m), np.dtype(np.bool_))
        work = {
            "scale": np.array(Scale.of(dtype, k), dtype), "x": self._x, "y": self._y, "sums": self._sums,
            "row_shifts": aligned_empty((m,), dtype), "row_limits": aligned_empty((m,), dtype),
            "row_singles": np.empty(m, np.int64),
            "column_shifts": aligned_empty((n,), dtype), "column_limits": aligned_empty((n,), dtype),
            "singles": np.empty(n, np.int64), "single_terms": np.empty(n, np.int64),
            "counts": np.empty(self._strips, np.int64),
            "lines": aligned_empty((self._blocks, width), dtype), "doubt": self._doubt,
        }  # fmt: skip
        values = {"m": m, "n": n, "k": k} | {name: data_address(array) for name, array in work.items()}
        self._work, self._table = work, np.array([values.get(name, 0) for name in WORDS], np.int64)
        self._address, self._run = data_address(self._table), build_run_pieces()
        self._passes = compile_passes(dtype)
        self._operands: tuple[Any, Any, Any, bool] = None, None, None, False

    def __call__(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        """Compute ``out := a (x) b``, or ``out (+) a (x) b``, for m, n, k >= 1 and any strides."""
        table, run, before = self._address, self._run, self._operands
        if a is not before[0] or b is not before[1] or out is not before[2] or accumulate is not before[3]:
            self._bind(a, b, out, accumulate)
        self._table[_IN_DOUBT] = 0
        rows, columns, logs = self._passes
        run(rows, table, self._blocks)
        run(columns, table, self._strips)
        self._product(self._x, self._y, self._sums, False)
        run(logs, table, self._blocks)
        if self._table[_IN_DOUBT]:
            copies, pairs = compile_pairwise(self._dtype)  # which rarely run
            run(copies, table, self._strips)
            run(pairs, table, self._blocks)

    def _bind(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        """Write to the table where operands are, and refer to them: the next call may have the same."""
        self._table[_OPERANDS] = (
            data_address(a), *a.strides, data_address(b), *b.strides, data_address(out), *out.strides, accumulate,
        )  # fmt: skip
        self._operands = a, b, out, accumulate


@functools.cache
def compile_passes(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Compile the passes before and after the real product, and return their addresses: rows, columns, logarithms."""
    return _compile("log_sum_passes", dtype, scale_rows, scale_columns, logarithms)


@functools.cache
def compile_pairwise(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Compile the passes over lines in doubt, and return their addresses."""
    return _compile("log_sum_pairwise", dtype, copy_strip, pairwise)


def _compile(name: str, dtype: np.dtype[Any], *passes: Callable[..., None]) -> tuple[int, ...]:
    """Compile ``pass(table, piece)``, each of which is written by ``emit(code, table, piece)``."""

    def emit(module: ir.Module) -> list[ir.Function]:
        return [
            v.own_function(module, x.__name__, [v.SIZE] * 2, lambda b, *words, x=x: x(Code(b, dtype), *words))
            for x in passes
        ]

    return compile_functions(name, (dtype_name(dtype),), emit, unrolls=True)
