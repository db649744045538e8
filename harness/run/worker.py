"""The worker process of one contender: ``python -m harness.run.worker FD``.

It answers commands that come over the connection on the inherited descriptor FD, one at a time. The output of a backend
goes to stdout and stderr of this process, which the parent has pointed at a file. Other side effects are detected by
`harness.run.side_effects`. The parent's side is `harness.run.process`.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import math
import os
import resource
import signal
import statistics
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.errors import Declined, HarnessError, VerificationError
from harness.experiment import HOT
from harness.run import descendants
from harness.run.memory import available_memory
from harness.run.side_effects import Watch
from harness.run.task import Task
from harness.threads import disagreement, limit, read_back
from harness.timing.clock import Clock, CpuClock
from harness.timing.sampler import ClockSampler

MEMORY_FRACTION = 0.5
# Bytes of any one file, that of the output included. A backend that shares memory, which counts as a file, may raise
# this to what it may allocate.
MOST_PRINTED = 1 << 28
LONGEST_MESSAGE = 1000
_PR_SET_PDEATHSIG = 1
# A call on new operands that takes so many times as long as the timed ones, and so much longer [ns], computes what they
# did not. The machine may hold it up. So the fastest of so many counts, tried for so long [ns], and calls on the same
# operands, taken in turn with them, say what the machine takes now.
KEEPS_FACTOR, KEEPS_NS = 4.0, 1e6
NEW_CALLS, NEW_CALLS_NS, MOST_NEW_CALLS = 5, 1e9, 50
# New operands lie in no cache of the host. What it may take to bring a byte, as others use the memory too: 4 GB/s.
COLD_NS_A_BYTE = 0.25
# On a device the host also launches what the clock has found in a queue.
LAUNCHES_NS = 5e6


class ThreadsChanged(HarnessError):
    """A library does not use the number of threads that it was told to use, so its times mean something else."""


class Worker:
    """Holds one task, or one stream of findings, and executes commands on it. Public methods are the commands."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._sampler: ClockSampler | None = None
        self._items: Iterator[Any] = iter(())
        self.threads = 1
        self.may_keep_processes = False
        self._fastest_ns = math.inf  # of the samples of this task
        self._bytes = 0.0  # that it moves at least
        self._limit = contextlib.ExitStack()

    def prepare(self, task: str, arguments: Mapping[str, Any], threads: int, series: str = HOT) -> Any:
        """Make the task with the factory ``"module:function"``, to be sampled in `series`; return its facts as JSON."""
        self.release()
        self.threads = threads
        with limit(threads):
            made: Task = _function(task)(threads=threads, **arguments)
        self._limit.enter_context(limit(threads))  # anew: also for the libraries that the task brought along
        self._task = made
        self.may_keep_processes = getattr(made, "starts_processes", False)
        clock = getattr(made, "clock", CpuClock)()
        self._sampler = ClockSampler(made.run, made.wait, clock, series)
        facts = dict(made.facts())
        self._bytes = float(facts.get("bytes_moved") or 0)
        return _as_json(facts)

    def stream(self, factory: str, arguments: Mapping[str, Any], *, starts_processes: bool = False) -> None:
        """Begin the iterator that the function ``"module:function"`` returns; `next_item` reads it.

        With `starts_processes` it may have processes that live on, as a task may.
        """
        self.release()
        self.may_keep_processes = starts_processes
        self._items = _function(factory)(**arguments)

    def next_item(self) -> list[Any]:
        """Return the next item of the stream as JSON, in a list; an empty list at its end."""
        return [_as_json(item) for item in itertools.islice(self._items, 1)]

    def prove(self) -> dict[str, Any]:
        """Run once and verify; return the sentence ``verified``, and ``elapsed_ns`` of the call.

        The result is spoiled before and after. Operands that can be turned are turned for this call only. So a task
        that does nothing while it is timed, or repeats an earlier result, fails its last verification.
        """
        task = self._the_task()
        turn_operands = getattr(task, "turn", lambda: None)  # a task without operands has none
        task.spoil()
        turn_operands()
        elapsed_ns = CpuClock().sample(task.run, task.wait, 1).ns
        verified = task.verify()
        task.spoil()
        turn_operands()
        return {"verified": verified, "elapsed_ns": elapsed_ns}

    def verify(self) -> str:
        """Verify the result of the last call, and that calls do not live on earlier results; say what was compared."""
        verified = self._the_task().verify()
        self._check_computes_anew()
        return verified

    def _check_computes_anew(self) -> None:
        """Raise if calls on operands that were never there take far longer than those that were timed.

        The clock of a device does not see every stream. So the host times them there, until the device has nothing to
        do. Elsewhere the clock that timed the others does: that of ranks leaves out what the host does around them.
        """
        task, sampler = self._the_task(), self._sampler
        renew = getattr(task, "renew", None)
        if renew is None or sampler is None or math.isinf(self._fastest_ns):
            return
        finish = getattr(sampler.clock, "finish", None)

        def wait() -> None:
            task.wait()
            if finish is not None:
                finish()

        def renewed(clock: Clock) -> float:
            task.spoil()
            renew()
            wait()
            return clock.sample(task.run, wait, 1).ns

        more_ns = KEEPS_NS + COLD_NS_A_BYTE * self._bytes if finish is None else LAUNCHES_NS
        clock = sampler.clock if finish is None else CpuClock()
        new, same = list[float](), [self._fastest_ns]
        while len(new) < NEW_CALLS or (sum(new) < NEW_CALLS_NS and len(new) < MOST_NEW_CALLS):
            new.append(renewed(clock))
            if finish is None and len(new) > 1:
                same.append(clock.sample(task.run, wait, 1).ns)
            limit_ns = KEEPS_FACTOR * max(self._fastest_ns, statistics.median(same)) + more_ns
            if min(new) <= limit_ns:
                return
        new_ns = min(new)
        is_seen = finish is None or renewed(sampler.clock) > limit_ns
        raise VerificationError(
            f"{'it keeps results' if is_seen else 'it works where the clock does not look'}: "
            f"with new operands a call takes {new_ns / max(self._fastest_ns, 1):.0f} times as long as timed",
            expected=f"about {self._fastest_ns / 1e6:.3g} ms",
            got=f"{new_ns / 1e6:.3g} ms",
        )

    def sample(self, loops: int, count: int) -> dict[str, Any]:
        """Return ``samples_ns``, their ``readings``, the facts of the ``clock``, and ``threads_read``.

        The threads in force are read before and after, and must be as many as the task was given.
        """
        sampler = self._sampler
        assert sampler is not None
        self._threads_in_force()
        samples = sampler.sample(loops, count)
        self._fastest_ns = min([self._fastest_ns, *(sample.ns for sample in samples)])
        return {
            "samples_ns": [sample.ns for sample in samples],
            "readings": [dict(sample.readings) for sample in samples],
            "clock": dict(sampler.clock.facts()),
            "threads_read": self._threads_in_force(),
        }

    def release(self) -> None:
        """Release the task and its operands. Code that was compiled for it stays."""
        self._task, self._sampler, self._fastest_ns = None, None, math.inf
        self._items = iter(())
        self._limit.close()

    def _the_task(self) -> Task:
        assert self._task is not None
        return self._task

    def _threads_in_force(self) -> dict[str, Any]:
        in_force = read_back()
        changed = disagreement(in_force, self.threads)
        if changed:
            raise ThreadsChanged(f"sample rejected: {changed}")
        return in_force


def main(descriptor: int) -> None:
    """Answer commands until the parent closes the connection."""
    _die_with_parent()
    _limit_resources()
    os.set_inheritable(descriptor, False)  # or a child of the backend would keep it open when this process dies
    connection = Connection(descriptor)
    worker, watch, pid = Worker(), Watch(), os.getpid()
    with contextlib.suppress(EOFError, ConnectionError):  # the parent has gone, or wants no more
        while True:
            command, arguments = connection.recv()
            answer = answer_to(worker, watch, command, arguments)
            if os.getpid() != pid:
                os._exit(0)  # a backend forked, and its child returned here too
            connection.send(answer)


def answer_to(worker: Worker, watch: Watch, command: str, arguments: Mapping[str, Any]) -> tuple[str, Any]:
    """Return ("ok", value), or ("declined" | "missing" | "failed", reason); "raised" for an unforeseen exception."""
    try:
        answer = watch.timed(command, lambda: getattr(worker, command)(**arguments))
        watch.check(command, worker.threads, may_keep_processes=worker.may_keep_processes)
    except Declined as declined:
        return declined.status, str(declined)
    except HarnessError as error:
        return "failed", str(error)
    except MemoryError as error:
        return "failed", f"out of memory: {error}".rstrip(": ")
    except BaseException as error:  # noqa: BLE001 a backend may raise anything; it becomes the reason of a failed cell
        return "raised", _unexpected(error)
    return "ok", answer


def _unexpected(error: BaseException) -> str:
    """Return the message of the exception, and the line that raised it."""
    message = traceback.format_exception_only(error)[-1].strip()
    where = traceback.extract_tb(error.__traceback__)[-1]
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]} ..."
    return f"{message} ({Path(where.filename).name}:{where.lineno})"


def _function(name: str) -> Callable[..., Any]:
    """Return the function called ``"module:function"``."""
    module, _, function = name.partition(":")
    factory: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return factory


def _as_json(value: Any) -> Any:
    """Return `value` as plain data, the only kind that the parent takes."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    """Return a number of NumPy, or a mapping, as plain data."""
    return value.item() if hasattr(value, "item") else dict(value)


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however busy it is."""
    descendants.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_resources() -> None:
    """Make an allocation or a file beyond its cap fail, so that this contender fails and not the machine.

    The cap of memory counts private writable memory: address space that is only reserved, as CUDA does by the terabyte,
    is free. It holds for each process by itself. If several together fill the machine, the kernel ends them first.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    _lower(resource.RLIMIT_CORE, 0)
    cap = int(available_memory() * MEMORY_FRACTION)
    _lower(resource.RLIMIT_FSIZE, cap)
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(MOST_PRINTED, cap), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    _lower(resource.RLIMIT_DATA, cap)


def _lower(rlimit: int, cap: int) -> None:
    """Set a limit of this process to `cap`, for good, unless it is as low already."""
    _, hard = resource.getrlimit(rlimit)
    if hard == resource.RLIM_INFINITY or cap < hard:
        resource.setrlimit(rlimit, (cap, cap))


if __name__ == "__main__":
    main(int(sys.argv[1]))
