"""``judge``: prove and time the backends of a file that may be anybody's. This process never imports it.

The file is announced to other processes like a plug-in: by entry points of a package in a temporary folder. They prove
it as ``check`` does, and measure it as ``run`` does, beside backends of this project.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import DONE, FAILED, complain
from harness.errors import BackendUnavailable, HarnessError
from harness.experiment import Budget, Case, Experiment, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.store import store

NAME = "judged"  # of the entry points, and of the experiment
ASKED = "GEMM_HARNESS_JUDGED"  # what the experiment measures, as JSON
METADATA = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n"
REFERENCES = {"cpu": ("cpu-numpy", "cpu-simd"), "gpu": ("gpu-cublas", "gpu-tuned")}


def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python module with backends.")],
    *,
    size: Annotated[list[int] | None, typer.Option(min=1, help="m, n and k; may be repeated. [512, 777]")] = None,
    semiring: Annotated[str, typer.Option(help="Semiring of the products that are timed.")] = "plus_times",
    dtype: Annotated[str, typer.Option(help="Their dtype.")] = "float64",
) -> None:
    """Prove and time the backends of a file that may be anybody's, in processes of their own.

    Exit status: 1 if one is wrong, misbehaves or has no time, 2 if the file cannot be loaded, else 0.
    """
    from harness.cli import console

    if not file.is_file():
        raise HarnessError("judge: there is no such file", expected="a Python module with backends", got=str(file))
    problems = [Problem(n, n, n, semiring, dtype) for n in size or (512, 777)]  # type: ignore[arg-type] # names
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        announce(file, Path(folder))
        names = _names(file, folder)
        asked = {"backends": names, "problems": [problem.to_json() for problem in problems]}
        is_wrong = bool(_harness(folder, "check", *names))
        results = Path(folder, "results")
        _harness(folder, "run", NAME, "--results", str(results), asked=asked, is_read=True)
        timed, reasons = _timed(results)
        console.print_lines(*reasons)
        for name in timed.intersection(names):
            for reference in timed.intersection(references(name)):
                options = ("--contenders", name, reference, "--results", str(results))
                _harness(folder, "compare", "quick", *options)
    if is_wrong or reasons:
        complain(f"{file.name}: not to be trusted, see above")
    raise typer.Exit(FAILED if is_wrong or reasons else DONE)


def _timed(results: Path) -> tuple[set[str], list[str]]:
    """Return the contenders that have times, and for each cell without one a line that says why."""
    cells = [cell for folder in results.glob("*/quick") for cell in store.Store(folder).cells(NAME)]
    reasons = [
        f"{cell.status:<9} {cell.contender}, n={cell.record['axes']['n']}: {cell.record['reason']}"
        for cell in cells
        if not cell.is_ok
    ]
    return {cell.contender for cell in cells if cell.is_ok}, reasons


def announce(file: Path, folder: Path) -> None:
    """Write what an installed package has that names the module `file`, and this experiment, by entry points."""
    module = f"{NAME}_{re.sub(r'[^0-9a-zA-Z_]', '_', file.stem)}"
    (folder / f"{module}.py").symlink_to(file.resolve())
    metadata = folder / f"{NAME}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(METADATA)
    points = {"backends": module, "experiments": __name__}
    lines = (f"[gemm_harness.{group}]\n{NAME} = {value}\n" for group, value in points.items())
    (metadata / "entry_points.txt").write_text("".join(lines))


def references(name: str) -> Sequence[str]:
    """Return the backends of this project that one of that name is measured beside."""
    return REFERENCES.get(name.partition("-")[0], REFERENCES["cpu"])


def _names(file: Path, folder: str) -> list[str]:
    """Return the names of the file's backends, or raise HarnessError."""
    listed = json.loads(_harness(folder, "list", "--json", is_read=True))
    own = [entry for entry in listed if f"entry point {NAME}" in entry.get("origin", "")]
    names = [entry["name"] for entry in own if entry.get("available")]
    if not names:
        reasons = "; ".join(str(entry["missing"]) for entry in own) or "no subclass of harness.Backend"
        raise BackendUnavailable(f"{file}: it has no backend that can run here", got=reasons)
    return names


def _harness(folder: str, *arguments: str, asked: Any = None, is_read: bool = False) -> Any:
    """Run a command where `folder` is looked through like installed packages; return its status, or what it printed."""
    paths = [folder, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), ASKED: json.dumps(asked)}
    command = [sys.executable, "-m", "harness", *arguments]
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE if is_read else None, text=True)  # noqa: S603
    if is_read and done.returncode > FAILED:
        raise HarnessError(f"harness {' '.join(arguments)} failed", got=f"status {done.returncode}")
    return done.stdout if is_read else done.returncode


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each problem that is asked for; none where nobody judges."""
    asked = json.loads(os.environ.get(ASKED, "null"))
    if not asked:
        return []
    others = dict.fromkeys(reference for name in asked["backends"] for reference in references(name))
    contenders = [backend_contender(name) for name in (*others, *asked["backends"])]
    return [product_case(Problem.from_json(problem), contenders) for problem in asked["problems"]]


EXPERIMENT = Experiment(
    name=NAME,
    question="How fast are the backends of a file, and are they what they seem?",
    cases=cases,
    figures=(),
    budget={"quick": Budget(rounds=10, seconds=4, processes=3)},
)
