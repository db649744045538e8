"""PyTorch: its matrix product, which is cuBLAS, and broadcasts in chunks for semirings.

    float8   its call for them, with exact sums: sizes that are multiples of 16, e4m3 alone

Source: torch.mm, torch.addmm, torch._scaled_mm; broadcasting for the rest.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._program.program import Matrix, Product, Program
from backends.gpu._tensor.digits import add_digits
from backends.gpu._tensor.float8_product import lost_of_float8
from backends.gpu.libraries._peer import Peer, broadcast
from harness.dtypes import dtype_name, is_float8
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

_FLOAT8_STEP = 16
_ADD = {"min": ("amin", "minimum"), "max": ("amax", "maximum")}
_MULTIPLY = {"plus": "add", "times": "mul", "min": "minimum", "max": "maximum"}


class TorchPeer(Peer):
    """PyTorch."""

    name = "gpu-torch"
    step = 92
    idea = "what PyTorch offers: cuBLAS for plus_times, broadcasting for the rest"
    source = "torch.mm; torch._scaled_mm; torch.amin of a broadcast"
    project = "PyTorch"
    writes_expressions = True
    package = "torch"
    takes = Peer.takes | {"mixed"}

    def declines(self, problem: Problem) -> str | None:
        """Decline integers, and semirings that PyTorch has no reduction for."""
        semiring = problem.semiring
        if problem.is_mixed:
            is_whole = not any(size % _FLOAT8_STEP for size in (problem.m, problem.n, problem.k))
            is_plain = not problem.accumulate and problem.alpha is None
            is_known = is_plain and is_whole and dtype_name(problem.input_dtype) == "float8_e4m3fn"
            return None if is_known else "of narrow operands it is called for float8 e4m3 alone, as PyTorch takes it"
        if problem.dtype.kind != "f":
            return "PyTorch's integers neither saturate nor multiply as matrices on a GPU"
        if semiring.is_ordinary:
            return None
        is_known = semiring.is_named and semiring.add.name in _ADD and semiring.multiply.name in _MULTIPLY
        return None if is_known else "PyTorch has no reduction for it"

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return A and B of float8, which are turned where PyTorch does not take them."""
        return frozenset("ab" if is_float8(plan.problem.input_dtype) else "")

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return what tensor cores cut off of sums of float8, which it takes out as often as gpu-tensor-core."""
        return lost_of_float8(plan, operands) if is_float8(plan.problem.input_dtype) else 0.0

    def loosens(self, problem: Problem) -> bool:
        """Return False: what tensor cores cut off, all of them do."""
        return False

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the call; what does not lie along k, as PyTorch takes float8, is turned first, as part of the product."""
        if is_float8(plan.problem.input_dtype):
            a, b = add_digits(program, product, 1)
            product = product._replace(a=Matrix(a.place, a.width), b=Matrix(b.place, b.width, by_columns=True))
        super().multiply(program, plan, product)

    def bind(self, problem: Problem, a: Any, b: Any, out: Any) -> Any:
        """Return the call, or the loop over chunks."""
        import torch

        a, b, out = (torch.as_tensor(x, device="cuda") for x in (a, b, out))
        if problem.is_mixed:
            a, b, one = (*(x.view(torch.float8_e4m3fn) for x in (a, b)), torch.ones((), device="cuda"))
            compute = functools.partial(torch._scaled_mm, a, b, one, one, out_dtype=torch.float32, out=out)  # noqa: SLF001
        elif not problem.semiring.is_ordinary:
            names = *_ADD[problem.semiring.add.name], _MULTIPLY[problem.semiring.multiply.name]
            compute = broadcast(torch, names, problem, a, b, out)
        elif problem.accumulate:
            compute = functools.partial(out.addmm_, a, b)
        else:
            compute = functools.partial(torch.mm, a, b, out=out)
        return _on_current_stream(torch, compute)


def _on_current_stream(torch: Any, compute: Any) -> Any:
    """Return `compute` on CuPy's current stream, which PyTorch does not know of."""

    def run() -> None:
        pointer = device.cupy().cuda.get_current_stream().ptr
        stream = torch.cuda.stream(torch.cuda.ExternalStream(pointer)) if pointer else contextlib.nullcontext()
        with stream, torch.inference_mode():
            compute()

    return run
