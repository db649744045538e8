"""``check --fuzz``: random programs in processes of their own, a line for each that fails, and a summary."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from harness import registry, sequences
from harness.api import argk, gemm, matrix_vector, paths
from harness.api.arrays import kind_of
from harness.api.choice import choose
from harness.cli import console
from harness.contraction import einsum
from harness.dtypes import carrier, mixed_dtypes
from harness.errors import HarnessError
from harness.proof import fences
from harness.proof.programs import oracle
from harness.proof.programs.drawing import Limits, nth_program
from harness.proof.programs.memory import CupyMemory, FencedMemory, HostMemory, Memory, tight
from harness.proof.programs.program import PRODUCTS, SEQUENCES, Program, contents
from harness.proof.programs.run import TURNS, run, shrunk
from harness.run.process import WorkerFailed, WorkerProcess

REPORT_S = 2.0  # from report to report of a process
SHRINK_S = 20.0  # that a program may take to become simpler
RESTARTED = 1000  # processes that take the place of others have seeds so many times further
COUNTED = ("programs", "by call", "by backend", "refused")

Calls = dict[str, Callable[..., Any]]
CALLS: Calls
CALLS = {"gemm": gemm.gemm, "gemm_argk": argk.gemm_argk, "einsum": einsum.einsum, "closure": paths.closure}
CALLS |= {name: getattr(matrix_vector, name) for name in PRODUCTS if name not in CALLS}
CALLS |= {name: getattr(sequences, name) for name in SEQUENCES}


def check(seconds: float, *, seed: int | None, processes: int, patience: float, **common: Any) -> int:
    """Run programs for so many seconds, or one; print a summary and what is wrong; return how many kinds of that.

    Parameters
    ----------
    seconds, patience : float
        The second without a report counts as a hang.
    seed : int or None
        Of the first process; the others have the next ones. None: the time.
    processes : int
    **common
        ``gpu``: have arrays of CuPy. ``names``: backends that every product asks for; none: mostly ``"auto"``.
        ``program``: run this one alone, as `Program.to_json` writes it. ``sanitize``: see accesses beside arrays.
    """
    if common["gpu"]:
        registry.find("gpu-naive")  # raises, with what is missing
    seed, begun = int(time.time()) if seed is None else seed, time.monotonic()
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in COUNTED}
    wrong: collections.Counter[str] = collections.Counter()
    for item in _reports(1 if common["program"] else processes, seconds, patience, seed, common):
        for name in COUNTED:
            counts[name].update(item.get(name, {}))
        for line, error in item["wrong"]:
            wrong[_kind(error)] += 1
            if wrong[_kind(error)] == 1:
                console.print_lines(f"wrong     {error}".replace("\n", "\n          "), f"  program {line}")
    elapsed, total = time.monotonic() - begun, counts["programs"]["run"]
    console.print_lines(f"seed {seed}: {total} programs of {len(TURNS)} calls in {elapsed:.0f} s")
    for name in COUNTED[1:]:
        told = ", ".join(f"{what} {count}" for what, count in counts[name].most_common())
        console.print_lines(f"{name}: {told or 'none'}")
    console.print_lines(*(f"wrong {count} times: {kind}" for kind, count in wrong.most_common()))
    return len(wrong)


def _kind(error: str) -> str:
    """Return what errors of one kind have in common: the first line without numbers."""
    first = re.sub(r"^call \d: ", "", error).partition("\n")[0]
    return re.sub(r"-?\d[\d.e+-]*|\b-?(nan|inf)\b", "N", first)[:150]


def _reports(
    processes: int, seconds: float, patience: float, seed: int, common: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the reports of all processes as they come.

    A process that fails is reported with the program that it ran, and another takes its place, with other seeds.
    """
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        running: dict[WorkerProcess, int] = {}

        def start(number: int) -> None:
            worker = WorkerProcess()
            stack.callback(worker.kill)
            Path(folder, str(number)).touch()
            own = {"seed": seed + number, "seconds": end - time.monotonic(), "journal": str(Path(folder, str(number)))}
            factory = f"{reports.__module__}:{reports.__qualname__}"
            worker.call("stream", patience, factory=factory, arguments={**common, **own})
            worker.begin("next_item", patience)
            running[worker] = number

        for number in range(processes):
            start(number)
        while running:
            wait([sign for worker in running for sign in worker.signs], min(x.seconds_left for x in running))
            for worker, number in list(running.items()):
                if worker.seconds_left and not wait(worker.signs, 0):
                    continue
                del running[worker]
                try:
                    items = worker.finish()
                except WorkerFailed as failure:
                    yield {"wrong": [(Path(folder, str(number)).read_text(), f"the process failed: {failure}")]}
                    if time.monotonic() < end and not common["program"]:
                        start(number + RESTARTED)
                    continue
                yield from items
                if items:
                    worker.begin("next_item", patience)
                    running[worker] = number


def reports(
    *, seed: int, seconds: float, gpu: bool, names: list[str], program: str, sanitize: bool, journal: str
) -> Iterator[dict[str, Any]]:
    """Run programs of `seed`, or `program` alone, and yield what was counted since the last report.

    The program that runs stands in the file `journal`: if the process dies, it is what was run last.
    """
    memory, calls = _memory(gpu=gpu, is_fenced=sanitize)
    limits, end, number = _limits(names, gpu=gpu), time.monotonic() + seconds, 0
    item, due = _report(), time.monotonic() + REPORT_S
    with Path(journal).open("r+b", buffering=0) as file:
        while time.monotonic() < end and not (program and number):
            one = Program.from_json(program) if program else nth_program(seed, number, limits)
            one, number = tight(one) if sanitize else one, number + 1
            line = one.to_json().encode()
            os.pwrite(file.fileno(), line, 0)
            file.truncate(len(line))
            outcome = run(one, calls, memory)
            item["programs"]["run"] += 1
            item["by call"][one.call] += 1
            item["by backend"][_backend_of(one, memory)] += 1
            if outcome.refusal:
                item["refused"][_kind(outcome.refusal)] += 1
            if outcome.wrong:
                item["wrong"].append(_simplest(one, outcome.wrong, calls, memory))
            if outcome.wrong or time.monotonic() > due:
                yield item
                item, due = _report(), time.monotonic() + REPORT_S
    yield item


def _report() -> dict[str, Any]:
    return {"wrong": [], **{name: collections.Counter() for name in COUNTED}}


def _memory(*, gpu: bool, is_fenced: bool) -> tuple[Memory, Calls]:
    """Return where arrays lie, and the calls; `is_fenced`: between fences, watched; on a GPU without CuPy's pools."""
    if not gpu:
        guarded = {name: fences.guarded(function) for name, function in CALLS.items()}
        return (FencedMemory(), guarded) if is_fenced else (HostMemory(), CALLS)
    import cupy

    if is_fenced:
        cupy.cuda.set_allocator(None)
    return CupyMemory(cupy), CALLS


def _limits(names: list[str], *, gpu: bool) -> Limits:
    """Return the limits of this machine, with the backends that compute here, and the dtypes that CuPy has not."""
    without = []
    for narrow, _ in mixed_dtypes() if gpu else ():
        import cupy

        try:
            cupy.empty(1, carrier(narrow)).view(narrow)
        except (TypeError, ValueError):
            without.append(narrow.name)
    if names:
        return Limits(gpu, tuple(names), share_named=1, without=tuple(without))
    here = [entry.backend for entry in registry.discover() if entry.backend and not entry.unavailable()]
    able = [x.name for x in here if ("device arrays" in x.takes) == gpu and not x.starts_processes]
    return Limits(gpu, tuple(able), without=tuple(without))


def _backend_of(program: Program, memory: Memory) -> str:
    """Return the backend that computes the program, if it is one product."""
    if program.call not in PRODUCTS or program.backend != "auto":
        return f"several for {program.call}" if program.backend == "auto" else program.backend
    before = contents(program, 0)
    try:
        problem = oracle.product_of(program, [oracle.read(view, before) for view in program.operands.values()])[0]
        array = memory.view(memory.place(before[program.views[0].buffer]), program.views[0])
        threads = program.options.get("threads")
        return choose(problem.of_one(), "auto", kind_of("check", {"a": array}), problem.batch, threads).name
    except HarnessError:
        return "none"


def _simplest(program: Program, wrong: str, calls: Calls, memory: Memory) -> tuple[str, str]:
    """Return the line of a simpler program that is wrong in the same way, and what is wrong."""
    errors, end = {program.to_json(): wrong}, time.monotonic() + SHRINK_S

    def is_wrong(simpler: Program) -> bool:
        if time.monotonic() > end:
            return False
        errors[simpler.to_json()] = found = run(simpler, calls, memory).wrong
        return _kind(found) == _kind(wrong)

    line = shrunk(program, is_wrong).to_json()
    return line, errors[line]
