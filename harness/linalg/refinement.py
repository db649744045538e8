"""Linear systems by iterative refinement: factors of low precision, residuals of high precision.

    L U := P A                    in float32, or with products of bfloat16          2/3 n^3 operations, fast ones
    X := 0
    repeat:  R := B - A X         in float64                                        2 n^2 r
             X := X + (L U)^-1 P R                                                  2 n^2 r, in float32

Each step multiplies the error by about the condition of A times the rounding error of the factors. So the result is as
accurate as that of float64 alone if that is below one, and otherwise the iteration stops, which is an error here: about
1e7 for float32, and 100 for bfloat16.

Sources: Nath, Tomov and Dongarra, "Accelerating GPU kernels for dense linear algebra" (VECPAR 2010), section 3. When to
stop: LAPACK's dsgesv; Higham, "Accuracy and Stability of Numerical Algorithms" (2002), chapter 12.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.api.arrays import Arrays
from harness.api.libraries.views import any_library
from harness.dtypes import named_dtype
from harness.errors import ConvergenceError, ProblemError
from harness.linalg.arguments import (
    check_count,
    check_finite,
    check_option,
    check_rows,
    check_square,
    converted,
    read_matrices,
)
from harness.linalg.elimination import LU
from harness.linalg.products import Products
from harness.scalars import as_value

# The dtype of the factors, and that of the operands of the products that make them.
FACTORS = {"float64": ("float64", None), "float32": ("float32", None), "bfloat16": ("float32", "bfloat16")}

# Columns of a panel of LU, on the host and on a GPU, where each panel is waited for.
BLOCK, BLOCK_ON_DEVICE = 64, 256

# A step that does not reduce the residual by this factor is the last one.
SLOWEST = 0.5


class Refined(NamedTuple):
    """A solution and how it was reached.

    Attributes
    ----------
    x : (n, r) or (n,) array of float64
    residuals : list of float
        The scaled residual ``|B - A X| / (|A| |X| + |B|)``, in the maximum norm, of the worst column; first of the
        solution by the factors alone, then after each step.
    factor_dtype : str
    """

    x: Any
    residuals: list[float]
    factor_dtype: str


@any_library("a", "b")
def refine(
    a: Any,
    b: Any,
    *,
    factor_dtype: str = "float32",
    tolerance: float | None = None,
    most_steps: int = 30,
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
) -> Refined:
    """Solve ``A X = B`` to the accuracy of float64 with factors of lower precision.

    Parameters
    ----------
    a : (n, n) array of float64 or float32
    b : (n, r) or (n,) array of float64 or float32
    factor_dtype : str
        ``"float32"``; ``"bfloat16"``: float32 with products of operands rounded to bfloat16 (the extra ``mixed``); or
        ``"float64"``, which hardly needs a step.
    tolerance : float, optional
        Of the scaled residual: steps end when it is reached. None: they end at the rounding error of float64, or when
        they help no more, and sqrt(n) times that error is enough, as LAPACK's dsgesv has it.
    most_steps : int
    block : int, optional
        Columns of a panel of LU, and rows of a diagonal block of the triangles. None: 64 on the host, 256 on a GPU.
    backend, threads
        Of the products, as in `harness.gemm`. It must take all of them: float64, and float32 or mixed ones.

    Returns
    -------
    Refined
        ``(x, residuals, factor_dtype)``; x lies where A does.

    Raises
    ------
    ProblemError
        If shapes, dtypes or options do not fit, a or b holds NaN or infinity, or A is singular in the dtype of the
        factors.
    ConvergenceError
        If the residual does not reach the tolerance: A is too ill-conditioned for such factors.
    BackendUnavailable
        As in `harness.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> refine(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([3.0, 4.0])).x
    array([1., 1.])
    """
    arrays, _, inputs = read_matrices("refine", {"a": a, "b": b}, vectors="b")
    check_square("refine", inputs["a"])
    check_rows("refine", inputs["b"], inputs["a"].shape[0])
    check_option("refine", "factor_dtype", factor_dtype, FACTORS)
    check_count("refine", "most_steps", most_steps, least=0)
    default = BLOCK_ON_DEVICE if arrays.on_device else BLOCK
    width = check_count("refine", "block", default if block is None else block)
    least = None if tolerance is None else as_value(tolerance, np.dtype(float))
    if tolerance is not None and (least is None or not 0 < least < 1):
        raise ProblemError("refine: tolerance is no small number", expected="0 < tolerance < 1", got=repr(tolerance))
    check_finite("refine", inputs, arrays)
    a, b = converted(arrays, inputs, np.float64).values()
    if b.ndim > 2:
        raise ProblemError("refine: b is not one matrix", expected="shape (n, r) or (n,)", got=f"shape {b.shape}")
    system = _System(arrays, a, b[:, None] if b.ndim == 1 else b, backend, threads)
    rounding = float(np.finfo(np.float64).eps)
    target, bound = (rounding, max(a.shape[0], 1) ** 0.5 * rounding) if least is None else (least, least)
    with system.products:
        x, residuals = system.iterate(system.factors(factor_dtype, width), target, most_steps)
    if not residuals[-1] <= bound:
        raise ConvergenceError(
            f"refine: the residual does not reach the tolerance with factors of {factor_dtype}",
            expected=f"a scaled residual of at most {bound:.1e}, and half of it or less after each step",
            got=f"{' then '.join(f'{x:.1e}' for x in residuals[-3:])} after {len(residuals) - 1} steps",
            fix="factor_dtype='float64'" if factor_dtype != "float64" else "a larger tolerance" * (residuals[-1] < 1),
        )
    return Refined(x[:, 0] if b.ndim == 1 else x, residuals, factor_dtype)


class _System:
    """A system A X = B in float64."""

    def __init__(self, arrays: Arrays, a: Any, b: Any, backend: str, threads: int | None) -> None:
        self._arrays, self._a, self._b, self._backend, self._threads = arrays, a, b, backend, threads
        self.products = Products("refine", arrays, np.dtype(np.float64), backend, threads)

    def factors(self, name: str, block: int) -> LU:
        """Return the factors of A in the dtypes of that name in `FACTORS`."""
        dtype, operand = FACTORS[name]
        narrow = None if operand is None else named_dtype(operand)
        low = self._a.astype(dtype, order="C")
        check_finite("refine", {f"a in {dtype}": low}, self._arrays, "factor_dtype='float64'")
        products, updates = (
            Products("refine", self._arrays, np.dtype(dtype), self._backend, self._threads, operand_dtype=x)
            for x in (None, narrow)
        )
        return LU(low, products, updates, block=block)

    def iterate(self, factors: LU, target: float, most_steps: int) -> tuple[Any, list[float]]:
        """Return X and the residuals up to its own, within the target unless steps ended or stopped to help."""
        norm = self._norm_of_rows(self._a)
        x = self._correction(factors, self._b)
        residual, error = self._residual(x, norm)
        residuals = [error]
        while error > target and len(residuals) <= most_steps:
            better = x + self._correction(factors, residual)
            residual, error = self._residual(better, norm)
            if not error < residuals[-1]:
                break
            x = better
            residuals.append(error)
            if error > SLOWEST * residuals[-2]:
                break
        return x, residuals

    def _correction(self, factors: LU, residual: Any) -> Any:
        """Return the solution for a right-hand side, each column scaled so that it fits the dtype of the factors."""
        module = self._arrays.module
        scale = self._largest(residual)
        scale = module.where(scale > 0, scale, 1.0)
        return factors.solve(residual / scale).astype(np.float64) * scale

    def _residual(self, x: Any, norm: Any) -> tuple[Any, float]:
        """Return B - A X, and its scaled norm in the worst column."""
        module = self._arrays.module
        residual = self._b.copy()
        self.products.subtract(self._a, x, residual)
        largest = self._largest(x)
        unit = module.where(largest > 1, largest, 1.0)  # in which the size is finite even if norm times x is not
        size = norm * (largest / unit) + self._largest(self._b) / unit
        scaled = self._largest(residual) / unit / module.where(size > 0, size, 1.0)
        return residual, float(scaled.max()) if scaled.size else 0.0

    def _largest(self, x: Any) -> Any:
        """Return the largest absolute value of each column; 0 of none."""
        return self._arrays.module.abs(x).max(axis=0) if x.shape[0] else self._arrays.module.zeros(x.shape[1])

    def _norm_of_rows(self, a: Any) -> Any:
        return self._arrays.module.abs(a).sum(axis=1).max() if a.size else 0.0
