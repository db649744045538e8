"""The product with the k that each element comes from, by `argk.cu`: the same kernel for every rung.

The arrays stay where they are: host arrays are uploaded and both results come back; arrays of CuPy are filled in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.execution import GpuOperands, is_on_device
from backends.gpu._simt.operators import Form, semiring_defines
from backends.gpu._simt.passes import add_extremes
from backends.gpu._simt.program import Kernel, Matrix, Place, Program, ceil_div
from harness.operands import Operands
from harness.problem import Problem
from harness.tuning.gpu import ARGK_TILES, is_scanned


class ArgkOperands(GpuOperands):
    """Operands, and `argk`: an (m, n) int32 array without gaps, on the host or on the GPU."""

    def __init__(self, operands: Operands, argk: Any) -> None:
        super().__init__(operands)
        self._argk = argk
        self.buffers["which"] = argk if is_on_device(argk) else device.empty(argk.shape, argk.dtype)
        self.are_on_device &= is_on_device(argk)

    @classmethod
    def of(cls, names: Sequence[str], arrays: Sequence[Any]) -> ArgkOperands:
        """Return a, b, out and argk as operands."""
        a, b, out, argk = arrays
        return cls(Operands(a, b, None, out), argk)

    def result(self) -> Any:
        """Return D, after copying the k of each element to `argk` if that is on the host."""
        if self.buffers["which"] is not self._argk:
            self._argk[...] = self.buffers["which"].get()
        return super().result()


def argk_program(problem: Problem, a: Matrix, b: Matrix, out: Matrix) -> Program:
    """Return the launches of ``out := a (x) b``, which write the k of each element to the buffer ``which``."""
    program, tiles, size = Program(), ARGK_TILES[max(problem.dtype.itemsize, 4)], problem.dtype.itemsize
    sizes_of_tiles = {"BM": tiles.bm, "BN": tiles.bn, "BK": tiles.bk, "TM": tiles.tm, "TN": tiles.tn}
    if not (problem.m and problem.n):
        return program
    forms, extremes = [Form.ANY], a.place
    if problem.semiring.absorbs(problem.dtype) and problem.pairs and is_scanned(problem):
        forms, extremes = [Form.FAST, Form.CAREFUL], add_extremes(program, problem, a, b)
    blocks = ceil_div(problem.m, tiles.bm) * ceil_div(problem.n, tiles.bn)
    sizes = problem.m, problem.n, problem.k
    for form in forms:
        defines = semiring_defines(problem.semiring, problem.dtype, form=form) + as_defines(sizes_of_tiles)
        kernel = Kernel("argk", defines, (tiles.threads,), (tiles.bm + tiles.bn) * tiles.bk * size, function="argk")
        program.launch(
            kernel, blocks, a.place, b.place, out.place, Place("which"), *sizes, a.ld, b.ld, out.ld, extremes
        )
    return program
