"""D = alpha A B + beta C by PyTorch on the CPU: MKL for float64 and float32, oneDNN for narrow operands.

PyTorch rounds a product of bfloat16 or float16 to that type, since it has no wider result. It is timed that way;
`extra_error` allows for the rounding. float16 sums beyond 65504 become infinite.

Source: torch.addmm, torch.mm, torch._int_mm; oneDNN, matmul primitive.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu.libraries._blas import BlasExecution, BlasPeer, absent, is_contiguous
from harness.dtypes import is_float8, row_of
from harness.interface import Execution, HostExecution
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem


class Torch(BlasPeer):
    """PyTorch's own products."""

    name = "cpu-torch"
    step = 90
    idea = "what PyTorch offers on a CPU: MKL, and oneDNN for bfloat16, float16 and int8"
    source = "torch.addmm, torch.mm, torch._int_mm; oneDNN"
    project = "PyTorch"
    takes = frozenset({"mixed", "complex"})

    def missing(self) -> str | None:
        """Return that PyTorch is not installed, or None."""
        return absent("torch")

    def declines(self, problem: Problem) -> str | None:
        """Return why PyTorch does not compute `problem`, or None."""
        if not problem.is_mixed:
            return super().declines(problem)
        if problem.dtype.itemsize > 4 or is_float8(problem.input_dtype):
            return f"PyTorch has no product of {problem.input_dtype.name} with sums of {problem.dtype.name}"
        if problem.input_dtype.name == "uint8":
            return "PyTorch's only product of bytes, torch._int_mm, takes int8"
        if problem.alpha is not None or problem.accumulate or min(problem.m, problem.n, problem.k) == 0:
            return "PyTorch's mixed products are taken plain: no alpha, no C, no empty size"
        return None

    def loosens(self, problem: Problem) -> bool:
        """Return whether PyTorch rounds the sums of `problem` to the dtype of A and B."""
        return problem.is_mixed and row_of(problem.input_dtype).digits > 0

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return the error of rounding the largest possible element of the result to the dtype of A and B."""
        if not self.loosens(plan.problem):
            return 0.0
        half_a_unit = 2.0 ** -(row_of(plan.problem.input_dtype).digits + 1)
        rows, columns = (
            np.linalg.norm(x.astype(np.float32), axis=axis).max() for x, axis in ((operands.a, 1), (operands.b, 0))
        )
        return half_a_unit * float(rows) * float(columns)

    def kernels(self) -> str:
        """Return the vector extension that PyTorch found."""
        import torch

        return str(torch.backends.cpu.get_cpu_capability())

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load PyTorch and bind its product to the operands."""
        import torch

        torch.set_num_threads(plan.threads)
        if plan.problem.is_mixed:
            return _MixedExecution(torch, operands)
        return BlasExecution(plan, operands, takes, functools.partial(bind, torch))


def takes(x: np.ndarray) -> bool:
    """Return whether PyTorch can take `x` in place. It may refuse the unused stride of a single row."""
    return is_contiguous(x) and all(stride >= 0 and stride % x.itemsize == 0 for stride in x.strides)


def bind(torch: Any, alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray) -> Callable[[], object]:
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix is contiguous."""
    left, right, target = (_tensor(torch, x) for x in (a, b, out))
    if alpha == 1 and beta == 0:
        return functools.partial(torch.mm, left, right, out=target)
    return functools.partial(torch.addmm, target, left, right, beta=beta.item(), alpha=alpha.item(), out=target)


class _MixedExecution(HostExecution):
    """``torch.mm`` of narrow operands; its result is widened only when it is asked for."""

    def __init__(self, torch: Any, operands: Operands) -> None:
        super().__init__(operands)
        self._torch = torch
        pairs = [(x, x if takes(x) else np.empty_like(x, order="C")) for x in (operands.a, operands.b)]
        self._copies = [(x, copy) for x, copy in pairs if copy is not x]
        a, b = (_tensor(torch, x) for _, x in pairs)
        # PyTorch has no other product of int8.
        multiply, dtype = (torch._int_mm, torch.int32) if a.dtype == torch.int8 else (torch.mm, a.dtype)  # noqa: SLF001
        self._narrow = torch.empty(operands.out.shape, dtype=dtype)
        self._multiply = functools.partial(multiply, a, b, out=self._narrow)

    def run(self) -> None:
        """Compute once."""
        for x, copy in self._copies:
            np.copyto(copy, x)
        with self._torch.inference_mode():
            self._multiply()

    def result(self) -> np.ndarray:
        """Return D, the output array itself."""
        wide = self._narrow if self._narrow.dtype == self._torch.int32 else self._narrow.float()
        self.operands.out[...] = wide.numpy()
        return self.operands.out


def _tensor(torch: Any, x: np.ndarray) -> Any:
    """Return the tensor over the memory of `x`. PyTorch does not know NumPy's bfloat16."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about read-only arrays, which are not written to here
        if x.dtype.name == "bfloat16":
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(x)
