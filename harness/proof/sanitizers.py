"""Run products under NVIDIA's compute-sanitizer, and count what its tools report, by entry point.

Under each tool (`memcheck`, `initcheck`, `racecheck`, `synccheck`) a process computes products, one after the other,
and says on a line of its own which comes next; what the tool prints after that line is about that product. If the
process ends early, that is an error of that product, and another one goes on with the next.

Source: NVIDIA, Compute Sanitizer, "Command Line Options" and "Tool Examples".
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import BackendUnavailable

TOOLS = "memcheck", "initcheck", "racecheck", "synccheck"
NO_TOOL = "no tool"  # the products alone: what is compiled is then kept, and what fails by itself is known

# What a process says of itself: its GPU; which product comes next, by number and name; that it failed; and the end.
DEVICE, NEXT, FAILED, DONE = "on GPU", "product", "failed:", "all products are computed"

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
    name: str = ""  # of the command
    device: str = "no GPU"
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
            elif line.startswith(DEVICE):
                self.device = line.removeprefix(DEVICE).strip()
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


def version() -> str:
    """Return what compute-sanitizer says of its version."""
    done = subprocess.run([find_tool(), "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    return f"compute-sanitizer {(done.stdout.strip().splitlines() or ['of an unknown version'])[-1]}"


def run(
    commands: Mapping[str, Callable[[int], list[str]]],
    tools: Iterable[str] = TOOLS,
    *,
    program: str | None = None,
    at_once: int = 1,
) -> Iterator[Outcome]:
    """Run each command under each tool, and yield what was seen as it comes; first without a tool, which compiles.

    Parameters
    ----------
    commands : dict
        By names: ``command(first)`` is the command line that computes the products from number `first` on.
    tools : iterable of str
    program : str, optional
        compute-sanitizer; None: where it is found.
    at_once : int
        Processes at a time.
    """
    path = program or find_tool()
    running: set[subprocess.Popen[str]] = set()
    pool = ThreadPoolExecutor(at_once)
    try:
        for some in ([NO_TOOL], list(tools)):
            jobs = [
                pool.submit(_run_one, path, Outcome(tool, name), command, running)
                for (name, command), tool in itertools.product(commands.items(), some)
            ]
            for job in as_completed(jobs):
                yield job.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.kill()


def _run_one(
    program: str, outcome: Outcome, command: Callable[[int], list[str]], running: set[subprocess.Popen[str]]
) -> Outcome:
    """Run all products of a command under one tool, by as many processes as it takes, up to `MOST_PROCESSES`."""
    tool = outcome.tool
    under = [] if tool == NO_TOOL else [program, "--tool", tool, *OPTIONS, *OPTIONS_OF.get(tool, ())]
    for _ in range(MOST_PROCESSES):
        first = outcome.number + 1
        line = [*under, *command(first)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        with subprocess.Popen(line, **pipes) as process:  # type: ignore[call-overload] # noqa: S603
            running.add(process)
            outcome.read(process.stdout)
        running.discard(process)
        if outcome.is_done:
            break
        outcome.ended(process.returncode)
        if outcome.number < first:  # no product was begun: it would be so again
            break
    return outcome


def table(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """Return a row for each entry point: its name, how many products, and the errors under each tool (`columns`).

    "3 + 2": three of the project's kernels, and two of others. "": not run.
    """
    outcomes = list(outcomes)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for outcome in outcomes:
        for entry, products in outcome.products.items():
            counts.setdefault(entry, {}).setdefault(outcome.tool, Counter())["products"] += products
        for report in outcome.reports:
            of_tool = counts.setdefault(report.entry, {}).setdefault(outcome.tool, Counter())
            of_tool["ours" if report.is_ours else "others"] += 1
    rows = []
    for entry, by_tool in counts.items():
        cells = []
        for tool in columns(outcomes):
            found = by_tool.get(tool)
            others = f" + {found['others']}" if found and found["others"] else ""
            cells.append("" if found is None else f"{found['ours']}{others}")
        rows.append((entry, str(max(found["products"] for found in by_tool.values())), *cells))
    return rows


def columns(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the tools that have been run, in their order."""
    run = {outcome.tool for outcome in outcomes}
    return [tool for tool in (NO_TOOL, *TOOLS) if tool in run]


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
