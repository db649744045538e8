"""Products of a matrix and a vector, and the rate at which the machine reads: cases that several experiments share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from experiments._parts.gpu import DEVICE
from experiments._parts.ranks import declined_contender
from harness.experiment import Case, Contender, backend_contender, product_axes, product_case
from harness.machine import Machine
from harness.problem import Problem

SIDES = A_X, X_A = "A x", "x A"
TASK = "experiments._parts.vector_task:product"
LIBRARY, SUBJECT = "cpu-numpy", "cpu-simd"
LIBRARIES = (LIBRARY, "cpu-mkl")  # one of them is the fastest
GPU_LIBRARY, GPU_SUBJECT = "gpu-mv-cublas", "gpu-mv-tuned"
GPU_RUNGS = tuple(f"gpu-mv-{name}" for name in "thread cached reduce grid scatter".split())

# A matrix comes from memory if it is so much larger than the last cache. On a GPU calls take copies of it in turns.
BEYOND_CACHE, SMALLEST_BUFFER = 4, 64 << 20
GPU_CACHE, MOST_COPIES = 64 << 20, 64
GPU_BUFFER = 1 << 32

# Part of the memory that a matrix may take: the host keeps four of it, and as many to prove the result.
PART_OF_MEMORY, PART_OF_GPU_MEMORY = 1 / 8, 3 / 4
OUT_OF_MEMORY = "out of memory"

MEMORY, CACHE = "memory", "cache"


def sided(rows: int, columns: int, side: str, dtype: str, semiring: str = "plus_times") -> Problem:
    """Return the product of a matrix of so many rows and columns with a vector on one side."""
    if side == A_X:
        return Problem(rows, 1, columns, semiring, dtype)
    return Problem(1, columns, rows, semiring, dtype)


def read_cases(machine: Machine) -> list[Case]:
    """Return the cases that measure how fast memory is read, that of the GPU too if there is one."""
    arguments = {"size_bytes": max(BEYOND_CACHE * machine.l3, SMALLEST_BUFFER)}
    reader = Contender("read", threads=machine.cores, task="backends.cpu._ceilings:bandwidth")
    found = [Case({"role": "bandwidth", "level": MEMORY}, (reader,), arguments)]
    if machine.gpu:
        on_gpu = Contender("read", task="backends.gpu._tasks.ceilings:read")
        found.append(Case({"role": "bandwidth", "level": MEMORY, **DEVICE}, (on_gpu,), {"size_bytes": GPU_BUFFER}))
    return found


def cpu_case(problem: Problem, machine: Machine, names: Iterable[str] = (*LIBRARIES, SUBJECT), **axes: Any) -> Case:
    """Return the case of `problem` on all cores; if the memory is too small, with contenders that say so.

    A matrix that comes from memory is read in turns with the products, by a plain sum: the rate of a shared machine
    moves by half within an hour.
    """
    size = matrix_bytes(problem)
    contenders = [backend_contender(name, threads=machine.cores) for name in names]
    level = MEMORY if size >= BEYOND_CACHE * machine.l3 else CACHE
    if level == MEMORY:
        contenders.append(Contender("read", threads=machine.cores, task="backends.cpu._ceilings:read_of"))
    return _case(problem, contenders, fits=fits(size, machine), level=level, **axes)


def gpu_contender(backend: str, label: str = "", **parameters: int | str) -> Contender:
    """Return the contender that computes with `backend` from operands drawn on the GPU."""
    return backend_contender(backend, label=label, task=TASK, **parameters)


def gpu_case(problem: Problem, contenders: Iterable[Contender], machine: Machine, **axes: Any) -> Case:
    """Return the case of `problem` on the GPU; if its memory is too small, with contenders that say so."""
    size = matrix_bytes(problem)
    memory = int(float(machine.gpu.get("memory_mib", 80 << 10))) << 20
    level = MEMORY if size * MOST_COPIES >= BEYOND_CACHE * GPU_CACHE else CACHE
    axes = {**axes, **DEVICE}
    return _case(problem, list(contenders), fits=size <= memory * PART_OF_GPU_MEMORY, level=level, **axes)


def fits(size: int, machine: Machine) -> bool:
    """Return whether the host has room for matrices of `size` bytes in all, with their copies."""
    return size <= (machine.memory or 1 << 34) * PART_OF_MEMORY


def out_of_memory(contenders: Iterable[Contender]) -> tuple[Contender, ...]:
    """Return contenders of the same labels that are recorded as declined: their matrices are too large."""
    return tuple(declined_contender(contender.label, OUT_OF_MEMORY) for contender in contenders)


def matrix_bytes(problem: Problem) -> int:
    """Return the bytes of the matrix."""
    return problem.m * problem.n * problem.k * problem.dtype.itemsize


def _case(problem: Problem, contenders: list[Contender], *, fits: bool, **axes: Any) -> Case:
    if fits:
        return product_case(problem, contenders, **axes)
    return Case({**product_axes(problem), **axes}, out_of_memory(contenders))
