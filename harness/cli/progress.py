"""Progress of a run: a bar with the time left on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rich import progress
from rich.console import Console
from rich.text import Text

from harness.cli.console import make_console
from harness.experiment import Case
from harness.run.runner import Observer

# Without a terminal, a line at most this often [s].
LINE_INTERVAL = 15.0
# What is left is expected to go on as fast as what is done, and this much more that went as fast as expected [s]: the
# first cases compile, and say little of the others.
PRIOR_S = 240.0


class Progress(Observer):
    """Tells the user on stderr; use as a context manager around the run.

    Parameters
    ----------
    console : Console, optional
    draw : callable, optional
        Is called with the name of each experiment that is finished, unless nothing of it was measured now, and after
        each case before that, until it has returned something. What it returns is printed.
    """

    def __init__(self, console: Console | None = None, draw: Callable[[str], str] | None = None) -> None:
        # By experiment: cells by status, and "recorded": those that a resumed run had recorded before.
        self.counts: dict[str, collections.Counter[str]] = {}
        self.run = ""  # the run that is shown; empty before it begins
        self._console = console or make_console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[cases]}", markup=False),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._cases = self._done = 0
        self._seconds = self._spent = self._skipped = 0.0  # as the cases were expected to take
        self._draw, self._has_drawn = draw, False
        self._began = self._printed_at = time.monotonic()
        self._task: Any = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def run_started(self, run: str, *, is_resumed: bool, cases: int, seconds: float) -> None:
        """Begin the bar."""
        self.run = run
        self._cases, self._seconds, self._began = cases, seconds, time.monotonic()
        self._task = self._bar.add_task("", total=seconds, cases=f"0/{cases}", left="")
        if is_resumed:
            self._print(f"resuming the run {run}: what it recorded is kept (--fresh measures all anew)")

    def experiment_started(self, experiment: str, cases: int) -> None:
        """Name the experiment."""
        self.counts[experiment] = collections.Counter()
        self._bar.update(self._task, description=experiment)
        if not self._console.is_terminal:
            self._print(f"{experiment}: {cases} case{'s' * (cases != 1)}")

    def experiment_done(self, experiment: str) -> None:
        """Have its figures drawn."""
        if any(count for status, count in self.counts[experiment].items() if status != "recorded"):
            self._have_drawn(experiment)

    def _have_drawn(self, experiment: str) -> None:
        if self._draw and (text := self._draw(experiment)):
            self._has_drawn = True
            self._print(text)

    def case_started(self, experiment: str, case: Case) -> None:
        """Name the case."""
        self._bar.update(self._task, description=f"{experiment}  {place(case.axes)}")

    def cell_failed(self, experiment: str, case: Case, contender: str, status: str, reason: str) -> None:
        """Count the cell; print a failure at once, but nothing about a contender that declined or is missing."""
        self.counts[experiment][status] += 1
        self.counts[experiment]["ok"] -= 1
        if status == "failed":
            self._print(f"FAILED  {experiment}  {place(case.axes)}  {contender}: {reason}", style="red")

    def case_done(self, experiment: str, case: Case, *, was_recorded: bool, seconds: float) -> None:
        """Advance the bar."""
        self.counts[experiment]["recorded" if was_recorded else "ok"] += len(case.contenders)
        self._done += 1
        self._spent += seconds
        self._skipped += seconds * was_recorded
        elapsed = time.monotonic() - self._began
        left = f"about {clock(self._left(elapsed))} left"
        self._bar.update(self._task, advance=seconds, cases=f"{self._done}/{self._cases}", left=left)
        if not self._console.is_terminal and time.monotonic() - self._printed_at > LINE_INTERVAL:
            self._print(f"{experiment}: {self._done}/{self._cases} cases in {clock(elapsed)}, {left}")
        if not self._has_drawn and not was_recorded:
            self._have_drawn(experiment)

    def _left(self, elapsed: float) -> float:
        """Return the time that the cases to come are expected to take [s]."""
        pace = (PRIOR_S + elapsed) / (PRIOR_S + self._spent - self._skipped)
        return pace * (self._seconds - self._spent)

    def notice(self, text: str) -> None:
        """Print `text`."""
        self._print(text, style="yellow")

    def _print(self, text: str, style: str = "") -> None:
        self._printed_at = time.monotonic()
        self._console.print(Text(text, style=style), soft_wrap=True)


def place(axes: Mapping[str, Any]) -> str:
    """Return the coordinates of a case: ``n=512 float64 min_plus``; m and k only where they differ from n."""
    shown = {name: value for name, value in axes.items() if not (name in "mk" and value == axes.get("n"))}
    return " ".join(
        str(value) if name in ("dtype", "semiring", "role") else f"{name}={value}" for name, value in shown.items()
    )


def clock(seconds: float) -> str:
    """Return a duration as ``1:02:03`` or ``2:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
