"""The libraries that the fast kernels are compared with, and the semirings and dtypes of these comparisons."""

from __future__ import annotations

import numpy as np

from experiments.ladder import FIRST_LIBRARY_STEP
from harness import registry
from harness.experiment import Contender, backend_contender
from harness.machine import Machine
from harness.semiring import SEMIRINGS

SUBJECT = "cpu-simd"

ONE, ALL = "one thread", "all threads"


def against_peers(threads: int = 1) -> list[Contender]:
    """Return the subject, then every CPU backend that wraps a library, the highest step first.

    A library that is missing or declines a product is included: it becomes a gap with its reason.
    """
    steps = [(e.backend.step, e.name) for e in registry.discover() if e.backend and e.name.startswith("cpu-")]
    peers = [name for step, name in sorted(steps, reverse=True) if step >= FIRST_LIBRARY_STEP]
    return [backend_contender(name, threads=threads) for name in (SUBJECT, *peers)]


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
