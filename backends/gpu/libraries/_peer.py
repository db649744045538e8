"""The common part of peers written by others: array views of buffers, and chunks of rows for broadcasts."""

from __future__ import annotations

import functools
import importlib.util
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._simt.operators import Form
from backends.gpu._simt.program import Matrix, Place, Program
from backends.gpu._simt.rung import Rung
from harness.plan import Plan
from harness.problem import Problem

# Terms that exist at once in a broadcast: 512 MiB of float64.
MOST_TERMS = 1 << 26


class Arrays(NamedTuple):
    """The operands of one product as arrays of CuPy: ``out := [out (+)] a (x) b``."""

    a: Any
    b: Any
    out: Any


class Peer(Rung):
    """A peer: a package, and a routine that is called for each product.

    Attributes
    ----------
    package : str
    """

    package: ClassVar[str]

    def missing(self) -> str | None:
        """Say whether there is a GPU, and the package."""
        reason = super().missing()
        if reason is None and not _is_installed(self.package):
            return f"package {self.package} is not installed"
        return reason

    def multiply(
        self, program: Program, plan: Plan, form: Form, a: Matrix, b: Matrix, out: Matrix, extremes: Place
    ) -> None:
        """Add the call; once, since values make no difference."""
        if form is Form.CAREFUL:
            return
        problem = plan.problem
        shapes = (problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)
        leading = a.ld, b.ld, out.ld

        def bind(*addresses: Any) -> Any:
            views = (_view(*x, problem.dtype) for x in zip(addresses, shapes, leading, strict=True))
            return self.bind(problem, Arrays(*views))

        program.call(bind, a.place, b.place, out.place)

    @abstractmethod
    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """Return what computes the product on the current stream, any number of times."""


@functools.cache
def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def chunks(problem: Problem) -> list[slice]:
    """Return parts of the rows of C whose terms exist at once."""
    rows = max(MOST_TERMS // (problem.k * problem.n), 1)
    return [slice(i, i + rows) for i in range(0, problem.m, rows)]


def _view(address: Any, shape: tuple[int, int], ld: int, dtype: np.dtype[Any]) -> Any:
    cupy = device.cupy()
    size = ((shape[0] - 1) * ld + shape[1]) * dtype.itemsize
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(int(address), size, owner=None), 0)
    return cupy.ndarray(shape, dtype, memory, strides=(ld * dtype.itemsize, dtype.itemsize))
