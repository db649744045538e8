"""Options, exit statuses and folders that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.errors import ExperimentError, StoreError
from harness.run.provenance import ALLOW_DIRTY
from harness.store import places

if TYPE_CHECKING:  # stores and experiments are imported by the commands that read them
    from harness.experiment import Experiment
    from harness.machine import Machine
    from harness.store.store import Cell

RESULTS, FIGURES = places.OWN

DONE, FAILED, USER_ERROR, INTERRUPTED = 0, 1, 2, 130

# The name of the machine that a command runs on.
THIS = "this"


def filled_path(text: str | Path) -> Path:
    """Return the path of an option; "", as of a variable that is not set, would be the working directory."""
    if not str(text):
        raise typer.BadParameter("expected a path, got an empty one")
    return Path(text)


def file_path(text: str | Path) -> Path:
    """Return the path of a file to write. Its folder must be there: one that is mistyped would be made, and kept."""
    path = filled_path(text)
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}; make it first (mkdir -p {path.parent})")
    return path


Results = Annotated[
    Path,
    typer.Option(
        "--results", parser=filled_path, metavar="<path>", help="Folder of the stored results; made if need be."
    ),
]
ToRead = Annotated[
    Path | None,
    typer.Option(
        "--results",
        parser=filled_path,
        metavar="<path>",
        help="Folder of the stored results. [default: your own; the published ones until there are any]",
    ),
]
Figures = Annotated[
    Path,
    typer.Option(
        "--figures",
        parser=filled_path,
        metavar="<path>",
        help="Folder that figures go to, one folder per machine; made if need be.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Preset = Literal["smoke", "quick", "full"]
Effort = Annotated[Preset, typer.Option("--preset", help="How much to measure.")]
Stored = Annotated[
    Preset | None, typer.Option("--preset", help="Only of this preset; else each cell of the largest that has it.")
]
Machines = Annotated[
    list[str] | None,
    typer.Option("--machine", help=f"Only of this machine: its folder, or {THIS!r} for this one; may be repeated."),
]
AllowDirty = Annotated[
    bool,
    typer.Option(ALLOW_DIRTY, help="Even if sources of the checkout have changed; what is written is marked."),
]
Where = Annotated[
    list[str] | None, typer.Option(metavar="AXIS=VALUE", help="Only where this holds, as n=1024; may be repeated.")
]
Names = Annotated[list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All of them by default.")]


def number(value: float | None) -> float | None:
    """Return the value of an option, if given, or refuse NaN, which passes every bound, and infinities."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number")
    return value


def chosen_experiments(names: list[str] | None) -> list[Experiment]:
    """Return the experiments called `names`, or all."""
    from harness.analysis import answers
    from harness.catalogue import load_all, not_loaded

    known = load_all()
    for entry in not_loaded():
        if not names:
            complain(f"left out: {entry.origin}: {entry.error}")
        elif absent := [name for name in names if name not in known and name in re.split(r"\W+", entry.origin)]:
            raise ExperimentError(f"experiment {absent[0]!r} cannot be loaded", got=f"{entry.origin}: {entry.error}")
    for name in names or ():
        if name not in known:
            raise ExperimentError.unknown("experiment", name, known)
    chosen = [known[name] for name in dict.fromkeys(names or known)]
    for error in (error for experiment in chosen for figure in experiment.figures for error in answers.faults(figure)):
        complain(error)
    return chosen


def values_by_axis(where: list[str] | None) -> dict[str, list[str]]:
    """Return the values by axis, of texts like "n=1024"; raise ExperimentError if a text is not of this form."""
    values: dict[str, list[str]] = {}
    for text in where or ():
        axis, equals, value = text.partition("=")
        if not (axis and equals):
            raise ExperimentError("--where cannot be understood", expected="AXIS=VALUE, as n=1024", got=text)
        values.setdefault(axis, []).append(value)
    return values


def folders_of(results: Path, machines: Sequence[str]) -> list[str]:
    """Return the folders below `results` of `machines`, of which one may be THIS."""
    from harness.machine import detect
    from harness.store.folders import slug_of

    return [slug_of(results, detect()) if name == THIS else name for name in machines]


def recorded(
    results: Path, preset: str | None, machines: Sequence[str] = ()
) -> Iterator[tuple[str, list[Cell], Machine]]:
    """Yield the slug, the cells and the fingerprint of each of `machines`, or of all, below `results`.

    Cells are of `preset`; without one, each is of the largest preset that has it (`harness.store.presets`), and of
    smoke where a machine has nothing else. The last are peaks that have been superseded: they hold for cells of their
    time (`harness.analysis.peaks.nearest`).

    Raises
    ------
    StoreError
        If there are none, or none of one of `machines`.
    """
    from harness.analysis import peaks
    from harness.store import presets

    slugs = _slugs(results, preset)
    chosen = folders_of(results, machines) or slugs
    absent = [name for name in chosen if name not in slugs]
    if absent or not slugs:
        of_preset = f" of preset {preset}" if preset else ""
        mistyped, to_preset = slugs and THIS not in machines, f" --preset {preset}" if preset else ""
        raise StoreError(
            f"{results}: no {'such machine' if slugs else 'results'}{of_preset}",
            expected=f"one of {', '.join(slugs)}" if slugs else "",
            got=", ".join(absent),
            fix="" if mistyped else f"python -m harness run{to_preset}, or --results FOLDER",
        )
    for slug in chosen:
        stores = presets.stores_of(results, slug, preset)
        cells = presets.cells_of_machine(stores)
        cells += presets.superseded(stores, cells, peaks.IN_RECORDS, peaks.is_any_peak)
        cells = peaks.without_missed(cells)
        machine = stores[-1].machine()
        for records in stores:
            for notice in records.notices:
                complain(notice)
        yield slug, cells, machine


def holding(preset: str | None, machines: Sequence[str]) -> list[tuple[Path, list[str]]]:
    """Return the user's own folder of results and the published one, each with those of `machines` that it holds.

    Without `machines` it is all that it holds. A machine that neither holds is asked of the published one, so that the
    error of `recorded` says so.
    """
    own, published = places.OWN.results, places.PUBLISHED.results
    known = {root: _slugs(root, preset) for root in (own, published)}
    named = {root: folders_of(root, machines) for root in known}
    for name, *folders in zip(machines, *named.values(), strict=True):
        if not any(folder in slugs for folder, slugs in zip(folders, known.values(), strict=True)):
            return [(published, [name])]
    held = {root: [slug for slug in slugs if slug in (named[root] or slugs)] for root, slugs in known.items()}
    return [(root, slugs) for root, slugs in held.items() if slugs] or [(published, [])]


def _slugs(results: Path, preset: str | None) -> list[str]:
    """Return the machines that have results, of `preset` if it is given."""
    from harness.store import store

    return [slug for slug in store.machines(results) if preset is None or (results / slug / preset).exists()]


def complain(text: object) -> None:
    """Print `text` on stderr in full, in the name of the program."""
    from rich.text import Text

    from harness.cli.console import make_console

    make_console(stderr=True).print(Text(f"gemm-harness: {text}"), soft_wrap=True)
