"""Contenders and cases that experiments on GPUs share; without a GPU, one case that reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments._parts.peers import SUBJECT as ON_CPU
from harness.experiment import Case, Contender, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

TILE = 128  # the longest side of a tile that gpu-tuned has
SUBJECT, VENDOR = "gpu-tuned", "gpu-cublas"
DEVICE = {"device": "gpu"}
PEAK_TASK, BANDWIDTH_TASK = "backends.gpu._tasks.ceilings:peak", "backends.gpu._tasks.ceilings:bandwidth"
ERROR_TASK = "experiments._parts.emulation_task:product"
TRANSFER_TASK = "backends.gpu._tasks.transfers:product"
KERNEL_TASK = "experiments._parts.kernel_task:product"


def kind_of_size(n: int) -> str:
    """Return the kind of a size: the first two fit all tiles of gpu-tuned."""
    if n & (n - 1) == 0:
        return "power of two"
    if n % TILE == 0:
        return "tile multiple"
    if n % TILE in (1, TILE - 1):
        return "multiple ± 1"
    if n % 2 == 0:
        return "even"
    return "prime" if all(n % divisor for divisor in range(3, int(n**0.5) + 1, 2)) else "odd"


def gpu_case(n: int, semiring: str, dtype: str, contenders: Iterable[Contender], **axes: object) -> Case:
    """Return the case of a square product on the GPU."""
    return product_case(Problem(n, n, n, semiring, dtype), list(contenders), **DEVICE, **axes)


def kernel_contender(
    backend: str, label: str = "", *, notes: Mapping[str, str] | None = None, **parameters: int | str
) -> Contender:
    """Return the contender that computes with one kernel, whose share of a multiprocessor is recorded.

    `notes` are entries of the table beside a figure, by its columns.
    """
    arguments = {"backend": backend, "parameters": parameters, "notes": notes or {}}
    return Contender(label or backend, arguments, task=KERNEL_TASK)


def peak_case(semiring: str, dtype: str) -> Case:
    """Return the case that measures the register-only peak of the GPU."""
    arguments = {"semiring": semiring, "dtype": dtype}
    return Case({"role": "peak", **arguments, **DEVICE}, (Contender("peak", task=PEAK_TASK),), arguments)


def bandwidth_case(level: str, size_bytes: int) -> Case:
    """Return the case that measures how fast the GPU copies a buffer of `size_bytes`, read and written."""
    copy = Contender("bandwidth", task=BANDWIDTH_TASK)
    return Case({"role": "bandwidth", "level": level, **DEVICE}, (copy,), {"size_bytes": size_bytes})


def best_of_cpu(semiring: str, machine: Machine) -> list[Contender]:
    """Return the CPU contenders to compare with those of the GPU, on all cores."""
    names = ["cpu-numpy", ON_CPU] if semiring == "plus_times" else [ON_CPU]
    return [backend_contender(name, threads=machine.cores) for name in names]


def best_of_gpu(machine: Machine) -> list[Contender]:
    """Return the GPU contender to compare with those of the CPU; none without a GPU."""
    return [backend_contender(SUBJECT)] if machine.gpu else []


def or_absent(gpu_cases: list[Case], machine: Machine, **axes: object) -> list[Case]:
    """Return `gpu_cases`; without a GPU one small case, whose contender reports what is missing."""
    if machine.gpu:
        return gpu_cases
    return [gpu_case(64, "plus_times", "float32", [backend_contender(SUBJECT)], **axes)]
