"""What cpu-simd reads, writes and keeps: never past an operand, nor past its scratch, and for as long as it is run."""

import gc
import itertools
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from backends.cpu._compile import scratch as compile_scratch
from backends.cpu._compile.scratch import HUGE_PAGE, Scratch, scratch
from backends.cpu._simd import argument_table
from backends.cpu._simd.part import Part
from backends.cpu._vector import vectors
from harness import Operands, Semiring, free_memory, machine
from harness.errors import VerificationError
from harness.proof import fences
from harness.proof.verify import verify
from tests._support.planted_kernels import compile_anew
from tests._support.simd_products import BACKEND, GUARDED, KERNELS, PACKS, Kernel, check, lay_out
from tests._support.units import needs_masks

PLAIN = next(kernel for kernel in KERNELS if kernel.semiring == "plus_times")


ORDERS = ("rows", "rows", "rows"), ("columns", "rows", "rows"), ("rows", "columns", "rows"), ("columns",) * 3


def run_fenced(kernel, numbers):
    """Compute products around every edge of a tile between fences, and prove them right."""
    mr, nr, lanes = kernel.mr, kernel.nr, kernel.lanes
    for m, n, k in itertools.product((1, mr + 1, 3 * mr), (1, max(lanes - 1, 1), nr + 1, 2 * nr), (1, 7, 100)):
        number = next(numbers)
        problem = kernel.problem(m, n, k)
        drawn = Operands.generate(problem, number)
        for side in fences.SIDES:
            tight = "" if number % 3 else "tight "
            laid = (
                lay_out(x, tight + order)
                for x, order in zip((drawn.a, drawn.b, drawn.out), ORDERS[number % 4], strict=True)
            )
            a, b, out = (fences.fenced(x, side) for x in laid)
            with fences.watched():
                BACKEND.prepare(kernel.plan(problem, **PACKS[number % 4]), Operands(a, b, None, out)).run()
            verify(problem, drawn, out, seed=1)


class TestFences:
    """Operands that lie beside memory that may not be touched."""

    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    def test_nothing_outside_the_operands_is_touched(self, kernel):
        run_fenced(kernel, itertools.count())

    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    def test_rows_that_end_with_a_whole_vector_are_not_read_on(self, kernel):
        """The column left after whole vectors is a dot product along k: its last vector has no lane."""
        problem = kernel.problem(7, kernel.nr + 1, 1024)
        drawn = Operands.generate(problem, 1)
        operands = fences.fenced_operands(drawn, "after")
        with fences.watched():
            BACKEND.prepare(kernel.plan(problem, mc=16 * kernel.mr, kc=1024), operands).run()
        verify(problem, drawn, operands.out, seed=1)

    @pytest.mark.parametrize(("bug", "method"), (("read", "load"), ("written", "store")))
    def test_a_vector_that_ignores_the_edge_is_seen(self, bug, method, monkeypatch):
        load, store = vectors.VectorCode.load, vectors.VectorCode.store
        whole = {
            "load": lambda code, b, place, edge=None: load(code, b, place),
            "store": lambda code, b, x, place, edge=None: store(code, b, x, place),
        }
        monkeypatch.setattr(vectors.VectorCode, method, whole[method])
        compile_anew(monkeypatch)
        kernel = Kernel("plus_times", "float64", KERNELS[0].unit, 1, 1)
        with pytest.raises(VerificationError, match=f"touched: {bug} 0 bytes behind the end of"):
            run_fenced(kernel, itertools.count())


class _Marked:
    """Scratch of exactly the size that was asked for, with a mark after it."""

    def __init__(self):
        self.blocks = []

    def __call__(self, size_bytes):
        memory = np.full(size_bytes + 4096 + 64, 0xA5, np.uint8)
        begin = -memory.ctypes.data % 64
        self.blocks.append(memory[begin + size_bytes :])
        block = Scratch.__new__(Scratch)
        block.size_bytes, block.address, block._memory = size_bytes, memory.ctypes.data + begin, memory
        block.lock = threading.Lock()
        return block

    def is_whole(self):
        return all((block == 0xA5).all() for block in self.blocks)


class TestScratch:
    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    def test_packed_panels_fit_into_what_was_asked_for(self, kernel, monkeypatch):
        marked = _Marked()
        monkeypatch.setattr(argument_table, "scratch", marked)
        mr, nr, lanes = kernel.mr, kernel.nr, kernel.lanes
        numbers = itertools.count()
        for m, n, k in itertools.product((1, 2 * mr + 1, 5 * mr), (1, lanes + 1, 4 * nr - 1), (1, 8, 9, 19, 167)):
            number = next(numbers)
            layout = ("rows", "columns", "neither")[number % 3]
            check(kernel, (m, n, k), (layout,) * 3, threads=number % 4 + 1, **PACKS[3])
            assert marked.is_whole(), (m, n, k, layout)
        assert sum(block.size for block in marked.blocks)

    def test_a_size_that_is_too_small_is_seen(self, monkeypatch):
        marked = _Marked()
        monkeypatch.setattr(argument_table, "scratch", marked)
        right = argument_table.packed_b_bytes
        monkeypatch.setattr(argument_table, "packed_b_bytes", lambda *sizes: right(*sizes) - 1)
        check(PLAIN, (5 * PLAIN.mr, 2 * PLAIN.nr, 9), **PACKS[3])
        assert not marked.is_whole()

    def test_a_block_is_kept_until_a_larger_one_is_needed(self, monkeypatch):
        monkeypatch.setattr(compile_scratch, "_kept", compile_scratch._Kept())
        first = scratch(1)
        assert first.size_bytes == HUGE_PAGE
        assert first.address % HUGE_PAGE == 0
        assert scratch(0) is first
        assert scratch(HUGE_PAGE) is first
        larger = scratch(HUGE_PAGE + 1)
        assert larger is not first
        assert larger.size_bytes == 2 * HUGE_PAGE
        assert scratch(1) is larger

    def test_memory_that_is_given_back_is_taken_anew_and_not_under_a_product_at_work(self, monkeypatch):
        monkeypatch.setattr(compile_scratch, "_kept", compile_scratch._Kept())
        at_work, gone = scratch(1), weakref.ref(scratch(1, "other"))
        with ThreadPoolExecutor(1) as pool:
            theirs = weakref.ref(pool.submit(scratch, 1).result())
            free_memory()
            gc.collect()
            assert theirs() is None
        assert gone() is None
        at_work.array((HUGE_PAGE,), np.dtype(np.uint8)).fill(1)
        assert scratch(1) is not at_work

    def test_a_block_beyond_the_limit_is_not_kept(self, monkeypatch):
        monkeypatch.setattr(compile_scratch, "_kept", compile_scratch._Kept())
        monkeypatch.setattr(compile_scratch, "most_kept", lambda: HUGE_PAGE)
        assert scratch(HUGE_PAGE + 1).size_bytes == 2 * HUGE_PAGE
        assert scratch(1).size_bytes == HUGE_PAGE

    def test_threads_of_python_do_not_share_a_block(self):
        with ThreadPoolExecutor(1) as pool:
            theirs = [pool.submit(scratch, size).result() for size in (HUGE_PAGE, 1)]
        ours = scratch(1)
        assert theirs[0] is theirs[1]
        assert theirs[0] is not ours

    @needs_masks
    def test_nor_the_tables_of_a_shortcut(self):
        shortcut = BACKEND.shortcut(Semiring.of("plus", "times"), np.dtype(np.float64), machine.detect())
        *_, large = shortcut.refers_to
        with ThreadPoolExecutor(1) as pool:
            theirs = pool.submit(lambda: large._ready).result()
        assert theirs is not large._ready

    @needs_masks
    def test_nothing_is_asked_for_where_nothing_is_packed(self, monkeypatch):
        asked = []
        monkeypatch.setattr(argument_table, "scratch", lambda size: asked.append(size) or scratch(size))
        check(PLAIN, (8, 24, 9), mc=10 * PLAIN.mr, nc=10 * PLAIN.nr)
        assert asked == []


class TestLifetime:
    """An execution is prepared once and run at any time later."""

    @staticmethod
    def prepare(kernel, sizes, seed, **how):
        problem = kernel.problem(*sizes)
        operands = Operands.generate(problem, seed)
        execution = BACKEND.prepare(kernel.plan(problem, **PACKS[3], **how), operands)
        return execution, lambda: verify(problem, operands, execution.result(), seed=1), operands

    @pytest.mark.parametrize("threads", (1, 3))
    def test_executions_that_share_scratch_run_in_turn(self, threads):
        prepared = [
            self.prepare(kernel, sizes, seed, threads=threads)
            for seed, (kernel, sizes) in enumerate(itertools.product((PLAIN, GUARDED), ((9, 70, 20), (40, 33, 31))))
        ]
        for execution, is_right, operands in [*prepared, *prepared[::-1], *prepared]:
            operands.out[...] = 77
            execution.run()
            is_right()

    @pytest.mark.parametrize("threads", (1, 2))
    @pytest.mark.parametrize("kernel", (PLAIN, GUARDED), ids=str)
    def test_an_execution_outlives_larger_ones(self, kernel, threads, monkeypatch):
        monkeypatch.setattr(compile_scratch, "_kept", compile_scratch._Kept())
        execution, is_right, _ = self.prepare(kernel, (33, 65, 40), 1, threads=threads)
        before = compile_scratch._kept.blocks["panels"]
        big = kernel.problem(64, 64, 20000)
        BACKEND.prepare(kernel.plan(big, mc=64 * kernel.mr, nc=64 * kernel.nr, kc=20000, **PACKS[3]), _zeros(big))
        assert compile_scratch._kept.blocks["panels"] is not before
        gc.collect()
        execution.run()
        is_right()

    @pytest.mark.parametrize("threads", (1, 2))
    @pytest.mark.parametrize("layout", ("CCC", "CCF", "AAA"))
    @pytest.mark.parametrize("kernel", (PLAIN, GUARDED), ids=str)
    def test_what_is_run_keeps_what_it_needs(self, kernel, layout, threads):
        problem = kernel.problem(21, 33, 9, layout=layout)
        operands = Operands.generate(problem, 3)
        run = BACKEND.prepare(kernel.plan(problem, threads=threads), operands).run
        assert len(_tables(reachable(run))) == 1
        if kernel is GUARDED:
            operands.a[0, 0] = operands.b[0, 0] = np.nan  # either may be the first operand of the loops
            run()
        held = reachable(run)
        assert len(_tables(held)) == (2 if kernel is GUARDED else 1)  # compiled code knows them by address alone
        assert not any(isinstance(x, Scratch) for x in held)  # it is there for a run
        for operand in (operands.a, operands.b, operands.out):
            assert any(isinstance(x, np.ndarray) and np.may_share_memory(x, operand) for x in held)


def _tables(held):
    return [x for x in held if isinstance(x, np.ndarray) and x.shape[1:] == (2 + len(Part._fields),)]


def reachable(x):
    """Return all objects that `x` keeps alive, except by way of modules and classes."""
    found, left = {}, [x]
    while left:
        x = left.pop()
        if id(x) in found or isinstance(x, type | types.ModuleType):
            continue
        found[id(x)] = x
        if isinstance(x, types.FunctionType):
            left += [*x.__dict__.values(), *(cell.cell_contents for cell in x.__closure__ or ())]
        elif type(x).__module__.split(".")[0] != "numba":
            left += gc.get_referents(x)
            left += [x.base] if isinstance(x, np.ndarray) and x.base is not None else []
    return list(found.values())


def _zeros(problem):
    shapes = (problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)
    a, b, out = (np.zeros(shape, problem.dtype) for shape in shapes)
    return Operands(a, b, None, out)
