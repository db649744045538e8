"""Matrix-vector products over windows of larger arrays, executed on the CPU: any address, any leading dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._program.program import Matrix, Place
from harness.interface import Backend
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.verify import verify
from tests.gpu.host_kernels import HostExecution, fenced

ALIGNMENT = 16


class Windows:
    """Operands whose matrix and vectors lie inside of larger buffers, which are bytes of ones elsewhere.

    Parameters
    ----------
    operands : Operands
    by_columns : str
        Names of those that lie by columns.
    offset, gap : int
        Elements before the first one, and between two rows, or two columns. A vector that lies across them has gaps
        between its elements.
    """

    def __init__(self, operands: Operands, by_columns: str, offset: int, gap: int) -> None:
        self.buffers: dict[str, np.ndarray] = {}
        self._by_columns, self._offset, self._gap = by_columns, offset, gap
        self._shapes: dict[str, tuple[int, int]] = {}
        for name, x in (("a", operands.a), ("b", operands.b), ("c", operands.c), ("out", operands.out)):
            if x is not None:
                lines, length = self._shapes[name] = x.shape[::-1] if name in by_columns else x.shape
                self.buffers[name] = fenced(offset + lines * (length + gap), x.dtype, at_end=True)
                if name != "out":
                    self._window(name, self.buffers[name])[...] = x

    def _window(self, name: str, buffer: np.ndarray) -> np.ndarray:
        _, length = self._shapes[name]
        inside = buffer[self._offset :].reshape(-1, length + self._gap)[:, :length]
        return inside.T if name in self._by_columns else inside

    def matrix(self, name: str) -> Matrix:
        """Return the matrix, and what is known of its address."""
        x, (_, length) = self.buffers[name], self._shapes[name]
        address = x.ctypes.data + self._offset * x.itemsize
        alignment = ALIGNMENT if address % ALIGNMENT == 0 else x.itemsize
        return Matrix(Place(name, self._offset), length + self._gap, alignment, name in self._by_columns)

    def result(self) -> np.ndarray:
        """Return D."""
        return self._window("out", self.buffers["out"]).copy()

    def is_untouched_elsewhere(self) -> bool:
        """Return whether all of the output's buffer but D is still bytes of ones."""
        elsewhere = np.ones(self.buffers["out"].shape, bool)
        self._window("out", elsewhere)[...] = False
        return set(self.buffers["out"][elsewhere].tobytes()) <= {0xFF}


def check_window(backend: Backend, problem: Problem, by_columns: str, offset: int, gap: int) -> HostExecution:
    """Compute `problem` twice, prove the result right, its bits the same, and nothing else written; return the run.

    Raises
    ------
    VerificationError, KernelFault
        If it is not.
    """
    operands = Operands.generate(problem, problem.m + problem.n + problem.k)
    windows = Windows(operands, by_columns, offset, gap)
    plan = backend.plan(problem, detect())
    execution = HostExecution(program_of(backend, plan, windows), windows)
    execution.run()
    first = windows.result()
    verify(problem, operands, first, seed=1)
    execution.run()
    assert windows.result().tobytes() == first.tobytes()
    assert windows.is_untouched_elsewhere()
    return execution


def program_of(backend: Any, plan: Any, windows: Windows) -> Any:
    """Return the program of a product over `windows`."""
    return backend.program(plan, *(windows.matrix(name) for name in windows.buffers))
