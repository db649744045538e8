"""The libraries that the fast kernels are compared with, and the semirings and dtypes of these comparisons."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterable

import numpy as np

from harness import registry
from harness.experiment import Contender, backend_contender
from harness.interface import Backend
from harness.machine import Machine, detect
from harness.problem import Problem
from harness.semiring import SEMIRINGS

SUBJECT = "cpu-simd"
# Backends from this step on are libraries, not steps of the ladder.
FIRST_LIBRARY_STEP = 80
COMMONEST = "cpu-numpy"

# One of them is the fastest where all are installed: for products of floats, then over min_plus and max_plus.
FASTEST = ("cpu-mkl", "cpu-openblas"), ("cpu-tropical-gemm",)

ONE, ALL = "one thread", "all threads"

# What takes part only where its package is installed: too large, or too seldom used, to be installed for a comparison.
PACKAGES = {
    **dict.fromkeys(("torch", "cpu-torch", "torch.bmm"), "torch"),
    **{name: name for name in ("jax", "dask", "graphblas")},
    "bfloat16": "ml_dtypes",
}


def installed(names: Iterable[str]) -> list[str]:
    """Return `names` without those of `PACKAGES` whose package is not installed."""
    return [name for name in names if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None]


def against_peers(threads: int = 1, machine: Machine | None = None) -> list[Contender]:
    """Return the subject, then every CPU backend that wraps a library, the highest step first.

    A library stands there in each of its configurations on `machine`, by default this one. One that is missing or
    declines a product is included: it becomes a gap with its reason. Only those of `PACKAGES` are left out.
    """
    configured = _in_each_configuration(_libraries(), threads, machine or detect())
    return [backend_contender(SUBJECT, threads=threads), *configured]


def libraries_for(problem: Problem, machine: Machine, preset: str) -> list[Contender]:
    """Return every library that takes `problem`, in each of its configurations, for one thread; NumPy is the first.

    The fastest of them is the fastest library. One that is missing becomes a gap with its reason, one that declines
    the product is left out. The smoke preset has NumPy alone.
    """
    if preset == "smoke":
        return [backend_contender(COMMONEST)]
    taking = [backend for backend in _libraries() if backend.declines(problem) is None]
    return _in_each_configuration(sorted(taking, key=lambda backend: backend.name != COMMONEST), 1, machine)


def _libraries() -> list[Backend]:
    """Return the CPU backends that wrap a library, the highest step first, of those that are `installed`."""
    entries = {entry.name: entry.backend for entry in registry.discover() if entry.name.startswith("cpu-")}
    found = [backend for name in installed(entries) if (backend := entries[name])]
    return sorted((b for b in found if b.step >= FIRST_LIBRARY_STEP), key=lambda b: (-b.step, b.name))


def _in_each_configuration(libraries: Iterable[Backend], threads: int, machine: Machine) -> list[Contender]:
    return [
        _configured(library, words, threads, machine)
        for library in libraries
        for words in library.configurations(machine)
    ]


def fastest_libraries(machine: Machine) -> list[Contender]:
    """Return the libraries of `FASTEST`, each told which processor this is, for one thread."""
    known = {entry.name: entry.backend for entry in registry.discover()}
    found = [backend for names in FASTEST for name in names if (backend := known.get(name)) is not None]
    return [_configured(backend, list(backend.configurations(machine))[-1], 1, machine) for backend in found]


def fastest_peers(machine: Machine) -> list[Contender]:
    """Return the subject, the commonest library as it is installed, and those of `FASTEST`, for one thread."""
    return [backend_contender(SUBJECT), backend_contender(COMMONEST), *fastest_libraries(machine)]


def _configured(backend: Backend, words: str, threads: int, machine: Machine) -> Contender:
    """Return `backend` in the configuration called `words`, which its label ends with."""
    contender = backend_contender(backend.name, label=f"{backend.name} as {words}" if words else "", threads=threads)
    return dataclasses.replace(contender, environment=backend.configurations(machine)[words])


def thread_counts(machine: Machine) -> dict[str, int]:
    """Return the numbers of threads by name: one, and all cores if there are more."""
    return {ONE: 1, ALL: machine.cores} if machine.cores > 1 else {ONE: 1}


def defined(dtypes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return every named semiring with each of `dtypes` that it is defined for; with bool if there is none."""
    pairs = []
    for name, semiring in SEMIRINGS.items():
        legal = [dtype for dtype in dtypes if semiring.unsupported(np.dtype(dtype)) is None]
        pairs += [(name, dtype) for dtype in legal or ("bool",)]
    return pairs
