"""The launches of spread.cu and gather.cu: how wide they read, which sums they compute, and where matrices lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from backends._strassen.form import SevenOperands, StrassenForm, Sum
from backends._strassen.recursion import halved
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import WIDE, is_aligned
from backends.gpu._program.operators import semiring_defines
from backends.gpu._program.program import Kernel, Matrix, Place, Program, ceil_div
from harness.problem import Problem
from harness.tuning.device import MEASURED

_THREADS, _BLOCKS = 256, MEASURED.multiprocessors * 16  # quarters.cuh, and blocks enough for any GPU
SCANNERS = MEASURED.multiprocessors * 8  # blocks that look at the values of a matrix
_NOWHERE = np.uint64(0)


class Guard(NamedTuple):
    """Places and bounds by which the GPU decides whether sums are safe.

    Attributes
    ----------
    extremes : Place or a null pointer
        The least and the greatest element of A and of B; null: all values fit.
    largest : NumPy scalar
        Greatest magnitude that fits.
    """

    extremes: Place | np.uint64
    largest: Any

    @classmethod
    def none(cls, problem: Problem) -> Guard:
        """Return the guard that lets all values pass."""
        return cls(_NOWHERE, argument(problem, 0))


class Scaled(NamedTuple):
    """What `gather` does to the sums: alpha, and beta C."""

    alpha: Any = None
    beta: Any = None
    c: Matrix | None = None


def argument(problem: Problem, value: Any) -> Any:
    """Return a scalar of the dtype as a kernel takes it, a bool as a byte."""
    scalar = problem.dtype.type(0 if value is None else value)
    return np.uint8(scalar) if problem.dtype.kind == "b" else scalar


def quarters_in_place(problem: Problem, x: Matrix, size: tuple[int, int]) -> dict[str, Matrix]:
    """Return the quarters of `x`, of size rows x columns, that are matrices with aligned rows; none at odd sizes."""
    rows, columns = (extent // 2 for extent in size)
    if not _is_wide(problem, size, x):
        return {}

    def quarter(i: int, j: int) -> Matrix:
        offset = x.place.offset + i * rows * x.ld + j * columns
        return x._replace(place=x.place._replace(offset=offset))

    return {f"x{i + 1}{j + 1}": quarter(i, j) for i in range(2) for j in range(2)}


def add_spread(
    program: Program,
    problem: Problem,
    operands: SevenOperands,
    stored: Iterable[str],
    x: Matrix,
    size: tuple[int, int],
    parts: Matrix,
    shares: Place | None,
) -> None:
    """Add the launch that stores the operands `stored` of `x`, rows x columns, one after the other from `parts` on.

    At `shares` it stores the extremes of what each of `SCANNERS` blocks has read; None: it does not look.
    """
    names, is_wide = list(stored), _is_wide(problem, size, x)
    macros = {"SUMS": _statements(operands.sums), "STORED": ", ".join(names), "COUNT": len(names)}
    macros["SCANS"] = int(shares is not None)
    kernel = Kernel("spread", _defines(problem, macros, is_wide=is_wide), (_THREADS,), function="spread")
    blocks = _blocks(problem, size, is_wide=is_wide) if shares is None else SCANNERS
    to = _NOWHERE if shares is None else shares
    program.launch(kernel, blocks, x.place, x.ld, *size, parts.place, parts.ld, to)


def add_extremes(program: Program, problem: Problem, shares: Place, extremes: Place) -> None:
    """Add the launch that reduces the extremes of A and of B which `SCANNERS` blocks each have stored at `shares`."""
    defines = semiring_defines(problem.semiring, problem.dtype)
    program.launch(Kernel("extremes", defines, (_THREADS,), function="extremes_of_all"), 2, shares, SCANNERS, extremes)


def add_gather(
    program: Program,
    problem: Problem,
    form: StrassenForm,
    products: Matrix,
    whole: Matrix,
    out: Matrix,
    size: tuple[int, int],
    guard: Guard,
    scaled: Scaled,
) -> None:
    """Add the launch that computes `out` from seven products, which lie one after the other, or takes the whole one."""
    alpha, beta, c = scaled
    is_wide = _is_wide(problem, size, whole, out, *([c] if c else []))
    kernel = Kernel("gather", _gather_defines(problem, form, is_wide=is_wide), (_THREADS,), function="gather")
    old = c or out  # not read without C
    program.launch(
        kernel, _blocks(problem, size, is_wide=is_wide),
        products.place, products.ld, whole.place, whole.ld, *guard,
        int(alpha is not None), argument(problem, alpha),
        int(c is not None), int(beta is not None), argument(problem, beta), old.place, old.ld,
        out.place, out.ld, *size,
    )  # fmt: skip


def add_scale(
    program: Program,
    problem: Problem,
    form: StrassenForm,
    guard: Guard,
    a: Matrix,
    size: tuple[int, int],
    scaled: Matrix,
) -> None:
    """Add the launch that stores alpha A in `scaled` if values do not fit."""
    kernel = Kernel("gather", _gather_defines(problem, form, is_wide=False), (_THREADS,), function="scale_instead")
    elements, alpha = size[0] * size[1], argument(problem, problem.alpha)
    blocks = min(ceil_div(elements, _THREADS), _BLOCKS)
    program.launch(kernel, blocks, *guard, alpha, a.place, a.ld, *size, scaled.place, scaled.ld)


def _gather_defines(problem: Problem, form: StrassenForm, *, is_wide: bool) -> Defines:
    return _defines(problem, {"RESULT_SUMS": _statements(form.results)}, is_wide=is_wide)


def _defines(problem: Problem, macros: Mapping[str, Any], *, is_wide: bool) -> Defines:
    """Return the macros of quarters.cuh, and those of one file."""
    width = WIDE // problem.dtype.itemsize if is_wide else 1
    common = {"DIFFERENCE(x, y)": f"((T)({_inverse(problem)}))", "WIDTH": width}
    return semiring_defines(problem.semiring, problem.dtype) + as_defines({**common, **macros})


def _inverse(problem: Problem) -> str:
    """Return x (-) y, the inverse of (+), in C."""
    if problem.dtype.kind == "f":
        return "(x) - (y)"
    return "truth(x) ^ truth(y)" if problem.dtype.kind == "b" else "wrap_sub<T>(x, y)"


def _statements(sums: Iterable[Sum]) -> str:
    """Return the sums as statements of C."""
    operations = {"+": "ADD", "-": "DIFFERENCE"}
    return " ".join(f"const T {name} = {operations[sign]}({x}, {y});" for name, sign, x, y in sums)


def _is_wide(problem: Problem, size: tuple[int, int], *matrices: Matrix) -> bool:
    """Return whether rows of quarters of `matrices`, of this size, begin and end at multiples of 16 bytes."""
    itemsize, (rows, columns) = problem.dtype.itemsize, size
    halves_fit = rows % 2 == columns % 2 == 0 and columns // 2 * itemsize % WIDE == 0
    return halves_fit and all(is_aligned(x, itemsize) for x in matrices)


def _blocks(problem: Problem, size: tuple[int, int], *, is_wide: bool) -> int:
    """Return how many blocks pass over a quarter."""
    elements = halved(size[0], 1) * halved(size[1], 1)
    return min(ceil_div(elements, _THREADS * (WIDE // problem.dtype.itemsize if is_wide else 1)), _BLOCKS)
