"""Operands that begin at a granule of 16 bytes and end within one: no kernel loads what lies behind them."""

import contextlib

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._passes.padding import width_of_loads
from backends.gpu._program.program import Matrix, Place
from harness import SEMIRINGS
from harness.errors import VerificationError
from harness.problem import Problem
from tests._support.gapped_operands import with_gap
from tests.gpu import test_half_mma_on_cpu, test_half_panels_on_cpu, test_row_panels_on_cpu, test_warp_panels_on_cpu
from tests.gpu.host_kernels import COMPILER, HostOperands, KernelFault, fenced
from tests.gpu.simt_products import check, use_the_cpu, with_options

pytestmark = [pytest.mark.no_cover, pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")]


def multiply(count, k, dtype, *, tile=0, side="A x"):
    """Multiply a matrix of `count` rows, or columns, and a vector of k elements."""
    m, n = (count, 1) if side == "A x" else (1, count)
    check(with_options("gpu-mv-tuned", tile=tile), Problem(m, n, k, SEMIRINGS["min_plus"], np.dtype(dtype)))


# By kernel: products whose last rows end within a granule, and an edit that has it read all of that granule.
KERNELS = {
    "mv_rows": (
        lambda: [multiply(7, 3001, "float64"), multiply(1, 701, "float64")],
        ("is_within ? end : end - (end - begin) % WIDTH", "end"),
    ),
    "mv_columns": (
        lambda: [multiply(count, k, "int8", side="x A") for count, k in ((301, 5), (3, 301), (1, 1))],
        ("min(end, k - min(lines_beyond(first + j + WIDTH - count, step_p), (unsigned)k))", "end"),
    ),
    "mv_short_rows": (
        lambda: multiply(301, 33, "float32", tile=8),
        ("(before + mine * k) / WIDTH;", "(before + mine * k + WIDTH - 1) / WIDTH;"),
    ),
    "row_panels": (
        lambda: test_row_panels_on_cpu.compute("min_plus", "float32", (131, 7, 33), (97, 5, 5)),
        ("granules = elements / GRANULE", "granules = (elements + GRANULE - 1) / GRANULE"),
    ),
    "warp_panels": (
        lambda: test_warp_panels_on_cpu.compute("min_plus", "float32", (131, 17, 33), (128, 20, 65)),
        ("if (granule + GRANULE <= end) return", "return"),
    ),
    "half_mma": (
        lambda: [test_half_mma_on_cpu.compute(size) for size in ((33, 17, 31), (35, 1, 9), (35, 5, 65), (1, 1, 1))],
        ("from + GRANULE <= end ? size : 0", "size"),
    ),
    "half_panels": (
        lambda: [test_half_panels_on_cpu.compute(size) for size in ((203, 23, 35), (70, 20, 33))],
        ("run = elements / PER_GRANULE * PER_GRANULE;", "run = (elements + 7) / PER_GRANULE * PER_GRANULE;"),
    ),
    "half_panels of rows with gaps": (
        lambda: test_half_panels_on_cpu.compute((70, 20, 33)),
        ("run = k / PER_GRANULE * PER_GRANULE;", "run = (k + 7) / PER_GRANULE * PER_GRANULE;"),
    ),
}


def begin_at_granules(monkeypatch, name, *edits):
    """Have operands begin at granules and end within one, rows of A with gaps if the name says so."""
    use_the_cpu(monkeypatch, at_end=False, edits=edits)
    if "gaps" in name:  # rows are whole granules, and far apart
        monkeypatch.setattr(gpu_backend, "GpuOperands", with_gap(23, at_end=False))


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_behind_an_operand_is_loaded(monkeypatch, name):
    begin_at_granules(monkeypatch, name)
    compute, _ = KERNELS[name]
    compute()


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_loads_whole_granules_is_caught(monkeypatch, name):
    compute, edit = KERNELS[name]
    begin_at_granules(monkeypatch, name, edit)
    with pytest.raises(KernelFault, match="beyond the end of a buffer"):
        compute()


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


@pytest.mark.parametrize(
    ("edit", "operands"),
    [
        (("if (has_rest && number + 2 >= tiles)", "if (false)"), HostOperands),
        (("if (has_rest && number + 2 >= tiles)", "if (has_rest && number + 1 >= tiles)"), HostOperands),
        (("for (; column < 0 && row >= 0; --row)", "for (; false; --row)"), HostOperands),
        (("m - tile.row - rows < PER_GRANULE", "m - tile.row == rows"), Offset),
        (("n - tile.column - columns < PER_GRANULE", "n - tile.column == columns"), Offset),
    ],
)
def test_the_last_elements_of_16_bits_get_into_every_tile(monkeypatch, edit, operands):
    """The granule in which a matrix ends may hold several rows, of two tiles of C, or steps of two tiles of k."""
    sizes = (34, 20, 34), (35, 1, 66), (20, 35, 1), (35, 35, 3), (34, 21, 1), (21, 34, 1)
    for edits in ((), (edit,)):
        use_the_cpu(monkeypatch, at_end=False, edits=edits)
        monkeypatch.setattr(gpu_backend, "GpuOperands", operands)
        with pytest.raises(VerificationError) if edits else contextlib.nullcontext():
            for size in sizes:
                test_half_mma_on_cpu.compute(size)


def test_loads_of_a_window_are_as_narrow_as_its_rows():
    widths = {line: width_of_loads(Matrix(Place("b"), 64, line=line), 4) for line in (0, 64, 60, 62, 61)}
    assert widths == {0: 4, 64: 4, 60: 4, 62: 2, 61: 1}
    assert width_of_loads(Matrix(Place("b"), 64, line=62), 1) == 1, "asynchronous copies move 4 bytes at least"
