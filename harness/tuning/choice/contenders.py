"""The backends that a measured order may name: those whose arithmetic `auto` allows, beyond the rungs to learn from."""

from __future__ import annotations

import contextlib

from harness import registry
from harness.interface import Backend
from harness.problem import Problem

# Rungs below this step are there to be learned from: each is behind a later one. On the host, and on a GPU.
FIRST_STEP = {False: 50, True: 69}


def contenders(problem: Problem, *, on_device: bool) -> list[Backend]:
    """Return the backends that a measured order may name for `problem`, the best step first.

    Not those that start processes, nor the rungs that are steps to others (`FIRST_STEP`).
    """
    able = registry.able(problem, on_device=on_device)
    return [backend for backend in able if is_contender(backend, problem) and backend.step >= FIRST_STEP[on_device]]


def is_contender(backend: Backend, problem: Problem) -> bool:
    """Return whether `backend` computes in the arithmetic that auto allows, and starts no processes.

    Not one that fails to say so, as a plug-in may.
    """
    with contextlib.suppress(Exception):
        return backend.keeps_arithmetic(problem) and not backend.loosens(problem) and not backend.starts_processes
    return False
