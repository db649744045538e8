"""cuBLAS for triangles: symv, where A is symmetric, and syrkx or syrk, where D is a triangle.

    triangle of A, n = 1    cublasSsymv, Dsymv
    triangle of D           cublasSsyrkx, Dsyrkx; cublasSsyrk, Dsyrk if B is A transposed, in the same memory

Matrices of cuBLAS lie by columns: its upper triangle is the lower one here. syrkx takes both operands with k along
their rows, so B is stored by columns: a B that lies otherwise is copied when the product is prepared.

Source: cuBLAS, level 2 and level 3 functions.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._base.rung import Rung
from backends.gpu._cuda.launches import Given, Routine
from backends.gpu._program.execution import GpuExecution
from backends.gpu._program.operands import GpuOperands
from backends.gpu._program.program import Product, Program
from backends.gpu.libraries._cublas import bind, missing
from harness.dtypes import dtype_name
from harness.interface import Execution
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

# cublas_api.h
_UPPER, _TRANSPOSED = 1, 1
_LETTERS = {"float32": "S", "float64": "D"}


class CublasTriangle(Rung):
    """The vendor's routines for triangles, TF32 off."""

    name = "gpu-cublas-triangle"
    step = 69  # below gpu-tuned and gpu-tensor-core, which are as fast or faster
    idea = "the vendor's routines for triangles, symv and syrk: what the rungs below are measured against"
    source = "NVIDIA cuBLAS, cublasSsymv, cublasSsyrk, cublasSsyrkx and those of float64"
    project = "cuBLAS"
    takes = frozenset({"device arrays", "triangle"})

    def missing(self) -> str | None:
        """Say whether there is a GPU, and cuBLAS."""
        return super().missing() or missing()

    def declines(self, problem: Problem) -> str | None:
        """Decline all but triangles of plus_times over float32 and float64."""
        if not problem.triangle or (problem.triangle == "a" and problem.n != 1):
            return "it computes triangles of D, and symmetric matrices times vectors"
        if not problem.semiring.is_ordinary or dtype_name(problem.dtype) not in _LETTERS:
            return "cuBLAS computes triangles of plus_times over float32 and float64"
        return None

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Upload the operands, B by columns if D is a triangle."""
        is_update = plan.problem.triangle == "d"
        if is_update:
            operands = dataclasses.replace(operands, b=operands.b.T)
        placed = GpuOperands(operands, is_triangle=is_update)
        matrices = {name: placed.matrix(name) for name in placed.buffers}
        a, b = (placed.buffers[name] for name in "ab")
        if is_update and a.data.ptr == b.data.ptr and matrices["a"].ld == matrices["b"].ld:
            matrices["b"] = matrices["a"]
        return _Once(self.program(plan, *matrices.values()), placed)

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the call."""
        problem, (a, b, out, m, _, k, *_) = plan.problem, product
        letter = _LETTERS[dtype_name(problem.dtype)]
        if problem.triangle == "a":
            name, sizes, operands = f"cublas{letter}symv_v2", (_UPPER, m), (a, b)
        elif a.place == b.place:
            name, sizes, operands = f"cublas{letter}syrk_v2", (_UPPER, _TRANSPOSED, m, k), (a,)
        else:
            name, sizes, operands = f"cublas{letter}syrkx", (_UPPER, _TRANSPOSED, m, k), (b, a)
        call = _Call(name, sizes, tuple(x.ld for x in operands), out.ld, problem.dtype, problem.accumulate)
        program.call(call.load, *(x.place for x in operands), out.place)


class _Call(NamedTuple):
    """One call of cuBLAS: ``out := product of the operands [+ out]``.

    Attributes
    ----------
    name : str
    sizes : tuple of int
        Modes and sizes, which come first.
    lds : tuple of int
        Distances of rows, or of the elements of a vector, of the operands.
    ld : int
        Of the output.
    dtype : numpy dtype
    accumulate : bool
    """

    name: str
    sizes: tuple[int, ...]
    lds: tuple[int, ...]
    ld: int
    dtype: np.dtype[Any]
    accumulate: bool

    def load(self) -> Routine:
        """Return the routine, which takes the addresses of the operands and of the output."""
        alpha, beta = (np.array([x], self.dtype) for x in (1, self.accumulate))
        operands = (x for number, ld in enumerate(self.lds) for x in (Given(number), ld))
        arguments = (*self.sizes, alpha, *operands, beta, Given(len(self.lds)), self.ld)
        return bind(self.name, "compute a triangle", arguments)


class _Once(GpuExecution):
    """A product that is not repeated with other arrays: whether B is A transposed was seen in these."""

    def repeat(self) -> None:
        """Return None: a further call is prepared anew."""
        return
