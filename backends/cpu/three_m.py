"""The 3m method: three real products in place of four, around any other backend.

    re(D) = re(A) re(B) - im(A) im(B)
    im(D) = (re(A) + im(A)) (re(B) + im(B)) - re(A) re(B) - im(A) im(B)

The base reads real and imaginary parts where they lie. The sums are two matrices, the products three, all real. The
error is bounded by norms, not element by element: an imaginary part that is small beside the real one loses digits, as
differences of large numbers do. So ``backend="auto"`` never takes it. Operands that are no finite numbers, and sums
that overflow, are left to the base, which then makes the whole product.

Source: Higham, "Stability of a Method for Multiplying Complex Matrices with Three Real Matrix Multiplications" (1992);
Van Zee and Smith, "Implementing High-performance Complex Matrix Multiplication via the 3m and 4m Methods" (2017).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.composite import Composite
from harness.dtypes import parts_dtype
from harness.interface import Execution, HostExecution, Prepared
from harness.machine import Machine
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.static_order import AUTO_FIRST

# Roundings of a sum of k terms, of the sums of parts, of the two differences and of alpha.
EXTRA_ROUNDINGS = 8


class ThreeProducts(Composite):
    """Three real products, and sums."""

    name = "cpu-three-m"
    step = 58
    idea = "a complex product by three real ones in place of four, and by sums of real and imaginary parts"
    source = "Higham (1992); Van Zee and Smith (2017), section 3.3"
    takes = frozenset({"complex"})

    def declines(self, problem: Problem) -> str | None:
        """Decline all but complex numbers over plus_times."""
        if not problem.is_complex:
            return "it multiplies complex numbers: there is nothing to save over others"
        return (
            None
            if problem.semiring.is_named and problem.semiring.is_ordinary
            else "it multiplies sums: plus_times only"
        )

    def loosens(self, problem: Problem) -> bool:
        """Return True for what it takes."""
        return problem.is_complex

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base of the real products."""
        return Plan(problem, machine.threads, None, {"base": self.choose_base(_real(problem), AUTO_FIRST)})

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return ``3 |alpha| gamma_(k+8) max_i |A[i]|_2 max_j |B[:, j]|_2``, twice that with an alpha.

        By Cauchy and Schwarz the absolute terms of the third product sum to 2 |A[i]|_2 |B[:, j]|_2 at most, and those
        of the other two together to half of it.
        """
        problem = plan.problem
        info = np.finfo(problem.dtype)
        relative = (problem.k + EXTRA_ROUNDINGS) * float(info.eps) / 2
        if relative >= 0.5:
            return float("inf")
        alpha = 1.0 if problem.alpha is None else 2 * float(abs(problem.alpha))
        with np.errstate(over="ignore", invalid="ignore"):
            norms = _largest_norm(operands.a) * _largest_norm(operands.b.T)
            bound = alpha * (3 * relative / (1 - relative) * norms + 4 * (problem.k + 4) * float(info.smallest_normal))
        return bound if np.isfinite(bound) else float("inf")

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Allocate sums and products, and have the base prepare four products: three real ones and the whole."""
        whole = self.prepare_part(plan, plan.problem, operands)
        if plan.problem.pairs == 0:
            return whole.execution
        real = _real(plan.problem)
        a, b = operands.a, operands.b
        pairs = (a.real, b.real), (a.imag, b.imag), (_room(a, real.dtype), _room(b, real.dtype))
        products = [Operands(x, y, None, aligned_empty(operands.out.shape, real.dtype)) for x, y in pairs]
        parts = [self.prepare_part(plan, real, product) for product in products]
        return ThreeExecution(plan.problem, operands, whole, products, parts)


class ThreeExecution(HostExecution):
    """A product by three real ones.

    Parameters
    ----------
    problem : Problem
    operands : Operands
    whole : Prepared
        The complex product by the base alone.
    products : list of Operands
        Of re(A) by re(B), of im(A) by im(B), and of the sums.
    parts : list of Prepared
        The three products by the base.
    """

    def __init__(
        self, problem: Problem, operands: Operands, whole: Prepared, products: list[Operands], parts: list[Prepared]
    ) -> None:
        super().__init__(operands)
        self._problem, self._whole, self._products, self._parts = problem, whole, products, parts
        is_direct = problem.alpha is None and not problem.accumulate
        self._result = operands.out if is_direct else np.empty(operands.out.shape, problem.dtype)

    def run(self) -> None:
        """Compute once into `operands.out`."""
        with np.errstate(all="ignore"):
            if self._multiply():
                self._finish()
            else:
                self._whole.run_once()

    def _multiply(self) -> bool:
        """Compute the three products; return whether all that they are made of, and they themselves, are finite."""
        sums = self._products[2]
        for x, total in ((self.operands.a, sums.a), (self.operands.b, sums.b)):
            np.add(x.real, x.imag, out=total)
            if not np.isfinite(total).all():
                return False
        for part in self._parts:
            part.run_once()
        return all(np.isfinite(product.out).all() for product in self._products)

    def _finish(self) -> None:
        """Write D, from the products, alpha and C."""
        problem, result, out = self._problem, self._result, self.operands.out
        of_real, of_imaginary, of_sums = (product.out for product in self._products)
        np.subtract(of_real, of_imaginary, out=result.real)
        np.subtract(of_sums, of_real, out=of_sums)
        np.subtract(of_sums, of_imaginary, out=result.imag)
        if problem.alpha is not None:
            np.multiply(result, problem.alpha, out=result)
        if self.operands.c is not None:
            c = self.operands.c if problem.beta is None else self.operands.c * problem.beta
            np.add(result, c, out=result)
        if result is not out:
            np.copyto(out, result)


def _real(problem: Problem) -> Problem:
    """Return the real products."""
    return dataclasses.replace(
        problem,
        dtype=parts_dtype(problem.dtype),
        operand_dtype=None,
        alpha=None,
        beta=None,
        accumulate=False,
        layout="AAC",
    )


def _room(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an array for the sums of the parts of `x`, by columns if it is."""
    by_columns = x.flags.f_contiguous and not x.flags.c_contiguous
    return aligned_empty(x.shape[::-1], dtype).T if by_columns else aligned_empty(x.shape, dtype)


def _largest_norm(x: np.ndarray) -> float:
    """Return the largest 2-norm of a row of finite numbers."""
    squares = sum(np.einsum("ip,ip->i", part, part, dtype=np.float64) for part in (x.real, x.imag))
    return float(np.sqrt(np.max(squares, initial=0.0)))
