"""Launches that begin while the one before them ends: what the driver is told, and that such kernels wait."""

import ctypes

import numpy as np
import pytest

from backends.gpu import ozaki, tensor_core, tuned
from backends.gpu._cuda import chain
from backends.gpu._cuda.kernel_files import assemble
from backends.gpu._paths.bits import BitsProgram
from backends.gpu._paths.program import ClosureProgram
from backends.gpu._program.program import Matrix, Place
from harness import SEMIRINGS
from harness.errors import HarnessError
from harness.machine import detect
from harness.problem import Problem

SIZES = 5, 2, 1, 384, 1, 1, 4096


class Driver:
    """Takes a launch apart as cuda.h lays out its structures."""

    def __init__(self, status=0):
        self.status, self.launches = status, []

    def __call__(self, place, function, parameters, extra):
        config = ctypes.addressof(place._obj)
        sizes = tuple((ctypes.c_uint * 7).from_address(config))
        stream, attributes = (ctypes.c_uint64 * 2).from_address(config + 32)
        count = ctypes.c_uint.from_address(config + 48).value
        number, allowed = (ctypes.c_int.from_address(attributes + offset).value for offset in (0, 8))
        self.launches.append((sizes, stream, count, number, allowed, function.value, parameters.value, extra))
        return self.status


def test_the_driver_may_begin_the_kernel_early(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(chain, "_driver", lambda: driver)
    launch = chain.chained_launch(77, SIZES[3:], 88)
    launch(SIZES[:3], 9)
    launch(SIZES[:3], 10)
    assert driver.launches == [(SIZES, stream, 1, 6, 1, 77, 88, None) for stream in (9, 10)]


def test_a_launch_that_fails_says_so(monkeypatch):
    monkeypatch.setattr(chain, "_driver", lambda: Driver(701))
    with pytest.raises(HarnessError, match="cannot be launched"):
        chain.chained_launch(77, SIZES[3:], 88)(SIZES[:3], 9)


def programs():
    """Return programs of every kernel that is launched so."""
    a, b, c, out = (Matrix(Place(name), 999) for name in ("a", "b", "c", "out"))
    for dtype in ("float64", "float32"):
        problem = Problem(999, 999, 999, dtype=np.dtype(dtype), accumulate=True, alpha=2.0)
        for options in ({}, {"gate": "certified"}, {"balance": 1}):
            yield ozaki.Ozaki().program(ozaki.Ozaki().plan(problem, detect()).override(options), a, b, c, out)
    rung = tensor_core.TensorCore()
    for operands in ("int8", "bfloat16", None):
        wide = {"int8": "int32", "bfloat16": "float32"}.get(operands, "float64")
        pytest.importorskip("ml_dtypes")
        narrow = operands and np.dtype(operands)
        problem = Problem(4096, 4096, 4096, SEMIRINGS["plus_times"], np.dtype(wide), operand_dtype=narrow)
        yield rung.program(rung.plan(problem, detect()), a, b, out)
    problem = Problem(300, 300, 300, SEMIRINGS["lor_land"], np.dtype(bool))
    yield BitsProgram(problem, lambda product: rung.plan(product, detect()), is_packed=True).program
    plain = tuned.Tuned()
    problem = Problem(300, 300, 300, SEMIRINGS["min_plus"], np.dtype(np.float32))
    multiply = lambda product, *matrices: plain.program(plain.plan(product, detect()), *matrices)  # noqa: E731
    yield ClosureProgram(problem, 1, None, multiply, keeps=False).program


def test_kernels_of_a_chain_wait():
    kernels = {kernel for program in programs() for kernel in program.kernels() if kernel.is_chained}
    names = {kernel.function for kernel in kernels}
    assert names >= {"norms", "residues", "certify", "crt", "gemm", "copy_rows", "begin", "turn", "close_rows"}
    for kernel in kernels:
        text = assemble(kernel.stem, kernel.defines)
        assert text.count("await_launch_before();") == text.count('extern "C" __global__'), kernel.stem
