"""What an experiment has measured, as an object that draws itself in a notebook: sentence, figure, table. Offline."""

from __future__ import annotations

import base64
import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ExperimentError, StoreError
from harness.machine import Machine, detect
from harness.store import places

if TYPE_CHECKING:  # the facade imports this module: what only results need is imported when they are asked for
    from harness.experiment import Experiment
    from harness.report import tables
    from harness.store.store import Cell, Store

# A table in a notebook shows so many rows; `Results.cells` has all.
MOST_ROWS = 60


@dataclass(frozen=True)
class Results:
    """What one machine has measured of one experiment.

    Parameters
    ----------
    experiment : Experiment
    machine : Machine
    cells : tuple of Cell
        Of this experiment: each with its samples [ns], its axes, and why it has no time where it has none.
    roofs : tuple of Cell
        Peaks that other experiments measured there, or earlier runs, for percentages of peak.

    Notes
    -----
    In a notebook it shows its finding, its first figure and a table. Printed, it is the finding and the table.
    """

    experiment: Experiment
    machine: Machine
    cells: tuple[Cell, ...]
    roofs: tuple[Cell, ...] = field(default=(), repr=False)

    @property
    def finding(self) -> str:
        """What came out, in a sentence made from the stored times; empty if nothing can be said."""
        from harness.analysis import answers

        return answers.of_experiment(self.experiment, [*self.cells, *self.roofs])

    @property
    def rows(self) -> list[tables.TableRow]:
        """A row for each contender of each case: rate, time, percent of peak and ratios, with their intervals."""
        from harness.report import tables

        return tables.rows_of(self.experiment, [*self.cells, *self.roofs])

    def figure(self, name: str = "") -> str:
        """Return a figure as SVG, by default the first one.

        Raises
        ------
        ExperimentError
            If this experiment has no such figure.
        """
        from harness.report.figures import drawing

        by_name = {figure.name: figure for figure in self.experiment.figures}
        name = name or next(iter(by_name))
        if name not in by_name:
            raise ExperimentError.unknown("figure", name, by_name)
        alone = dataclasses.replace(self.experiment, figures=(by_name[name],))
        with tempfile.TemporaryDirectory() as folder:
            drawing.draw(alone, [*self.cells, *self.roofs], self.machine, Path(folder))
            return (Path(folder) / f"{name}.svg").read_text(encoding="utf-8")

    def _columns(self) -> dict[str, list[str]]:
        from harness.report import tables

        rows = self.rows[:MOST_ROWS]
        return {head: texts for head, texts in tables.table_columns(self.experiment, rows).items() if any(texts)}

    def __str__(self) -> str:
        columns = self._columns()
        lines = list(zip(*columns.values(), strict=True))
        widths = [max(len(head), *map(len, texts)) for head, texts in columns.items()]
        table = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in [columns, *lines]
        ]
        more = len(self.rows) - len(lines)
        return "\n".join(
            [self._title(), "", *(line.rstrip() for line in table), *([f"... {more} more"] if more > 0 else [])]
        )

    def _title(self) -> str:
        return f"{self.finding or self.experiment.question} ({self.machine.cpu})"

    def _repr_html_(self) -> str:
        """Return HTML that asks nothing of a network: the figure is within it, as an image with a text."""
        from html import escape

        picture = base64.b64encode(self.figure().encode()).decode() if self.experiment.figures and self.cells else ""
        said = escape(self._title())
        image = (
            f'<img alt="{said}" style="max-width: 100%" src="data:image/svg+xml;base64,{picture}">' if picture else ""
        )
        columns = self._columns()
        heads = "".join(f"<th>{escape(head)}</th>" for head in columns)
        lines = (_line(line) for line in zip(*columns.values(), strict=True))
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        count = f"{min(len(self.rows), MOST_ROWS)} of {len(self.rows)} cells"
        return f"<p><b>{said}</b></p>{image}<details><summary>{count}</summary>{table}</details>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return all forms of this object that a notebook may choose from."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def results(experiment: str, *, machine: str = "", folder: Path | str | None = None) -> Results:
    """Return what a machine has measured of an experiment, from stored results.

    Parameters
    ----------
    experiment : str
        Its name, as ``"ladder"``.
    machine : str
        The name of its folder. By default this machine if it has measured the experiment, else the one that did last.
    folder : Path, optional
        Of the stored results. By default your own, or the published ones where yours have nothing of it.

    Raises
    ------
    ExperimentError
        If there is no such experiment.
    StoreError
        If nothing of it is stored, or not of that machine.
    """
    from harness.analysis import peaks, rates
    from harness.catalogue import load_all
    from harness.store import presets
    from harness.store.folders import slug_of

    known = load_all()
    for name, value in {"experiment": experiment, "machine": machine}.items():
        if not isinstance(value, str):
            raise ExperimentError(f"results: {name} is no name", expected="a text", got=type(value).__name__)
    if experiment not in known:
        raise ExperimentError.unknown("experiment", experiment, known)
    roots = [Path(folder)] if folder is not None else [place.results for place in (places.OWN, places.PUBLISHED)]
    by_root = {root: _last_times(root, experiment) for root in roots}
    holds = (root for root, times in by_root.items() if (machine in times if machine else any(times.values())))
    root = next(holds, roots[-1])
    slugs, here, wanted = [*by_root[root]], slug_of(root, detect()), machine
    if slugs and not machine:
        times = by_root[root]
        machine = here if times.get(here) else max(slugs, key=times.__getitem__)
    cells = presets.cells_of_machine(_measured(root, machine, experiment), [experiment]) if machine in slugs else []
    if not cells:
        raise StoreError(
            f"{root}: no results of {experiment}" + (f" of the machine {wanted!r}" if wanted else ""),
            expected=f"one of {', '.join(slugs)}" if slugs else "",
            fix=f"python -m harness run {experiment}",
        )
    stores = presets.stores_of(root, machine)
    others = [name for records in stores for name in records.experiments() if name != experiment]
    roofs = [cell for cell in presets.cells_of_machine(stores, others) if rates.is_peak(cell)]
    roofs += presets.superseded(stores, [*cells, *roofs], peaks.IN_RECORDS, rates.is_peak)
    found = tuple(peaks.without_missed([*cells, *roofs]))
    return Results(known[experiment], stores[-1].machine(), found[: len(cells)], found[len(cells) :])


def _measured(root: Path, slug: str, experiment: str) -> list[Store]:
    """Return the stores of a machine that have the experiment."""
    from harness.store import presets

    return [records for records in presets.stores_of(root, slug) if experiment in records.experiments()]


def _last_times(root: Path, experiment: str) -> dict[str, str]:
    """Return by machine that has the experiment when it last timed a cell of it.

    Empty: all that is stored are reasons why not.
    """
    from harness.store import presets, store

    stores = {slug: _measured(root, slug, experiment) for slug in store.machines(root)}
    return {
        slug: max((cell.time for cell in presets.cells_of_machine(own, [experiment]) if cell.is_ok), default="")
        for slug, own in stores.items()
        if own
    }


def _line(texts: Sequence[str]) -> str:
    from html import escape

    return f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in texts)}</tr>"
