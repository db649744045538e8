"""``check --fuzz``: random programs in processes of their own, and a line for each that fails."""

from __future__ import annotations

import collections
import os
import queue
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import registry
from harness.api.arrays import kind_of
from harness.api.choice import choose
from harness.cli import console
from harness.errors import HarnessError
from harness.problem import mixed_dtypes
from harness.proof import fuzz
from harness.proof.drawing import Limits, nth_program
from harness.proof.programs import Program, contents
from harness.run.process import WorkerFailed, WorkerProcess

REPORT_S = 2.0  # from report to report of a process
SHRINK_S = 20.0  # that a program may take to become simpler
RESTARTED = 1000  # processes that take the place of others have seeds so many times further
COUNTED = ("programs", "by call", "by backend", "refused")


def check(
    seconds: float, *, seed: int | None, names: list[str], gpu: bool, processes: int, patience: float, program: str
) -> int:
    """Run programs for so many seconds, or one program; print a summary and what is wrong; return the number of kinds.

    Parameters
    ----------
    seconds : float
    seed : int or None
        Of the first process; the others have the next ones. None: the time.
    names : list of str
        Backends that every product asks for; none: mostly ``"auto"``.
    gpu : bool
        Have the arrays on a GPU, by CuPy.
    processes : int
    patience : float
        Seconds without a report that count as a hang.
    program : str
        One program, as `Program.to_json` writes it.
    """
    if gpu:
        registry.find("gpu-naive")  # raises, with what is missing
    seed = int(time.time()) if seed is None else seed
    common = {"seconds": seconds, "gpu": gpu, "names": names, "program": program}
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in COUNTED}
    wrong: collections.Counter[str] = collections.Counter()
    begun = time.monotonic()
    for item in _reports(processes if not program else 1, patience, seed, common):
        for name in COUNTED:
            counts[name].update(item.get(name, {}))
        for line, error in item.get("wrong", ()):
            kind = _kind(error)
            wrong[kind] += 1
            if wrong[kind] == 1:
                console.print_lines(f"wrong     {error}".replace("\n", "\n          "), f"  program {line}")
    total = counts["programs"]["run"]
    elapsed = time.monotonic() - begun
    console.print_lines(f"seed {seed}: {total} programs of {len(fuzz.TURNS)} calls in {elapsed:.0f} s")
    for name in COUNTED[1:]:
        told = ", ".join(f"{what} {count}" for what, count in counts[name].most_common())
        console.print_lines(f"{name}: {told or 'none'}")
    for kind, count in wrong.most_common():
        console.print_lines(f"wrong {count} times: {kind}")
    if not wrong:
        console.print_lines("nothing is wrong")
    return len(wrong)


def _kind(error: str) -> str:
    """Return what errors of one kind have in common: the text of the first line without numbers and call."""
    first = re.sub(r"^call \d: ", "", error).partition("\n")[0]
    return re.sub(r"-?(\d[\d.e+-]*|nan|inf)", "N", first)[:150]


def _reports(processes: int, patience: float, seed: int, common: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the reports of all processes as they come.

    A process that fails is reported with the program that it ran, and another takes its place, with other seeds.
    """
    end = time.monotonic() + common["seconds"]
    items: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
    workers: dict[int, WorkerProcess] = {}
    threads = []

    def listen(number: int, journal: Path) -> None:
        left = {**common, "seconds": end - time.monotonic()}
        try:
            for item in workers[number].stream(reports, patience, seed=seed + number, journal=str(journal), **left):
                items.put((number, item))
        except WorkerFailed as failure:
            items.put(
                (number, {"wrong": [[journal.read_text(), f"the process failed: {failure}"]], "has failed": True})
            )
        finally:
            items.put((number, None))

    with tempfile.TemporaryDirectory() as folder:

        def start(number: int) -> None:
            workers[number] = WorkerProcess()  # in the main thread, with which it ends
            journal = Path(folder, str(number))
            journal.touch()
            threads.append(threading.Thread(target=listen, args=(number, journal), daemon=True))
            threads[-1].start()

        try:
            for number in range(processes):
                start(number)
            while workers:
                number, item = items.get()
                if item is None:
                    workers.pop(number).kill()
                    continue
                yield item
                if "has failed" in item and time.monotonic() < end and not common["program"]:
                    start(number + processes * RESTARTED)
        finally:
            for worker in workers.values():
                worker.kill()
            for thread in threads:
                thread.join()


def reports(
    *, seed: int, seconds: float, gpu: bool, names: list[str], program: str, journal: str
) -> Iterator[dict[str, Any]]:
    """Run programs of `seed`, or `program` alone, and yield what was counted since the last report.

    The program that runs stands in the file `journal`: if the process dies, it is what was run last.
    """
    memory, calls, limits = _memory(gpu=gpu), public_calls(), _limits(names, gpu=gpu)
    end, number = time.monotonic() + seconds, 0
    descriptor = os.open(journal, os.O_WRONLY)
    item, due = _report(), time.monotonic() + REPORT_S
    while time.monotonic() < end and not (program and number):
        one = Program.from_json(program) if program else nth_program(seed, number, limits)
        number += 1
        line = one.to_json()
        os.pwrite(descriptor, line.encode(), 0)
        os.ftruncate(descriptor, len(line))
        outcome = fuzz.run(one, calls, memory)
        item["programs"]["run"] += 1
        item["by call"][one.entry] += 1
        item["by backend"][_backend_of(one, memory)] += 1
        if outcome.refusal:
            item["refused"][_kind(outcome.refusal)] += 1
        if outcome.wrong:
            item["wrong"].append(_simplest(one, outcome.wrong, calls, memory))
        if outcome.wrong or time.monotonic() > due:
            yield item
            item, due = _report(), time.monotonic() + REPORT_S
    os.close(descriptor)
    yield item


def _report() -> dict[str, Any]:
    return {"wrong": [], **{name: collections.Counter() for name in COUNTED}}


def public_calls() -> dict[str, Callable[..., Any]]:
    """Return the public calls that programs are of."""
    import harness
    from harness import paths

    names = "gemm gemm_argk einsum gemv symv ger syr syrk axpy".split()
    return {"closure": paths.closure, **{name: getattr(harness, name) for name in names}}


def _memory(*, gpu: bool) -> fuzz.Memory:
    if not gpu:
        return fuzz.HostMemory()
    import cupy

    return fuzz.CupyMemory(cupy)


def _limits(names: list[str], *, gpu: bool) -> Limits:
    """Return the limits of this machine, with the backends that compute here."""
    without = _dtypes_without_arrays() if gpu else ()
    if names:
        return Limits(on_device=gpu, backends=tuple(names), share_named=1, without=without)
    here = [x for x in registry.discover() if x.backend and not x.unavailable() and not x.backend.starts_processes]
    able = [x.name for x in here if ("device arrays" in getattr(x.backend, "takes", ())) == gpu]
    return Limits(on_device=gpu, backends=tuple(able), without=without)


def _dtypes_without_arrays() -> tuple[str, ...]:
    """Return bfloat16 if this CuPy has no arrays of it."""
    import cupy

    for narrow, _ in mixed_dtypes():
        try:
            cupy.empty(1, narrow)
        except (TypeError, ValueError):
            return (narrow.name,)
    return ()


def _backend_of(program: Program, memory: fuzz.Memory) -> str:
    """Return the backend that computes the program, as far as one call of it does."""
    if program.entry in ("einsum", "closure") or program.backend != "auto":
        return program.backend if program.backend != "auto" else f"several for {program.entry}"
    inputs = contents(program, 0)
    try:
        problem = fuzz.problem_of(program, [x.of(inputs[x.buffer]) for x in program.operands.values()])[0]
        first = next(iter(program.operands.values()))
        arrays = kind_of("fuzz", {"a": memory.view(memory.place(inputs[first.buffer]), first)})
        return choose(problem.of_one(), "auto", arrays, problem.batch, program.options.get("threads")).name
    except HarnessError:
        return "none"


def _simplest(
    program: Program, wrong: str, calls: dict[str, Callable[..., Any]], memory: fuzz.Memory
) -> tuple[str, str]:
    """Return the line of a simpler program that is wrong in the same way, and what is wrong."""
    errors, end = {program.to_json(): wrong}, time.monotonic() + SHRINK_S

    def is_wrong(candidate: Program) -> bool:
        if time.monotonic() > end:
            return False
        found = fuzz.run(candidate, calls, memory).wrong
        errors[candidate.to_json()] = found
        return _kind(found) == _kind(wrong)

    simpler = fuzz.shrunk(program, is_wrong)
    return simpler.to_json(), errors[simpler.to_json()]
