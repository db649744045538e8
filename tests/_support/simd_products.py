"""Products by generated kernels of a stated form, in memory that shows every byte that should not have been written."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._vector.unit import usable_units
from backends.cpu.simd import Simd
from harness import Operands, Problem, Semiring, machine
from harness.operands import poison
from harness.proof.verify import verify

BACKEND = Simd()
HERE = machine.detect()
BAND = 3  # elements around a matrix that must stay as they are
BAD_STRIDE = 16 << 10  # bytes; rows so far apart share cache sets


class Kernel(NamedTuple):
    """What a generated kernel is compiled for."""

    semiring: str
    dtype: str
    unit: str
    mr: int
    nv: int

    @property
    def nr(self) -> int:
        """Columns of the register tile."""
        return self.nv * self.lanes

    @property
    def lanes(self) -> int:
        """Elements of a vector; of bools, those of a vector of words."""
        size_bytes = {"avx512": 64, "avx2": 32}.get(self.unit, 16)
        return size_bytes * 8 if self.dtype == "bool" else size_bytes // np.dtype(self.dtype).itemsize

    def problem(self, m: int, n: int, k: int, **options: Any) -> Problem:
        """Return a product for this kernel."""
        return Problem(m, n, k, Semiring.of(*self.semiring.split("_")), np.dtype(self.dtype), **options)

    def plan(self, problem: Problem, threads: int = 1, **parameters: Any) -> Any:
        """Return a plan that takes this kernel, in blocks of two tiles and nine steps unless told otherwise."""
        blocks = {"mc": 2 * self.mr, "nc": 2 * self.nr, "kc": 9, "mr": self.mr, "nr": self.nr, "unit": self.unit}
        plan = BACKEND.plan(problem, HERE).override({**blocks, **parameters})
        return dataclasses.replace(plan, threads=threads)

    def __str__(self) -> str:
        return f"{self.unit}-{self.mr}x{self.nv}-{self.semiring}-{self.dtype}"


# Every unit with elements of 1, 2, 4 and 8 bytes, floats, signed and unsigned; default tiles, odd, high and wide ones.
PLUS_MIN = Kernel("plus_min", "float32", "portable", 1, 1)  # a NaN must come through min and through plus
_ALL_KERNELS = [
    Kernel("plus_times", "float64", "avx512", 8, 3),
    Kernel("max_min", "float32", "avx512", 3, 2),
    Kernel("min_plus", "int8", "avx512", 2, 2),
    Kernel("plus_times", "uint16", "avx512", 1, 6),
    Kernel("plus_times", "float32", "avx2", 6, 2),
    Kernel("min_plus", "float64", "avx2", 16, 1),
    Kernel("max_plus", "int64", "avx2", 2, 1),
    Kernel("min_max", "uint8", "avx2", 3, 1),
    Kernel("max_times", "int16", "avx2", 1, 2),
    Kernel("plus_times", "float64", "portable", 4, 2),
    Kernel("min_plus", "uint32", "portable", 2, 1),
    PLUS_MIN,
    Kernel("plus_first", "float32", "portable", 5, 1),
    Kernel("lor_land", "bool", "portable", 3, 1),
    Kernel("plus_times", "float32", "neon", 8, 3),
    Kernel("min_plus", "int16", "neon", 2, 2),
]
_USABLE = {unit.name for unit in usable_units()}
KERNELS = [kernel for kernel in _ALL_KERNELS if kernel.unit in _USABLE]
GUARDED = Kernel("max_min", "float32", KERNELS[0].unit, 3, 2)  # scans its operands, on the widest unit
ADDING = KERNELS[:3]  # those that are also added to a C; for the others that would be one more thing to compile
PACKS = tuple({"pack_a": a, "pack_b": b} for a, b in itertools.product(("auto", "always"), repeat=2))


# ---------------------------------------------------------------------------------------------------- layouts


def _around(shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    base = np.empty((shape[0] + 2 * BAND, shape[1] + 2 * BAND), dtype)
    return base, base[BAND:-BAND, BAND:-BAND]


def _tight(shape: tuple[int, int], dtype: np.dtype[Any], shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    size, begin = shape[0] * shape[1], 64 // dtype.itemsize + shift
    base = np.empty(size + 2 * begin, dtype)
    return base, base[begin : begin + size].reshape(shape)


def _far_apart(shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    base = np.empty((shape[0], max(BAD_STRIDE // dtype.itemsize, shape[1] + BAND)), dtype)
    return base, base[:, : shape[1]]


def _spread(shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    base = np.empty((2 * shape[0] + BAND, 3 * shape[1] + BAND), dtype)
    return base, base[1 : 2 * shape[0] : 2, 1 : 3 * shape[1] : 3]


LAYOUTS: dict[str, Any] = {
    "rows": _around,
    "tight rows": _tight,
    "rows from one element on": lambda shape, dtype: _tight(shape, dtype, 1),
    "columns": lambda shape, dtype: [x.T for x in _around(shape[::-1], dtype)],
    "tight columns": lambda shape, dtype: [x.T for x in _tight(shape[::-1], dtype)],
    "rows upside down": lambda shape, dtype: [x[::-1] for x in _around(shape, dtype)],
    "rows backwards": lambda shape, dtype: [x[:, ::-1] for x in _around(shape, dtype)],
    "columns upside down": lambda shape, dtype: [x.T[:, ::-1] for x in _around(shape[::-1], dtype)],
    "rows 16 KiB apart": _far_apart,
    "columns 16 KiB apart": lambda shape, dtype: [x.T for x in _far_apart(shape[::-1], dtype)],
    "neither": _spread,
}


def lay_out(x: np.ndarray, layout: str) -> np.ndarray:
    """Return a copy of `x` as `layout` says; "one row" and "one column" repeat the first, with a stride of zero."""
    if layout in ("one row", "one column"):
        return np.broadcast_to(x[:1].copy() if layout == "one row" else x[:, :1].copy(), x.shape)
    base, view = LAYOUTS[layout](x.shape, x.dtype)
    poison(base)
    view[...] = x
    return view


# --------------------------------------------------------------------------------------------------- products


def check(
    kernel: Kernel,
    sizes: tuple[int, int, int],
    layouts: tuple[str, str, str] = ("rows", "rows", "rows"),
    *,
    values: Any = None,
    **how: Any,
) -> np.ndarray:
    """Compute a product and prove it right: every element of D, no byte beside D, no byte of A and B.

    Parameters
    ----------
    kernel, sizes
    layouts : (str, str, str)
        Of A, B and the output.
    values : callable, optional
        ``values(operands)`` puts other values into A, B and C.
    how : threads, accumulate, and parameters of the plan
    """
    problem = kernel.problem(*sizes, accumulate=how.pop("accumulate", False))
    drawn = Operands.generate(problem, 11)
    if values:
        values(drawn)
    a, b = lay_out(drawn.a, layouts[0]), lay_out(drawn.b, layouts[1])
    base, out = LAYOUTS[layouts[2]](drawn.out.shape, problem.dtype)
    poison(base)
    before = base.tobytes(), a.tobytes(), b.tobytes()
    outside = out.copy()
    execution = BACKEND.prepare(kernel.plan(problem, **how), Operands(a, b, drawn.c, out))
    execution.run()
    result = execution.result().copy()
    untouched = Operands(np.array(a), np.array(b), drawn.c, out)
    verify(problem, untouched, result, seed=1)
    out[...] = outside
    assert base.tobytes() == before[0], f"{kernel}: bytes beside the output were written"
    assert (a.tobytes(), b.tobytes()) == before[1:], f"{kernel}: an operand was written"
    return result
