"""Operands that begin at a granule of 16 bytes and end within one: no kernel loads what lies behind them."""

import numpy as np

from backends.gpu._base import backend as gpu_backend
from backends.gpu._passes.padding import width_of_loads
from backends.gpu._program.program import Matrix, Place
from harness import SEMIRINGS
from harness.problem import Problem
from tests._support.gapped_operands import with_gap
from tests.gpu import test_half_mma_on_cpu, test_half_panels_on_cpu, test_row_panels_on_cpu, test_warp_panels_on_cpu
from tests.gpu.host_kernels import HostOperands, fenced
from tests.gpu.on_cpu import ON_CPU, RUNGS, check

pytestmark = ON_CPU


def multiply(count, k, dtype, *, tile=0, side="A x"):
    """Multiply a matrix of `count` rows, or columns, and a vector of k elements."""
    m, n = (count, 1) if side == "A x" else (1, count)
    check(RUNGS["gpu-mv-tuned"], Problem(m, n, k, SEMIRINGS["min_plus"], np.dtype(dtype)), tile=tile)


# By kernel: products whose last rows end within a granule.
KERNELS = {
    "mv_rows": lambda: [multiply(7, 3001, "float64"), multiply(1, 701, "float64")],
    "mv_columns": lambda: [multiply(count, k, "int8", side="x A") for count, k in ((301, 5), (3, 301), (1, 1))],
    "mv_short_rows": lambda: multiply(301, 33, "float32", tile=8),
    "row_panels": lambda: test_row_panels_on_cpu.compute("min_plus", "float32", (131, 7, 33), (97, 5, 5)),
    "warp_panels": lambda: test_warp_panels_on_cpu.compute("min_plus", "float32", (131, 17, 33), (128, 20, 65)),
    "half_mma": lambda: [test_half_mma_on_cpu.compute(x) for x in ((33, 17, 31), (35, 1, 9), (35, 5, 65), (1, 1, 1))],
    "half_panels": lambda: [test_half_panels_on_cpu.compute(size) for size in ((203, 23, 35), (70, 20, 33))],
    "half_panels of rows with gaps": lambda: test_half_panels_on_cpu.compute((70, 20, 33)),
}


def compute_at_granules(monkeypatch, name):
    """Compute those products of operands that begin at granules, rows of A with gaps if the name says so."""
    monkeypatch.setattr(HostOperands, "at_end", False)
    if "gaps" in name:  # rows are whole granules, and far apart
        monkeypatch.setattr(gpu_backend, "GpuOperands", with_gap(23, at_end=False))
    KERNELS[name]()


class Offset(HostOperands):
    """A and B begin three elements behind a granule."""

    def __init__(self, operands, **options):
        super().__init__(operands, **options)
        for name in "ab":
            room = fenced(self.buffers[name].size + 3, self.buffers[name].dtype, at_end=False)
            room[3:] = self.buffers[name]
            self.buffers[name] = room

    def matrix(self, name):
        found = super().matrix(name)
        return found._replace(place=Place(name, 3), alignment=2) if name in "ab" else found


def compute_last_elements(monkeypatch, operands):
    """Compute products of matrices whose last granule holds several rows, of two tiles of C, or steps of two of k."""
    monkeypatch.setattr(HostOperands, "at_end", False)
    monkeypatch.setattr(gpu_backend, "GpuOperands", operands)
    for size in ((34, 20, 34), (35, 1, 66), (20, 35, 1), (35, 35, 3), (34, 21, 1), (21, 34, 1)):
        test_half_mma_on_cpu.compute(size)


def test_loads_of_a_window_are_as_narrow_as_its_rows():
    widths = {line: width_of_loads(Matrix(Place("b"), 64, line=line), 4) for line in (0, 64, 60, 62, 61)}
    assert widths == {0: 4, 64: 4, 60: 4, 62: 2, 61: 1}
    assert width_of_loads(Matrix(Place("b"), 64, line=62), 1) == 1, "asynchronous copies move 4 bytes at least"
