"""Large products on several threads: B is packed once, in ranges of columns, and every part finds its panels."""

from __future__ import annotations

import ctypes
import functools
import itertools
from typing import Any

import numpy as np
import pytest
from numba import types

from backends.cpu._compile.jit import jit
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._simd import shared_panels
from backends.cpu._simd.argument_table import Loops, Shape, prepare_product
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.run_parts import SCRATCH
from backends.cpu._simd.shared_panels import SharedLoops
from backends.cpu._vector.operators import operations
from backends.cpu.simd import Simd
from harness import SEMIRINGS, Problem, machine, registry
from harness.api import gemm as api_gemm
from harness.operands import aligned_empty
from harness.plan import Blocking
from harness.tuning import simd_parts as tuning_parts

SIMD = Simd()
pytestmark = pytest.mark.skipif(bool(SIMD.missing()), reason="generated code cannot run here")
FLOAT64 = np.dtype(np.float64)
MOST_ROUNDED = 40 * 8 * 256  # a block of k of whole panels, and rows of A, however small the scratch should be


def _compute(
    a: np.ndarray, b: np.ndarray, out: np.ndarray, threads: int, kc: int, accumulate: bool, **changes: Any
) -> int:
    """Compute ``out := [out +] a b`` by shared panels, and return how many bytes those took.

    The bits must be those of a product on one thread.
    """
    m, n, k = *out.shape, a.shape[1]
    plan = SIMD.plan(Problem(m, n, k, "plus_times", FLOAT64), machine.detect())
    ops, blocking = operations(SEMIRINGS["plus_times"], FLOAT64), plan.blocking
    assert ops is not None
    assert blocking is not None
    key = KernelKey(ops, "float64", str(plan.options["unit"]), blocking.mr, 0)
    key = key._replace(nv=blocking.nr // key.lanes)
    blocks = Blocking(4 * blocking.mr, blocking.nr, kc, blocking.mr, blocking.nr)
    grid = tuning_parts.thread_grid(m, n, 3 * threads, blocking.mr, blocking.nr)
    loops = SharedLoops(key, blocks, a.strides[1] != 8, True, grid, threads)._replace(**changes)
    packed: list[int] = []
    scratch = shared_panels.scratch

    def counted(size: int, purpose: str) -> Any:
        packed.append(size)
        memory = scratch(size, purpose)
        ctypes.memset(memory.address, 0xFF, size)  # NaN, where a part does not wait for what it reads
        return memory

    alone = out.copy()
    prepare_product(Loops(*loops._replace(grid=(1, 1), threads=1)), a, b, alone, accumulate)()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_panels, "scratch", counted)
        table = loops.table(Shape.of(a, b, out), accumulate)
        table.addresses[:SCRATCH] = a.ctypes.data, b.ctypes.data, out.ctypes.data, 0
        table.run()
    assert np.array_equal(out, alone)
    return packed[0]


@pytest.mark.parametrize("most", [1 << 26, 1 << 15, 1], ids=["one range", "ranges of k", "ranges of all"])
def test_any_size_layout_and_number_of_threads(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_parts, "most_shared_bytes", lambda threads: most)
    rng, orders = np.random.default_rng(1), itertools.cycle(itertools.product("CF", repeat=2))
    for number, (m, n, k) in enumerate(itertools.product((1, 9, 100), (3, 25, 130), (1, 16, 77))):
        of_a, of_b = next(orders)
        a, b = np.array(rng.standard_normal((m, k)), order=of_a), np.array(rng.standard_normal((k, n)), order=of_b)
        room = np.full((m + 2, n + 9), 7.0)
        out = room[1:-1, 4:-5]
        adds = number % 2 == 1
        expected = a @ b + (out if adds else 0)
        memory = _compute(a, b, out, threads=1 + number % 5, kc=(16, 24, 40)[number % 3], accumulate=adds)
        assert np.allclose(out, expected, rtol=1e-12, atol=1e-12), (m, n, k)
        assert memory <= max(most, MOST_ROUNDED)
        out[...] = 7
        assert (room == 7).all()


def test_parts_wait_for_what_others_still_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    build, sleep = shared_panels.build_gather, types.ExternalFunction("usleep", types.int32(types.uint32))

    @functools.cache
    def build_slow(key: KernelKey) -> Any:
        gather = address_of(build(key))

        def slow(rows: int, columns: int, source: int, rs: int, cs: int, target: int, apart: int) -> None:
            sleep(3000 if source % 128 == 0 else 0)
            call(gather, (rows, columns, source, rs, cs, target, apart))

        return jit(None, *[types.intp] * 7, parallel=False)(slow)

    monkeypatch.setattr(shared_panels, "build_gather", build_slow)
    rng = np.random.default_rng(2)
    for order in "CF":
        a, b = np.array(rng.standard_normal((90, 48)), order=order), aligned_empty((48, 96), FLOAT64)
        b[...] = rng.standard_normal(b.shape)
        out = np.empty((90, 96))
        _compute(a, b, out, threads=2, kc=24, accumulate=False)
        assert np.allclose(out, a @ b, rtol=1e-12, atol=1e-12)


def test_it_serves_large_products_on_many_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_shared(size: int, threads: int, **options: Any) -> bool:
        made: list[Any] = []
        with pytest.MonkeyPatch.context() as patch:
            init = shared_panels.SharedTable.__init__
            patch.setattr(shared_panels.SharedTable, "__init__", lambda *of: made.append(of) or init(*of))
            backend = registry.find("cpu-simd")
            problem = Problem(size, size, size, "plus_times", FLOAT64, **options)
            api_gemm.prepare(backend, backend.plan(problem, machine.detect().with_threads(threads)), _operands(size))
        return bool(made)

    def _operands(size: int) -> Any:
        a, b = np.ones((2, size, size))
        return api_gemm.Operands(a, b, None, np.empty((size, size)))

    for which in ("TO_SHARE", "OF_MANY"):
        monkeypatch.setattr(tuning_parts, f"SIMD_FEWEST_PAIRS_{which}", 1 << 20)
        monkeypatch.setattr(tuning_parts, f"SIMD_FEWEST_ROWS_{which}", 300)
    assert not is_shared(270, 4)  # fewer rows than repay it
    assert not is_shared(270, 16)
    monkeypatch.setattr(tuning_parts, "SIMD_FEWEST_ROWS_OF_MANY", 100)
    assert is_shared(270, 16)
    assert not is_shared(270, 4)
    monkeypatch.setattr(tuning_parts, "SIMD_FEWEST_ROWS_TO_SHARE", 100)
    assert is_shared(270, 4)
    assert not is_shared(270, 2)
    assert not is_shared(128, 16)
