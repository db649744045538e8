"""Every kernel of every GPU backend, as each chip that is known by name would be given it, compiled without a GPU.

``python -m tests.gpu.chips`` (``make test-gpu-chips``) compiles all of them, prints what they take of each chip
and what the inner loops of the fastest are made of, and fails where a chip could not run one. Tests compile a sample.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import multiprocessing
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

from backends.gpu._base.backend import GpuBackend
from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Resources, compile_kernel, resources
from backends.gpu._cuda.nvrtc import CompileError
from backends.gpu._paths.bits import BitsProgram
from backends.gpu._paths.program import ClosureProgram
from backends.gpu._program.program import Kernel, Program
from backends.gpu._sequences.program import Layout, StepsProgram
from backends.gpu._simt.argk import argk_program
from backends.gpu._tasks import ceilings, layouts, levels
from harness import SEMIRINGS, registry
from harness.api import paths
from harness.machine import detect
from harness.plan import LARGEST_BLOCK
from harness.problem import Problem
from harness.tuning.device import DEVICES, Device
from tests.gpu import machine_code
from tests.gpu.on_cpu import matrices

# One chip of each architecture that NVRTC 13 compiles for.
CHIPS = {chip.capability: chip for chip in DEVICES.values() if chip.capability >= (7, 5)}
# Sizes that make programs differ: whole tiles; odd ones; flat, tall and thin; a matrix and a vector; small products, in
# batches too; triangles; an outer product.
SQUARE: tuple[int, int, int, dict[str, Any]] = (4096, 4096, 4096, {})
FLAT, TALL, ODD = (40, 30_000, 400, {}), (100_000, 20, 90, {}), (257, 259, 261, {})
SIZES = [
    SQUARE, ODD, FLAT, TALL, (4097, 1, 4097, {}), (1, 4097, 4097, {}), (32, 32, 4096, {}),
    (16, 16, 16, {"batch": (500,)}), (1024, 1024, 1024, {"triangle": "d"}), (1000, 1, 1000, {"triangle": "a"}),
    (4096, 4096, 2, {"accumulate": True}),
]  # fmt: skip
# Kinds that have all of these sizes, and those of which one is enough; sizes of which one kind is.
KINDS = [("plus_times", "float32", None), ("min_plus", "float32", None), ("plus_times", "float64", None)]
BROUGHT = ("plus_times", "float32", "bfloat16")
MORE_KINDS = [
    BROUGHT, ("plus_times", "float32", "float16"), ("plus_times", "int32", "int8"), ("plus_times", "int32", None),
    ("plus_times", "int64", None), ("plus_times", "float64", "float32"), ("min_plus", "float64", None),
    ("min_plus", "int32", None), ("min_plus", "float16", None), ("max_min", "float32", None),
    ("min_plus", "int16", None), ("max_min", "int64", None), ("lor_land", "bool", None), ("lxor_land", "bool", None),
    ("logaddexp_plus", "float32", None), ("plus_times", "complex128", None), ("plus_times", "complex64", None),
    ("plus_times", "complex128", "complex64"), ("plus_times", "float32", "float8_e4m3fn"),
]  # fmt: skip
MORE_SIZES = [
    (BROUGHT, FLAT), (BROUGHT, TALL), (BROUGHT, (8, 12_345, 2000, {})), (BROUGHT, (50_000, 8, 33, {})),
    (("min_plus", "float16", None), ODD), (KINDS[0], (2501, 2501, 2501, {})), (KINDS[1], (256_136, 4, 108, {})),
    (KINDS[1], (10**6, 1, 33, {})), (KINDS[1], (64, 64, 0, {})), (KINDS[1], (3001, 3001, 3001, {"layout": "CFC"})),
    (KINDS[2], (999, 999, 999, {"alpha": 3, "beta": 2, "accumulate": True})),
]  # fmt: skip
# Options that no plan has by itself, of squares, for kernels that are launched for them alone.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "gpu-four-m": [{"base": "gpu-tensor-core"}],
    "gpu-ozaki": [{"gate": "off"}, {"gate": "statistic"}, {"gate": "certified", "balance": 1}],
    "gpu-strassen": [{"crossover": 1024}],
    "gpu-tiled": [{"edge": "padded"}],
}
# Registers of a thread, and bytes of shared memory that a kernel itself may declare, on every chip.
MOST_REGISTERS, MOST_STATIC = 255, 48 << 10
# Bytes that a kernel may spill: gpu-tuned over int16 spills most, where no instruction adds and compares 16 bits. Pairs
# of such elements are emulated there too, which sm_110 has registers for least.
MOST_SPILLED, MOST_SPILLED_BY_PAIRS = 320, 1024
_GRANULE = 8  # registers of a thread come in so many


class Job(NamedTuple):
    """One kernel for one chip."""

    capability: tuple[int, int]
    kernel: Kernel

    @property
    def arch(self) -> str:
        return CHIPS[self.capability].arch + self.kernel.suffix

    @property
    def may_spill(self) -> bool:
        """Whether spills are no fault.

        Of forms with so many instructions a pair that they are no loop of registers; of the loop that measures a
        ceiling, which is declined where it spills; and of 16-bit integers below gpu-tuned, to whose loops the compiler
        gives few registers from sm_90 on.
        """
        macros = dict(self.kernel.defines)
        is_below = macros.get("T") == "short" and self.kernel.stem != "tuned"
        return self.kernel.stem == "peak" or macros.get("IS_LONG") == "1" or is_below

    @property
    def most_spilled(self) -> int:
        is_of_pairs = "__viadd" in dict(self.kernel.defines).get("COMBINE(c, a, b)", "")
        return MOST_SPILLED_BY_PAIRS if is_of_pairs else MOST_SPILLED

    def taken(self) -> Resources:
        """Return what it takes; raises CompileError."""
        compiled = compile_kernel(self.kernel.stem, self.kernel.defines, self.arch)
        return resources(compiled)[self.kernel.function]

    def faults(self) -> list[str]:
        """Return why the chip could not run it, or not well."""
        try:
            taken = self.taken()
        except CompileError as error:
            return [str(error)]
        chip, kernel, threads = CHIPS[self.capability], self.kernel, math.prod(self.kernel.block)
        bounds = {
            "threads": (threads, LARGEST_BLOCK),
            "registers of a thread": (taken.registers, MOST_REGISTERS),
            "registers of a block": (-(-taken.registers // _GRANULE) * _GRANULE * threads, chip.registers),
            "bytes spilled": (0 if self.may_spill else taken.spill_bytes, self.most_spilled),
            "bytes of shared memory that it declares": (taken.shared_bytes, MOST_STATIC),
            "bytes of shared memory": (taken.shared_bytes + kernel.shared_bytes, chip.shared_memory),
        }
        return [f"{name}: {got}, at most {most}" for name, (got, most) in bounds.items() if got > most]


@contextlib.contextmanager
def as_on(chip: Device) -> Iterator[None]:
    """Have plans made as where `chip` is the GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_no_gpu", lambda: None)
        patch.setattr(device, "device", lambda index=None: chip)
        yield


def problems() -> Iterator[Problem]:
    """Yield the products whose kernels are compiled."""
    pairs = [*itertools.product(KINDS, SIZES), *((kind, SQUARE) for kind in MORE_KINDS), *MORE_SIZES]
    for (semiring, dtype, narrow), (m, n, k, more) in pairs:
        yield Problem(m, n, k, SEMIRINGS[semiring], np.dtype(dtype), operand_dtype=narrow, **more)


def own_backends() -> list[GpuBackend]:
    """Return the backends with kernels of their own."""
    found = (entry.backend for entry in registry.discover())
    return [x for x in found if isinstance(x, GpuBackend) and ".libraries." not in type(x).__module__]


@functools.cache
def jobs(chip: Device) -> tuple[list[Job], dict[str, str]]:
    """Return every kernel that `chip` would be given, each once, and why backends have none there, by name."""
    found: dict[tuple[Any, ...], Job] = {}
    declined = {}

    def add(kernels: Iterable[Kernel]) -> None:
        for x in kernels:
            found.setdefault((x.stem, x.defines, x.suffix, x.function), Job(chip.capability, x))

    with as_on(chip):
        for backend in own_backends():
            reason = backend.missing()
            if reason is not None:
                declined[backend.name] = reason
                continue
            for problem in problems():
                if backend.refuses(problem) is None:
                    add(_kernels(backend, problem))
        add(_beside_products())
    return list(found.values()), declined


def _kernels(backend: GpuBackend, problem: Problem) -> Iterator[Kernel]:
    plan = backend.plan(problem, detect())
    is_square = (problem.m, problem.n, problem.k) == SQUARE[:3]
    able = {x.name for x in own_backends() if x.missing() is None}
    has_more = is_square and (not problem.is_complex or backend.name == "gpu-four-m")  # gates are of real numbers
    for options in ({}, *(OPTIONS.get(backend.name, []) if has_more else [])):
        if options.get("base", backend.name) not in able:
            continue
        yield from backend.program(plan.override(options), *matrices(problem)).kernels()
    of_self = backend.program_of_self(plan, *matrices(problem)) if problem.layout == "CFC" else None
    yield from of_self.kernels() if of_self else []


def _beside_products() -> Iterator[Kernel]:
    """Yield the kernels of which-k products, of closures and of tasks."""
    for problem in problems():
        if problem.semiring.add.is_selective and not (problem.batch or problem.triangle or problem.accumulate):
            a, b, out = matrices(problem)
            yield from argk_program(problem, a, b, out, out).kernels()
    naive = registry.find("gpu-naive")
    assert isinstance(naive, GpuBackend)
    for (semiring, dtype, narrow), keeps in itertools.product(KINDS + MORE_KINDS, (False, True)):
        if semiring in paths.CLOSED and narrow is None:
            graph = Problem(300, 300, 300, SEMIRINGS[semiring], np.dtype(dtype))
            yield from ClosureProgram(graph, 1, None, _multiply(naive), keeps=keeps).program.kernels()
    yield from _of_bits() if device.missing_wgmma() is None else ()
    yield from _of_sequences()
    for semiring, dtype, narrow in KINDS + MORE_KINDS:
        kind, ring = np.dtype(dtype), SEMIRINGS[semiring]
        if narrow is None and ceilings.why_none(ring, kind) is None:
            yield Kernel("peak", ceilings.peak_defines(ring, kind), (ceilings.THREADS,), function="peak")
    yield Kernel("read", ceilings.READ_DEFINES, (ceilings.READERS,), function="read")
    for level in levels.LEVELS:
        yield Kernel(levels.STEM, levels.DEFINES, (levels.THREADS,), function=level.lower())
    for name in ("naive", "tiled", "change", "transpose"):
        yield Kernel("layout", layouts.layout_defines("columns", "tiles"), (layouts.TILE**2,), function=name)
    yield Kernel("hold", (), (1,), function="hold")


def _of_bits() -> Iterator[Kernel]:
    rung, graph = registry.find("gpu-tensor-core"), Problem(300, 300, 300, SEMIRINGS["lor_land"], np.dtype(bool))
    for is_packed in (False, True):
        yield from BitsProgram(graph, lambda x: rung.plan(x, detect()), is_packed=is_packed).program.kernels()


def _of_sequences() -> Iterator[Kernel]:
    for semiring, dtype in (("logaddexp_plus", "float32"), ("logaddexp_plus", "float64"), ("max_plus", "float32")):
        for states, is_one in itertools.product((32, 256), (False, True)):
            problem = Problem(8, states, states, SEMIRINGS[semiring], np.dtype(dtype))
            layout = Layout(8, 100, states, (0, 0, states), (states, states), is_one)
            is_traced = semiring == "max_plus"
            options = {"is_relative": False, "is_traced": is_traced}
            program = StepsProgram(problem, layout, "after", 1 << 17, _no_product, **options).program
            assert program is not None
            yield from program.kernels()


def _no_product(*_: object) -> Program:
    """Return nothing: one launch has all steps."""
    return Program()


def _multiply(backend: GpuBackend) -> Callable[..., Program]:
    return lambda problem, *of: backend.program(backend.plan(problem, detect()), *of)


# Products whose inner loops are counted, and the backend that is the fastest of those without tensor cores.
COUNTED = [
    ("gpu-tuned", "plus_times", "float32"), ("gpu-tuned", "plus_times", "float64"),
    ("gpu-tuned", "plus_times", "int32"), ("gpu-tuned", "min_plus", "float32"), ("gpu-tuned", "min_plus", "float64"),
    ("gpu-tuned", "min_plus", "int32"), ("gpu-paired", "min_plus", "int16"), ("gpu-paired", "min_plus", "float16"),
    ("gpu-tuned", "max_min", "float32"),
]  # fmt: skip


class Loop(NamedTuple):
    """The inner loop of a product: its instructions, and the pairs that a thread combines in one pass."""

    instructions: Counter[str]
    pairs: int


def inner_loop(chip: Device, name: str, semiring: str, dtype: str) -> Loop:
    """Return the loop of the backend `name` for a square on `chip`, in the form that values mostly allow."""
    rungs = {backend.name: backend for backend in own_backends()}
    problem = Problem(*SQUARE[:3], SEMIRINGS[semiring], np.dtype(dtype))
    with as_on(chip):
        rung = rungs[name] if rungs[name].missing() is None else rungs["gpu-warp-tiled"]
        kernels = rung.program(rung.plan(problem, detect()), *matrices(problem)).kernels()
    kernel = next(x for x in kernels if x.function == "gemm" and dict(x.defines)["FORM"] != "2")
    compiled, macros = compile_kernel(kernel.stem, kernel.defines, chip.arch), dict(kernel.defines)
    in_word = np.dtype(np.uint32).itemsize // problem.dtype.itemsize if macros["T"] == "unsigned" else 1
    pairs = in_word * math.prod(int(macros[size]) for size in ("TM", "TN", "BK"))
    return Loop(machine_code.longest_loop(compiled.cubin, kernel.function), pairs)


def _count(chip: Device, kind: tuple[str, str, str]) -> str:
    """Return a cell: instructions a pair, the share of the semiring's own peak, and the rate, at most."""
    loop = inner_loop(chip, *kind)
    clocks = machine_code.clocks(loop.instructions, chip.capability)
    share = machine_code.clocks(machine_code.own(loop.instructions, loop.pairs), chip.capability) / clocks
    hertz = chip.single / machine_code.RATES[chip.capability].single
    rate = loop.pairs / clocks * 128 * hertz
    return f"{loop.instructions.total() / loop.pairs:.2f}, {share:.0%}, {rate / 1e12:.3g}"


def _judge(job: Job) -> tuple[Job, list[str]]:
    return job, job.faults()


def judged(every: list[Job]) -> Iterator[tuple[Job, list[str]]]:
    """Yield each job with its faults, compiled by a process for each processor."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_judge, every, chunksize=8)


def _row(chip: Device, found: list[Job], declined: dict[str, str]) -> str:
    """Return a row of the table of chips, of jobs that compile."""
    taken = [(job, job.taken()) for job in found]
    spilled = defaultdict(int)
    for job, of in taken:
        if of.spill_bytes and not job.may_spill:
            spilled[job.kernel.stem] = max(spilled[job.kernel.stem], of.spill_bytes)
    shared = max(of.shared_bytes + job.kernel.shared_bytes for job, of in taken)
    spills = ", ".join(f"{stem} {size}" for stem, size in sorted(spilled.items(), key=lambda x: -x[1])[:4]) or "none"
    loops = sum(of.spill_bytes > 0 for job, of in taken if job.kernel.stem == "peak")
    cells = chip.arch, chip.name, len(found), max(of.registers for _, of in taken), f"{shared:,}", spills, loops
    return f"| {' | '.join(map(str, cells))} | {', '.join(declined) or 'none'} |"


def main() -> int:
    """Compile all, print the tables, and return how many kernels have faults."""
    by_chip = {chip.name: jobs(chip) for _, chip in sorted(CHIPS.items())}
    faults = 0
    for number, (job, found) in enumerate(judged([job for every, _ in by_chip.values() for job in every])):
        if number % 100 == 0:
            print(f"{number} compiled", file=sys.stderr, flush=True)
        faults += bool(found)
        for fault in found:
            print(f"{job.arch} {job.kernel.stem}.cu {job.kernel.function}: {fault}", file=sys.stderr, flush=True)
    if faults:
        return faults
    heads = "target, chip, kernels, registers, shared memory, bytes spilled, ceilings that spill, declined"
    print(f"| {' | '.join(heads.split(', '))} |")
    print("|---|---|---:|---:|---:|---|---:|---|")
    for chip in CHIPS.values():
        print(_row(chip, *by_chip[chip.name]))
    if machine_code.disassembler():
        print("\nInstructions a pair, predicted share of the semiring's own peak, predicted 10^12 pairs a second\n")
        print("| product | " + " | ".join(chip.arch for chip in CHIPS.values()) + " |")
        print("|---" * (1 + len(CHIPS)) + "|")
        for kind in COUNTED:
            print(f"| {' '.join(kind[1:])} | {' | '.join(_count(chip, kind) for chip in CHIPS.values())} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main() > 0)
