"""Run products under NVIDIA's compute-sanitizer, and count what its tools report, by entry point.

A process for each tool (`memcheck`, `initcheck`, `racecheck`, `synccheck`) computes the same products, one after the
other, and says on a line of its own which comes next; what the tool prints after that line is about that product. If
the process ends early, that is an error of that product, and another one goes on with the next.

Source: NVIDIA, Compute Sanitizer, "Command Line Options" and "Tool Examples".
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import BackendUnavailable

TOOLS = "memcheck", "initcheck", "racecheck", "synccheck"

# What a process says of itself: which product comes next, by number and name; that it is wrong, or raised; and the end.
NEXT, FAILED, DONE = "product", "failed:", "all products are computed"

MOST_PROCESSES = 20  # of one tool: a product that ends its process costs one

# An error ends the kernel alone, not the process. Padding tells allocations that would lie side by side apart.
OPTIONS = "--destroy-on-device-error kernel --show-backtrace no --report-api-errors no --print-limit 100000".split()
OPTIONS_OF = {"memcheck": ["--padding", "512"], "racecheck": ["--racecheck-report", "analysis"]}

# Kernels of CuPy and of NVIDIA's libraries. The project's own are `extern "C"`: names without templates or spaces.
_VENDORS = re.compile(r"[<:\s]|^cupy_|cublas|cutlass|xmma|nvjet|cusolver|splitK|_[sdhc]gemm_|^gemm[kv]", re.IGNORECASE)
_LINE = re.compile(r"^=========(?: (?P<text>.*))?$")
_WHERE = re.compile(r"(?:\bat|access (?:at|by)) (?P<kernel>[^\n]*?)\+0x[0-9a-f]+")
_NEXT = re.compile(rf"^{NEXT} (?P<number>\d+) (?P<entry>[\w.-]+): (?P<what>.*)$")
_REPORTED = "ERROR SUMMARY:", "RACECHECK SUMMARY:"
# Lines of a tool that begin no report.
_TALK = re.compile(
    r"^(COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application|Warning: Detected)"
)


@dataclass
class Report:
    """One error that a tool has printed.

    Parameters
    ----------
    tool : str
    entry, what : str
        The product at work: a backend or a public call, and which product.
    says : str
        The tool's first line.
    kernel : str
        The kernel at fault, without its arguments; "" if the tool names none.
    more : list of str
        The lines that follow.
    """

    tool: str
    entry: str
    what: str
    says: str
    kernel: str = ""
    more: list[str] = field(default_factory=list)

    @property
    def is_ours(self) -> bool:
        """Whether the kernel is none of CuPy's and of NVIDIA's libraries."""
        return not _VENDORS.search(self.kernel)


@dataclass
class Outcome:
    """What one tool has seen: its reports, the number of products at each entry point, and how the run ended."""

    tool: str
    reports: list[Report] = field(default_factory=list)
    products: Counter[str] = field(default_factory=Counter)
    total: int = 0  # errors that the tool itself has counted
    number: int = -1  # of the last product
    is_done: bool = False
    entry: str = "start"
    what: str = "before the first product"
    last_lines: list[str] = field(default_factory=list)  # that are neither the tool's nor a product's

    def read(self, lines: Iterable[str]) -> None:
        """Take note of what a process prints, line by line."""
        report: Report | None = None
        for line in (line.rstrip("\n") for line in lines):
            of_tool, comes = _LINE.match(line), _NEXT.match(line)
            if comes:
                self.number, self.entry, self.what = int(comes["number"]), comes["entry"], comes["what"]
                self.products[self.entry] += 1
                report = None
            elif of_tool:
                report = self._take(of_tool["text"] or "", report)
            elif line.startswith(FAILED):
                self.reports.append(Report(self.tool, self.entry, self.what, line))
            elif line == DONE:
                self.is_done = True
            elif line.strip():
                self.last_lines = [*self.last_lines[-9:], line]

    def _take(self, text: str, report: Report | None) -> Report | None:
        """Take note of one line of the tool; return the report that the next one may belong to."""
        for summary in _REPORTED:
            if text.startswith(summary):
                self.total += int(re.search(r"\d+", text.replace(",", ""))[0])  # type: ignore[index]
                return None
        if not text.strip() or _TALK.match(text):
            return None
        if not text.startswith("  "):
            report = Report(self.tool, self.entry, self.what, text)
            self.reports.append(report)
        elif report is not None:
            report.more.append(text.strip())
        found = _WHERE.search(text)
        if found and report is not None and not report.kernel:
            report.kernel = found["kernel"].split("(")[0].strip()
        return report

    def ended(self, status: int) -> None:
        """Take note that the process has ended before its last product."""
        tail = " | ".join(self.last_lines[-4:])
        self.reports.append(Report(self.tool, self.entry, self.what, f"the process ended with status {status}: {tail}"))


def find_tool() -> str:
    """Return the path of compute-sanitizer.

    Raises
    ------
    BackendUnavailable
        If it is not found.
    """
    site = Path(sysconfig.get_paths()["purelib"])
    places = [
        *Path("/usr/local").glob("cuda*/bin/compute-sanitizer"),
        *Path("/usr/local").glob("cuda*/compute-sanitizer/compute-sanitizer"),
        *site.glob("nvidia/**/compute-sanitizer"),
    ]
    found = shutil.which("compute-sanitizer") or next((str(path) for path in sorted(places) if path.is_file()), None)
    if found is None:
        raise BackendUnavailable(
            "check --sanitize: compute-sanitizer is not found",
            expected="the program compute-sanitizer, on the PATH or below /usr/local/cuda",
            got="no such file",
            fix="install the CUDA toolkit, or its package cuda-sanitizer",
        )
    return found


def run(
    command: Callable[[int], list[str]], tools: Iterable[str] = TOOLS, *, program: str | None = None
) -> Iterator[Outcome]:
    """Run the products under each tool, all tools at once, and yield what they have seen.

    Parameters
    ----------
    command : callable
        ``command(first)`` is the command line that computes the products from number `first` on.
    tools : iterable of str
    program : str, optional
        compute-sanitizer; None: where it is found.
    """
    path, tools = program or find_tool(), list(tools)
    with ThreadPoolExecutor(len(tools)) as pool:
        yield from pool.map(lambda tool: _run_tool(path, tool, command), tools)


def _run_tool(program: str, tool: str, command: Callable[[int], list[str]]) -> Outcome:
    """Run all products under one tool, by as many processes as it takes, up to `MOST_PROCESSES`."""
    outcome = Outcome(tool)
    for _ in range(MOST_PROCESSES):
        first = outcome.number + 1
        line = [program, "--tool", tool, *OPTIONS, *OPTIONS_OF.get(tool, ()), *command(first)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        with subprocess.Popen(line, **pipes) as process:  # type: ignore[call-overload] # noqa: S603
            outcome.read(process.stdout)
        if outcome.is_done:
            break
        outcome.ended(process.returncode)
        if outcome.number < first:  # no product was begun: it would be so again
            break
    return outcome


def table(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """Return a row for each entry point: its name, how many products, and the errors that each tool has reported.

    "3 + 2": three of the project's kernels, and two of others.
    """
    outcomes = list(outcomes)
    entries = dict.fromkeys(entry for x in outcomes for entry in (*x.products, *(r.entry for r in x.reports)))
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        cells = []
        for outcome in outcomes:
            found = Counter(report.is_ours for report in outcome.reports if report.entry == entry)
            cells.append(f"{found[True]} + {found[False]}" if found[False] else str(found[True]))
        rows.append((entry, str(max(x.products[entry] for x in outcomes)), *cells))
    return rows


def details(outcomes: Iterable[Outcome], *, ours: bool) -> list[str]:
    """Return a line for each kind of error: the tool, the kernel, how often, what was said and for which product."""
    kinds: dict[tuple[str, str, str, str], list[Report]] = {}
    for outcome in outcomes:
        for report in outcome.reports:
            if report.is_ours == ours:
                kinds.setdefault((report.tool, report.entry, report.kernel, report.says), []).append(report)
    return [
        f"{tool} {entry}: {kernel or 'no kernel named'}: {len(reports)} x {says}; first in {reports[0].what}"
        + "".join(f"\n    {line}" for line in reports[0].more[:4])
        for (tool, entry, kernel, says), reports in kinds.items()
    ]
