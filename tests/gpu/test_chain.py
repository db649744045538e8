"""Lists of launches: what the driver and libraries are told, and that kernels of a chain wait."""

import ctypes

import numpy as np
import pytest

from backends.gpu import ozaki, tensor_core
from backends.gpu._cuda import launches
from backends.gpu._cuda.kernel_files import assemble
from backends.gpu._cuda.launches import CONTEXT, Contexts, Given, Launch, Launches, Routine
from backends.gpu._paths.bits import BitsProgram
from backends.gpu._program.program import Matrix, Place
from harness import SEMIRINGS
from harness.errors import HarnessError
from harness.machine import detect
from harness.problem import Problem

GRID, BLOCK, SHARED = (5, 2, 1), (384, 1, 1), 4096


class Driver:
    """The driver's functions, as C calls them, which take a launch apart as cuda.h lays out its structures."""

    def __init__(self, status=0):
        self.status, self.launches = status, []
        word = ctypes.c_uint64
        self.functions = {
            "cuLaunchKernel": ctypes.CFUNCTYPE(ctypes.c_int, word, *[ctypes.c_uint] * 7, *[word] * 3)(self.plain),
            "cuLaunchKernelEx": ctypes.CFUNCTYPE(ctypes.c_int, *[word] * 4)(self.chained),
        }

    def address(self, name):
        return ctypes.cast(self.functions[name], ctypes.c_void_p).value

    def plain(self, function, *rest):
        *sizes, stream, parameters, extra = rest
        self.launches.append((function, tuple(sizes), stream, arguments(parameters), extra, None))
        return self.status

    def chained(self, config, function, parameters, extra):
        sizes = tuple((ctypes.c_uint * 7).from_address(config))
        stream, attributes = (ctypes.c_uint64 * 2).from_address(config + 32)
        count = ctypes.c_uint.from_address(config + 48).value
        attribute = count, *(ctypes.c_int.from_address(attributes + offset).value for offset in (0, 8))
        self.launches.append((function, sizes, stream, arguments(parameters), extra, attribute))
        return self.status


def arguments(parameters):
    """Return the two words that the arguments of a kernel begin with."""
    return tuple(ctypes.c_uint64.from_address(x).value for x in (ctypes.c_uint64 * 2).from_address(parameters))


@pytest.fixture
def words():
    return (ctypes.c_uint64 * 4)(0, 11, 12, 0)


def launches_of(driver, words, monkeypatch):
    monkeypatch.setattr(launches, "function_of_driver", driver.address)
    steps = [Launch(70 + i, (*BLOCK, SHARED), slots, i == 1) for i, slots in enumerate(((0, 1), (2, 3), (3, 0)))]
    made = Launches(steps, ctypes.addressof(words))
    made.set([(0, 1, 0), (3, 0, 8)], [GRID, GRID, GRID[::-1]])
    return made


def test_the_driver_may_begin_a_chained_kernel_early(words, monkeypatch):
    driver = Driver()
    made = launches_of(driver, words, monkeypatch)
    for stream in (9, 2**63):
        driver.launches.clear()
        made.launch([100, 2**63 + 5], stream)
        assert driver.launches == [
            (70, (*GRID, *BLOCK, SHARED), stream, (2**63 + 5, 11), 0, None),
            (71, (*GRID, *BLOCK, SHARED), stream, (12, 108), 0, (1, 6, 1)),
            (72, (*GRID[::-1], *BLOCK, SHARED), stream, (108, 2**63 + 5), 0, None),
        ]


def test_other_sizes_are_set_anew(words, monkeypatch):
    driver = Driver()
    made = launches_of(driver, words, monkeypatch)
    made.set([(0, 0, 0), (3, 1, 16)], [(7, 1, 1)] * 3)
    made.launch([1, 2], 0)
    assert [(sizes[0], given) for _, sizes, _, given, *_ in driver.launches] == [
        (7, (1, 11)), (7, (12, 18)), (7, (18, 1)),
    ]  # fmt: skip


def test_a_launch_that_fails_says_so_and_is_the_last(words, monkeypatch):
    driver = Driver(701)
    made = launches_of(driver, words, monkeypatch)
    with pytest.raises(HarnessError, match=r"cannot be launched(.|\n)*701"):
        made.launch([0, 0], 0)
    assert len(driver.launches) == 1


def test_a_routine_gets_a_context_of_its_own_and_its_stream(words):
    calls, spare = [], [5]

    def add(*given):
        calls.append(given)
        return status[0]

    status, word = [0], ctypes.c_uint64
    functions = [ctypes.CFUNCTYPE(ctypes.c_int, *[word] * count)(add) for count in (2, 6)]
    set_stream, routine = (ctypes.cast(x, ctypes.c_void_p).value for x in functions)
    errors = []
    contexts = Contexts(spare, lambda: 6, set_stream)
    given = CONTEXT, 3, Given(1), -1, Given(0), 4
    step = Routine(routine, given, errors.append, None, contexts, (3, 0))
    made = Launches([step], ctypes.addressof(words))
    made.set([(0, 0, 0), (3, 1, 8)], [GRID])
    made.launch([100, 200], 9)
    assert calls == [(5, 9), (5, 3, 100, 2**64 - 1, 208, 4)]
    spare.clear()  # another thread has it
    status[0], calls[:] = 7, []
    made.launch([100, 200], 9)
    assert calls == [(6, 9)]
    assert (errors, spare) == ([7], [6])


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


def test_kernels_of_a_chain_wait():
    kernels = {kernel for program in programs() for kernel in program.kernels() if kernel.is_chained}
    names = {kernel.function for kernel in kernels}
    assert names >= {"norms", "residues", "certify", "crt", "gemm", "copy_rows", "begin", "turn"}
    for kernel in kernels:
        text = assemble(kernel.stem, kernel.defines)
        assert text.count("await_launch_before();") == text.count('extern "C" __global__'), kernel.stem
