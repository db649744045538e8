"""Detect side effects of a backend on its process that would change times, now or in a later cell.

A `Watch` checks the process after each command of a worker. It compares the state with that at the start of the worker.
State that importing a library may rightly change is compared with that after the task was prepared.
"""

from __future__ import annotations

import locale
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from harness.errors import HarnessError

# Not used here: imported before any backend, so that their functions are watched too.
from harness.proof import reference, verify  # noqa: F401
from harness.run import descendants

# A library's threads may spin for a while after a call, waiting for the next: OpenBLAS's for 0.1 s, OpenMP's for 0.2 s.
LOOKS, BETWEEN_LOOKS_S = 10, 0.05
# Tolerated processor time beyond that of the given threads, as a fraction of the time; the least time that is judged.
LEEWAY, LEAST_JUDGED_S = 0.5, 0.1


class Misbehaved(HarnessError):
    """A backend did something to its process that the contract does not allow."""


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


STATE: Mapping[str, Callable[[], Any]] = {
    "the working directory": os.getcwd,
    "the umask": _umask,
    "a signal handler": lambda: {number.name: signal.getsignal(number) for number in signal.Signals},
    "NumPy's handling of errors": np.geterr,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the environment": lambda: dict(os.environ),
}
# Commands in which libraries are imported, and the state that importing one may rightly change.
IMPORTING = ("prepare", "stream", "next_item")
OPEN_TO_IMPORTS = ("the environment",)


class Watch:
    """Remembers the state of the process. Make it before anything of a backend is imported."""

    def __init__(self) -> None:
        descendants.adopt_orphans()
        self._remember()

    def _remember(self) -> None:
        self._state = {name: read() for name, read in STATE.items()}
        self._functions = functions()
        self._children = descendants.running()
        self._wall_s = self._processor_s = 0.0

    def timed(self, command: str, work: Callable[[], Any]) -> Any:
        """Return the result of `work`; if it takes samples, add up wall time and processor time."""
        if command != "sample":
            return work()
        wall, processor = time.perf_counter(), time.process_time()
        answer = work()
        self._wall_s += time.perf_counter() - wall
        self._processor_s += time.process_time() - processor
        return answer

    def check(self, command: str, threads: int, *, may_keep_processes: bool = False) -> None:
        """Raise Misbehaved if `command`, given `threads` threads, had a side effect on the process.

        With `may_keep_processes` new processes may live on, if they sleep.
        """
        if command in IMPORTING:
            self._check_state(name for name in STATE if name not in OPEN_TO_IMPORTS)
            if may_keep_processes:
                _check_asleep()
            else:
                self._check_children(own_group=True)
            self._remember()
            return
        if may_keep_processes:
            _check_asleep()
        else:
            self._check_children(own_group=False)
        if command != "sample":
            self._check_state(STATE)
            _check_threads(threads)
            too_much = excess(self._wall_s, self._processor_s, threads)
            if too_much:
                raise Misbehaved(too_much)

    def _check_state(self, names: Iterable[str]) -> None:
        now = functions()
        replaced = [name for name, value in self._functions.items() if now.get(name) is not value]
        if replaced:
            raise Misbehaved(f"it replaced {_few(replaced)}")
        pairs = {name: (self._state[name], STATE[name]()) for name in names}
        changed = [name + _entries(*pair) for name, pair in pairs.items() if pair[0] != pair[1]]
        if changed:
            raise Misbehaved(f"it changed {', '.join(changed)}")

    def _check_children(self, *, own_group: bool) -> None:
        """Raise if there are new child processes; with `own_group`, only those of another group than this one.

        Processes in the group of this one are stopped with it.
        """
        running = descendants.running().items()
        new = [process for pid, process in running if pid not in self._children]
        left = [name for name, group in new if not own_group or group != os.getpgrp()]
        if left:
            raise Misbehaved(f"it left a process running: {_few(left)}")


def _check_asleep() -> None:
    """Raise if a process below this one goes on running after the command."""
    for look in range(LOOKS):
        if not (awake := descendants.awake()):
            return
        if look < LOOKS - 1:
            time.sleep(BETWEEN_LOOKS_S)
    raise Misbehaved(f"it left a process running: {_few(awake)}")


def functions() -> dict[str, Any]:
    """Return every function, class and method of the harness and of `time`, by name."""
    watched: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name == "time" or name.startswith("harness."):
            for attribute, value in vars(module).items():
                if callable(value):
                    watched[f"{name}.{attribute}"] = value
                if isinstance(value, type) and value.__module__ == name:
                    methods = {f"{name}.{attribute}.{part}": part_value for part, part_value in vars(value).items()}
                    watched |= {method: code for method, code in methods.items() if callable(code)}
    return watched


def excess(wall_s: float, processor_s: float, threads: int) -> str:
    """Return a sentence if `threads` threads cannot have used that much processor time; else nothing."""
    if wall_s < LEAST_JUDGED_S or processor_s <= (threads + LEEWAY) * wall_s:
        return ""
    return f"it used {processor_s / wall_s:.1f} processors while it was timed, told to use {threads}"


def _check_threads(threads: int) -> None:
    """Raise if more than ``threads - 1`` threads beside this one go on running after the command."""
    for look in range(LOOKS):
        running = descendants.running_threads()
        if running < threads:
            return
        if look < LOOKS - 1:
            time.sleep(BETWEEN_LOOKS_S)
    raise Misbehaved(f"it left {running} threads running, told to use {threads}")


def _entries(before: Any, after: Any) -> str:
    """Return the entries of a mapping that changed; nothing for other state."""
    if not isinstance(before, dict):
        return ""
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    return f" ({_few(changed)})"


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (" ..." if len(listed) > 3 else "")
