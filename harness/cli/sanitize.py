"""Checks of the memory that products touch, for ``check --sanitize``: between fences on the host, by tools on a GPU."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from harness import registry
from harness.cli import console
from harness.machine import detect
from harness.proof import contract, entry_points, fences, sanitizers
from harness.proof.contract import Finding

PUBLIC = "public calls"  # the name under which their findings stand


def functions() -> dict[str, Callable[..., Any]]:
    """Return everything public that computes, by name."""
    from harness import linalg, sequences
    from harness.api import argk, gemm, matrix_vector, paths
    from harness.contraction import einsum

    found: dict[str, Callable[..., Any]] = {}
    for module in (linalg, sequences, argk, gemm, matrix_vector, paths, einsum):
        found.update((name, x) for name, x in vars(module).items() if callable(x) and not name.startswith("_"))
    return found


def public_names() -> tuple[str, ...]:
    """Return the public functions that have calls to check."""
    return tuple(dict.fromkeys(call.function for call in entry_points.calls()))


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


def products_on_gpu(name: str, first: int = 0) -> None:
    """Compute, for a tool that looks on, the products of one backend or public function, from number `first` on.

    Each is announced on stdout. Without CuPy's pools each array is an allocation of its own.
    """
    import cupy

    name_of_gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{sanitizers.DEVICE} {name_of_gpu}", flush=True)  # noqa: T201 read by `sanitizers`
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    for number, (entry, what, compute) in enumerate(_jobs(name)):
        if number >= first:
            print(f"{sanitizers.NEXT} {number} {entry}: {what}", flush=True)  # noqa: T201
            try:
                compute()
            except Exception as error:  # noqa: BLE001 it is reported like an error of the tool
                text = f"{type(error).__name__}: {error}".replace("\n", " ")
                print(f"{sanitizers.FAILED} {text}", flush=True)  # noqa: T201
            cupy.cuda.get_current_stream().synchronize()
    print(sanitizers.DONE, flush=True)  # noqa: T201


def _jobs(name: str) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield the entry point, the product, and what computes it, of one backend or public function."""
    known = functions()
    if name in known:
        for call in (call for call in entry_points.calls() if call.function == name):
            yield name, call.what, functools.partial(call.make, known, _on_gpu)
        return
    backend, here = registry.find(name), detect()
    for case in contract.memory_cases(backend):
        what = f"{case.problem.semiring.name} {case.problem.input_dtype.name} {case.aspect}: {case.what}"
        yield name, what, functools.partial(contract.run_case, backend, case, here)


def _on_gpu(x: np.ndarray) -> Any:
    """Return an equal array of CuPy, of the same strides, in an allocation of exactly its size.

    Gaps are written first, as those of a window are: some loads of 16 bytes hold elements of a gap that are not used.
    """
    import cupy

    from harness.operands import span

    low, high = span(x.shape, x.strides, x.itemsize) if x.size else (0, 0)
    memory = cupy.cuda.alloc(max(high - low, 1))
    memory.memset(0xFF, high - low)
    y = cupy.ndarray(x.shape, x.dtype, memory - low, strides=x.strides)
    y[...] = cupy.asarray(np.ascontiguousarray(x))
    return y


def gpu_findings(names: list[str], tools: Sequence[str]) -> Iterator[Finding]:
    """Run NVIDIA's tools over these backends and the public calls; yield a finding for each, and print a table.

    The table is printed, of what there is, if the run is interrupted as well.
    """

    def command(name: str, first: int) -> list[str]:
        return [sys.executable, "-m", "harness.cli.sanitize", name, str(first)]

    outcomes: list[sanitizers.Outcome] = []
    commands = {name: functools.partial(command, name) for name in (*public_names(), *names)}  # the longest first
    at_once = max(1, min(12, detect().cores * 3 // 4))
    try:
        for outcome in sanitizers.run(commands, tools or sanitizers.TOOLS, at_once=at_once):
            outcomes.append(outcome)
            faults = sanitizers.details([outcome], ours=True)
            what = f"{outcome.name} under {outcome.tool}: memory"
            detail = "\n".join(faults) or f"{outcome.products.total()} products"
            yield Finding("failed" if faults else "ok", what, detail)
    finally:
        _print_table(outcomes)


def _print_table(outcomes: list[sanitizers.Outcome]) -> None:
    """Print what is said of kernels of others, where and when it was seen, and the errors of each entry point."""
    if not outcomes:
        return
    others, used = sanitizers.details(outcomes, ours=False), sanitizers.columns(outcomes)
    console.print_lines(*(["kernels of CuPy and of NVIDIA's libraries:", *others] if others else []))
    gpu = ", ".join({outcome.device for outcome in outcomes})
    console.print_lines(f"{dt.datetime.now(tz=dt.UTC).date()}, {gpu}, {sanitizers.version()}")
    console.print_table(("entry point", "products", *used), sanitizers.table(outcomes), numeric=("products", *used))


if __name__ == "__main__":
    products_on_gpu(sys.argv[1], int(sys.argv[2]))
