"""Checks of the memory that products touch, for ``check --sanitize``: between fences on the host, by tools on a GPU."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from harness import registry
from harness.cli import console
from harness.machine import detect
from harness.proof import contract, entry_points, fences, sanitizers

PUBLIC = "public calls"  # the name under which their findings stand


def functions() -> dict[str, Callable[..., Any]]:
    """Return everything public that computes, by name."""
    from harness import linalg
    from harness.api import argk, gemm, matrix_vector, paths
    from harness.contraction import einsum

    found: dict[str, Callable[..., Any]] = {}
    for module in (linalg, argk, gemm, matrix_vector, paths, einsum):
        found.update((name, x) for name, x in vars(module).items() if callable(x) and not name.startswith("_"))
    return found


def public_findings() -> Iterator[dict[str, str]]:
    """Yield a finding for each public function whose calls were made with fenced arrays of NumPy."""
    known = functions()
    by_function = operator.attrgetter("function")
    for function, group in itertools.groupby(sorted(entry_points.calls(), key=by_function), by_function):
        faults, count = [], 0
        for call, side in itertools.product(group, fences.SIDES):
            count += 1
            try:
                with fences.watched():
                    call.make(known, lambda x, side=side: fences.fenced(x, side))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 it becomes a finding
                faults.append(f"{call.what}, nothing {side}: {error}")
        more = f" ({len(faults)} of {count} cases fail)"
        yield {
            "status": "failed" if faults else "ok",
            "what": f"{function}: memory",
            "detail": faults[0] + more if faults else f"{count} cases",
        }


def products_on_gpu(names: list[str], first: int) -> None:
    """Compute, for a tool that looks on, the products from number `first` on: those of backends, and public calls.

    Each is announced on stdout. Without CuPy's pools each array is an allocation of its own.
    """
    import cupy

    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    known, here = functions(), detect()

    def jobs() -> Iterator[tuple[str, str, Callable[[], None]]]:
        for backend in map(registry.find, names):
            for case in contract.memory_cases(backend):
                what = f"{case.problem.semiring.name} {case.problem.input_dtype.name} {case.aspect}: {case.what}"
                yield backend.name, what, lambda b=backend, c=case: contract.run_case(b, c, here)  # type: ignore[misc]
        for call in entry_points.calls():
            yield call.function, call.what, lambda c=call: c.make(known, _on_gpu)  # type: ignore[misc]

    for number, (entry, what, compute) in enumerate(jobs()):
        if number >= first:
            print(f"{sanitizers.NEXT} {number} {entry}: {what}", flush=True)  # noqa: T201 read by `sanitizers`
            try:
                compute()
            except Exception as error:  # noqa: BLE001 it is reported like an error of the tool
                text = f"{type(error).__name__}: {error}".replace("\n", " ")
                print(f"{sanitizers.FAILED} {text}", flush=True)  # noqa: T201
            cupy.cuda.get_current_stream().synchronize()
    print(sanitizers.DONE, flush=True)  # noqa: T201


def _on_gpu(x: np.ndarray) -> Any:
    """Return an equal array of CuPy, of the same strides, in an allocation of exactly its size; gaps stay unwritten."""
    import cupy

    from harness.operands import span

    low, high = span(x.shape, x.strides, x.itemsize) if x.size else (0, 0)
    y = cupy.ndarray(x.shape, x.dtype, cupy.cuda.alloc(max(high - low, 1)) - low, strides=x.strides)
    y[...] = cupy.asarray(np.ascontiguousarray(x))
    return y


def check_on_gpu(names: list[str]) -> int:
    """Run NVIDIA's tools over these backends and the public calls, print what they report; return how many errors."""

    def command(first: int) -> list[str]:
        return [sys.executable, "-m", "harness", "check", *names, "--sanitize", "--in-process", "--first", str(first)]

    outcomes = list(sanitizers.run(command))
    ours, others = sanitizers.details(outcomes, ours=True), sanitizers.details(outcomes, ours=False)
    console.print_lines(*ours, *(["kernels of CuPy and of NVIDIA's libraries:", *others] if others else []))
    tools = [outcome.tool for outcome in outcomes]
    console.print_table(("entry point", "products", *tools), sanitizers.table(outcomes), numeric=("products", *tools))
    return sum(report.is_ours for outcome in outcomes for report in outcome.reports)
