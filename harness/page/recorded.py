"""What a machine has recorded, with a name that a reader recognises, and what the page shows of each cell. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.analysis import caveats, peaks, rates
from harness.analysis.findings import libraries
from harness.experiment import Experiment
from harness.machine import Machine
from harness.report import tables
from harness.stats.statistics import Interval
from harness.store.store import Cell

# So many samples of a cell are shown, evenly chosen from the sorted ones: the least and the most are among them.
MOST_SAMPLES = 12
# Of the median time: half a percent of it is finer than what is drawn.
SAMPLE_STEPS = 200
# The axis of experiments whose figures name none.
SIZE = "n"


class Recorded(NamedTuple):
    """The cells that are shown of one machine, and peaks of earlier runs that hold for some of them."""

    slug: str  # the name of its folder
    cells: list[Cell]
    machine: Machine
    folder: Path  # of its results
    is_own: bool = False  # the user's, and none of those that are published

    @property
    def name(self) -> str:
        """Processor, cores and GPUs: "AMD EPYC, 2 cores"; with family and model where the folder has them, too.

        The user's own say so. Another host of the same model has the digits of its folder.
        """
        digits = self.slug.removeprefix(self.machine.slug).strip("-") if self.slug.startswith(self.machine.slug) else ""
        told_apart = self.machine.processor if "-family-" in self.slug else self.machine.cpu
        cpu = told_apart.replace("(R)", "").replace(" Processor", "")
        gpu = self.machine.gpu.get("name", "") if self.machine.gpu else ""
        count = f"{self.machine.gpus} x " if self.machine.gpus > 1 else ""
        parts = [cpu, rates.plural(self.machine.cores, "core"), gpu and count + gpu, digits, "yours" * self.is_own]
        return ", ".join(filter(None, parts))


@dataclasses.dataclass(frozen=True)
class ShownRow:
    """A contender in a case, as the page shows it. Times are in ms, ratios are speeds over the other's."""

    machine: str
    experiment: str
    case: str
    contender: str
    backend: str
    on: str  # "1 thread", or "GPU"
    semiring: str
    dtype: str
    x: float | None  # where it stands on the axis of its experiment; None: nowhere
    unit: str
    rate: Interval | None
    time: Interval | None
    peak: Interval | None  # percent of the measured peak
    ratio: Interval | None  # over the reference
    reference: str
    kernels: str  # the family of kernels that its library took, as it was read back
    remarks: str
    status: str
    samples: tuple[float, ...]
    taken: int  # samples in all
    processes: int
    measured: str
    commit: str


def subjects_of(experiment: Experiment) -> set[str]:
    """Return the backends that the figures of `experiment` are about: what users get, or what is new."""
    return {str(figure.options["subject"]) for figure in experiment.figures if "subject" in figure.options}


def axis_of(experiment: Experiment) -> str:
    """Return the axis against which the first figure of `experiment` with one is drawn; else the size, ``"n"``."""
    return next((str(figure.options["x"]) for figure in experiment.figures if "x" in figure.options), SIZE)


def _on_axis(cell: Cell, experiment: Experiment) -> float | None:
    """Return where `cell` stands on the axis of its experiment, if it has one there: of a size, if it is square."""
    name = axis_of(experiment)
    x = rates.axis(cell, name)
    is_asked = any("x" in figure.options for figure in experiment.figures)
    is_number = isinstance(x, int | float) and not isinstance(x, bool)
    is_square = len({rates.axis(cell, side) for side in "mnk"}) == 1
    return float(x) if is_number and (is_asked or is_square) else None


def shown(recorded: Recorded, experiments: Mapping[str, Experiment]) -> Iterator[ShownRow]:
    """Yield every contender that `recorded` holds of `experiments`, by experiment; roofs are no contenders."""
    unsure = caveats.doubts(recorded.cells)
    taken = libraries.families(recorded.cells)
    roofs = peaks.peaks_by_kind(recorded.cells)
    by_case = rates.group(recorded.cells, lambda cell: (cell.run, cell.case))
    for experiment in experiments.values():
        own = [cell for cell in recorded.cells if cell.experiment == experiment.name]
        for row in tables.rows_of(experiment, [*own, *(c for c in recorded.cells if rates.is_peak(c))], unsure):
            cell = row.cell
            if cell.experiment == experiment.name:
                case = by_case[cell.run, cell.case]
                around = [*case, *roofs.get(peaks.kind(cell), ())]
                yield _shown(row, recorded.name, experiment, around, taken.get(cell.contender, ""))


def _shown(
    row: tables.TableRow, machine: str, experiment: Experiment, around: Sequence[Cell], kernels: str
) -> ShownRow:
    cell = row.cell
    return ShownRow(
        machine=machine,
        experiment=cell.experiment,
        case=row.where,
        contender=cell.contender,
        backend=str(rates.axis(cell, "backend")),
        on=str(rates.axis(cell, "device")).upper()
        if rates.is_on_device(cell)
        else rates.plural(cell.threads, "thread"),
        semiring=str(rates.axis(cell, "semiring") or ""),
        dtype=str(rates.axis(cell, "dtype") or ""),
        x=_on_axis(cell, experiment),
        unit=row.unit,
        rate=row.rate,
        time=row.time_ms,
        peak=peaks.interval_of_peak(cell, around),
        ratio=row.over_reference,
        reference=cell.reference,
        kernels=kernels,
        remarks=row.remarks if cell.is_ok else cell.reason.strip().partition("\n")[0],
        status=cell.status,
        samples=spread_out([sample / 1e6 for sample in cell.all_samples_ns]),
        taken=len(cell.all_samples_ns),
        processes=len(cell.samples_ns),
        measured=cell.time[:10],
        commit=str(cell.record.get("commit", "")),
    )


def spread_out(samples: Sequence[float], most: int = MOST_SAMPLES) -> tuple[float, ...]:
    """Return at most `most` of `samples`, sorted: the ends, and others at even ranks between them."""
    ordered = sorted(samples)
    if len(ordered) <= most:
        return tuple(ordered)
    return tuple(ordered[round(index * (len(ordered) - 1) / (most - 1))] for index in range(most))


def columns(rows: Sequence[ShownRow]) -> dict[str, Any]:
    """Return `rows` by column for JSON: texts once with their indices, numbers to four digits, intervals as three.

    Samples are in steps of the row's time (`SAMPLE_STEPS` to it). Where a row has a rate, the ends of its time follow
    from those of the rate, and mostly those of its percent of peak, and are left out. The script of the page computes
    them again.
    """
    table: dict[str, Any] = {}
    for field in dataclasses.fields(ShownRow):
        values = [getattr(row, field.name) for row in rows]
        if field.type == "str":
            texts = list(dict.fromkeys(values))
            index = {text: place for place, text in enumerate(texts)}
            table[field.name] = {"texts": texts, "at": [index[value] for value in values]}
        elif field.type == "Interval | None":
            for end, name in enumerate(("", "_low", "_high")):
                table[field.name + name] = [None if value is None else digits(value[end]) for value in values]
        elif field.name == "samples":
            table[field.name] = [_in_steps(row) for row in rows]
        else:
            table[field.name] = values
    for name in ("time_low", "time_high"):
        table[name] = [None if row.rate else end for row, end in zip(rows, table[name], strict=True)]
    for name in ("peak_low", "peak_high"):
        table[name] = [None if _peak_follows(row) else end for row, end in zip(rows, table[name], strict=True)]
    return table


def _peak_follows(row: ShownRow) -> bool:
    """Return whether the ends of its percent of peak are as far from the middle as those of its rate."""
    if row.rate is None or row.peak is None:
        return False
    return all(
        math.isclose(row.peak[end] * row.rate.estimate, row.peak.estimate * row.rate[end], rel_tol=1e-4)
        for end in (1, 2)
    )


def digits(value: float) -> float | None:
    """Return `value` with the digits that the page needs; None if it is not finite.

    The page shows three digits. Four are enough to draw, but a last 5 could be rounded the wrong way a second time.
    """
    if not math.isfinite(value):
        return None
    if abs(value) >= 1000:
        return float(round(value))
    mantissa = f"{value:.3e}".partition("e")[0]
    return float(f"{value:.{6 if mantissa.endswith('5') else 4}g}")


def _in_steps(row: ShownRow) -> list[int]:
    """Return the samples of a row in steps of its time."""
    return [round(SAMPLE_STEPS * sample / row.time.estimate) for sample in row.samples] if row.time else []
