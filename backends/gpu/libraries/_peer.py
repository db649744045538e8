"""The common part of peers: array views of buffers, and chunks of rows for broadcasts."""

from __future__ import annotations

import functools
import importlib.util
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from backends.gpu._base.rung import Rung
from backends.gpu._cuda import device
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Matrix, Product, Program
from harness.dtypes import carrier
from harness.plan import Plan
from harness.problem import Problem

# Terms that exist at once in a broadcast: 512 MiB of float64.
MOST_TERMS = 1 << 26


class Peer(Rung):
    """A peer: a package, and a routine that is called for each product.

    Attributes
    ----------
    package : str
    """

    package: ClassVar[str]
    is_optional = True

    def missing(self) -> str | None:
        """Say whether there is a GPU, and the package."""
        reason = super().missing()
        if reason is None and not _is_installed(self.package):
            return f"package {self.package} is not installed"
        return reason

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the call; one form serves all values."""
        if product.form is Form.CAREFUL:
            return
        problem, (a, b, out, m, n, k, *_) = plan.problem, product

        def bind(*addresses: int) -> Callable[[], object]:
            of_operands = carrier(problem.input_dtype)
            shapes = ((m, k), a, of_operands), ((k, n), b, of_operands), ((m, n), out, problem.dtype)
            views = (_view(address, *x) for address, x in zip(addresses, shapes, strict=True))
            return self.bind(problem, *views)

        def load() -> Callable[..., object]:
            bound = functools.lru_cache(maxsize=1)(bind)  # repeated runs have the same addresses
            return lambda stream, *addresses: bound(*addresses)()

        program.call(load, a.place, b.place, out.place)

    @abstractmethod
    def bind(self, problem: Problem, a: Any, b: Any, out: Any) -> Callable[[], object]:
        """Return a function that computes ``out := [out (+)] a (x) b`` over arrays of CuPy, on the current stream."""


@functools.cache
def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def broadcast(package: Any, names: tuple[str, str, str], problem: Problem, a: Any, b: Any, out: Any) -> Any:
    """Return a function that computes the terms of some rows as one array and reduces it along k, chunk by chunk.

    Parameters
    ----------
    package : module
        Of the arrays `a`, `b` and `out`.
    names : (str, str, str)
        Its reduction of (+), its operations of (+) and of (x).
    problem : Problem
    a, b, out : array
    """
    reduce, add, multiply = (getattr(package, name) for name in names)
    zero, drops_nan = float(problem.semiring.zero(problem.dtype)), problem.semiring.add.is_selective
    rows = max(MOST_TERMS // (problem.k * problem.n), 1)
    parts = [slice(i, i + rows) for i in range(0, problem.m, rows)]

    def run() -> None:
        for part in parts:
            terms = multiply(a[part, :, None], b[None])
            if drops_nan:
                terms = package.where(package.isnan(terms), zero, terms)
            total = reduce(terms, 1)
            out[part] = add(out[part], total) if problem.accumulate else total

    return run


def _view(address: int, shape: tuple[int, int], matrix: Matrix, dtype: np.dtype[Any]) -> Any:
    cupy, (lines, elements) = device.cupy(), shape[::-1] if matrix.by_columns else shape
    size = ((lines - 1) * matrix.ld + elements) * dtype.itemsize
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, size, owner=None), 0)
    x = cupy.ndarray((lines, elements), dtype, memory, strides=(matrix.ld * dtype.itemsize, dtype.itemsize))
    return x.T if matrix.by_columns else x
