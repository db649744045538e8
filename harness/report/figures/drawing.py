"""Draw an experiment's figures from stored cells. Never measures.

==============  ==========================================================  ====================================
kind            shows                                                       options, beside ``where``, ``panels``
==============  ==========================================================  ====================================
``bars``        a bar per contender with a table: rate, ratios, % of peak   ``value``, ``peak``; ``labels``: "ladder"
``dots``        a dot with interval per contender, logarithmic              ``value``, ``sort``
``lines``       a line per contender against a numeric axis                 ``x``, ``value``, ``marker``, ``y_scale``,
                                                                            ``ends``, ``limits``
``heatmap``     rows by columns, a field each                               ``rows``, ``columns``, ``value``
``scaling``     speed-up and efficiency against threads                     cases have an axis ``method``
``roofline``    rate against operations a byte of own loads, under roofs    ``point``: the axis that names a shape
``predicted``   the rate that loads allow beside the measured one           cells state their loops
``reuse``       loads through a fast memory of any size, above the bound    cells state their loops
``ragged``      loss at sizes that fit no tile, a row for each contender    of `ragged_sizes.losses`, ``tile``
``extra_work``  pairs computed by padding                                   ``tiles``
``working_set`` rate against the bytes in use, with the caches              ``working_sets``, ``titles``
``versus``      the subject over the fastest peer, against a numeric axis   ``subject``, ``x``
``strip``       a row of dots for each place, with a table                  ``rows``; axes of ``colours``, ``markers``;
                                                                            ``spread``: False shows medians alone
``dense``       rates at every size of a sweep, largest loss in words       ``x``; cases have an axis for ``panels``
``ranks``       efficiency against ranks beside its model, by product       cases have axes ``method``, ``mode``
``stages``      stacked bars: the stages of a call, warm and first          ``x_label``, ``note``; cells have stages
``factors``     a row for each idea of a ladder, and all of them            ``steps``, ``whole``
``grids``       a row of dots for each grid of ranks, counted over formula  ``counts``: what is counted
``model_error``  time by the model of ``ranks`` over the measured one        ``of``: the experiment that measured
``map``         fastest library, ours, ratio by rows and columns     ``subject``
``projected``   efficiency by a model, on thousands of ranks                ``links``: name, n, bytes/s, latency
==============  ==========================================================  ====================================

``where`` keeps the cells that stand there, as ``{"mode": "strong"}`` or ``{"n": [257, 512]}``. ``panels`` is the axis
with a panel for each value (``"problem"``, semiring and dtype, by default), or several of them. ``value`` is
``"rate"``, ``"time"``, ``"time_ratio"`` or ``"speed_up"``; the last two are relative to the reference of the case.
``"of_peak"`` is percent of the measured peak, ``"over_fastest"`` relative to the fastest library of the case, and
 ``"over_other"`` to the fastest other contender, one of our own kernels or not.
``rows`` and ``columns`` are axes or ``"contender"``. ``subject`` is the backend that the figure is about.
``table`` adds to the table of bars, by head, what a kernel takes of a multiprocessor or a note of the contender.
``titles``: "panels" leaves what all cases share to the title of the figure.
``peak``, true by default, says whether bars stand beside the measured peak; ``extra_bytes`` adds a column of memory
 that a contender takes beside operands and result. ``marker`` is the axis of kinds of size.
``"of_read"`` is percent of the measured rate of reading memory; what fits a cache has none.
``"regret"`` is the time over that of the fastest other contender.
``"residual"`` and ``"share"`` (of the time in products) are facts of algorithms.
``of`` takes the cells of another experiment. ``finding``, a name in `findings.FINDINGS` or a function, says
what the cells have found.
``largest`` keeps the cells where this axis is largest, among those of a panel, or those that stand together on the
 axes ``within``: one panel says enough.
``compares`` is the axis that a figure is about: with times at one value of it alone, it is not drawn.
``merged`` shows contenders that run the same kernels of OpenBLAS as one.
``beside`` names backends that stand beside a ladder and are no rungs, as libraries are.
``note`` is a sentence below the figure.
``x_label`` renames the axis of ``lines`` and ``heatmap``; ``launches`` adds to ``lines`` the host's time of a launch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from harness.analysis import answers, caveats, rates, shares
from harness.analysis.findings import libraries
from harness.errors import ExperimentError
from harness.experiment import Experiment, Figure, Json
from harness.machine import Machine
from harness.report.figures import factors, fields, grids, maps, models, peers, ranks, rows, stages, sweeps, traffic
from harness.report.figures.sheet import Sheet, file_of, styled
from harness.store.store import Cell

Draw = Callable[[Sheet, list[Cell], Json], None]
LONGEST_REASON = 90
MOST_REASONS = 2  # below a figure, of one status; a report lists them all
COMPUTED = ("extra_work", "reuse")  # from sizes and loops alone: no sample has a part in them
WITH_PEAKS, UNDER_ROOFS = ("bars", "lines"), ("roofline", "predicted")  # kinds that show the peak, of rates or always
WITHOUT_INTERVALS = ("heatmap", "ragged", "dense", "extra_work", "stages", "grids", "model_error", "projected", "map")


def kinds(machine: Machine) -> dict[str, Draw]:
    """Return the drawing functions by kind."""
    return {
        "bars": rows.bars,
        "dots": rows.dots,
        "lines": fields.lines,
        "heatmap": fields.heatmap,
        "ragged": models.ragged,
        "extra_work": models.extra_work,
        "working_set": functools.partial(models.working_set, machine=machine),
        "scaling": models.scaling,
        "roofline": traffic.roofline,
        "predicted": traffic.predicted,
        "reuse": traffic.reuse,
        "versus": peers.versus,
        "strip": peers.strip,
        "dense": sweeps.dense,
        "ranks": ranks.scaling,
        "stages": stages.stacked,
        "factors": factors.factors,
        "grids": grids.dots,
        "model_error": ranks.model_error,
        "projected": ranks.projected,
        "map": maps.matrix_map,
    }


def draw(
    experiment: Experiment,
    cells: list[Cell],
    machine: Machine,
    folder: Path,
    *,
    mark: str = "",
    decided: bool = False,
) -> list[Path]:
    """Draw the figures of `experiment` from its cells, as ``<folder>/<figure name>.svg``.

    Contenders without a time are named below the figure. A figure without any data is not drawn, and one that stands
    there from earlier is removed: the report says why nothing was measured. With `decided` the same holds of a figure
    of which too many ratios have no verdict (`answers.doubt`), and of one whose subject has no time. A peak that
    another experiment measured on this machine, in the same preset, holds here too. `mark` is a further sentence below
    each.

    Raises
    ------
    ExperimentError
        If a figure is of an unknown kind.
    """
    with styled():
        return [
            path
            for figure in experiment.figures
            for of in [answers.shown(figure, experiment.name, cells)]
            for path in (
                _remove(folder / figure.name)
                if decided and (answers.doubt(figure, of) or answers.is_without_subject(figure, of))
                else _draw_one(figure, of, machine, folder, mark)
            )
        ]


def _remove(stem: Path) -> list[Path]:
    """Remove a figure from earlier, and return that nothing was drawn."""
    file_of(stem).unlink(missing_ok=True)
    return []


def _draw_one(figure: Figure, of: answers.Shown, machine: Machine, folder: Path, mark: str) -> list[Path]:
    table, shown = kinds(machine), of.cells
    if figure.kind not in table:
        raise ExperimentError(f"figure {figure.name}: unknown kind", expected=", ".join(table), got=repr(figure.kind))
    if not any(map(functools.partial(_has_data, options=figure.options), shown)):
        return _remove(folder / figure.name)
    sheet = Sheet(figure.title)
    sheet.names = libraries.families(shown)
    table[figure.kind](sheet, [*shown, *of.peaks], figure.options)
    sheet.identifier = answers.fingerprint(figure, of)
    sheet.title = answers.of_figure(figure, of) or figure.title
    sheet.subtitle = answers.below_title(figure, of)
    details = answers.details_of_figure(figure, of)
    sheet.notes += [f"{details}."] if details else []
    sheet.notes += [figure.options["note"]] if "note" in figure.options else []
    sheet.notes += [] if figure.kind in COMPUTED else [*absences(shown), *caveats.in_figure(shown)]
    if _shows_a_peak(figure) and (of_another_run := caveats.of_peaks(shown, of.peaks)):
        sheet.notes.append(f"{of_another_run}.")
    if of.left_out:
        sheet.notes.append(f"Not shown: {', '.join(of.left_out)}, measured before it was told which processor this is.")
    sheet.notes += [mark] if mark else []
    sampled = [] if figure.kind in COMPUTED else shown
    has_intervals = figure.kind not in WITHOUT_INTERVALS and figure.options.get("spread", True)
    footer = provenance(sampled, machine, has_intervals=has_intervals)
    return [sheet.save(folder / figure.name, footer)]


def _shows_a_peak(figure: Figure) -> bool:
    """Return whether a figure holds rates against the measured peak: by percentages, a line or a roof."""
    value = figure.options.get("value", "rate")
    is_marked = figure.kind in WITH_PEAKS and value == "rate" and figure.options.get("peak", True)
    return value == "of_peak" or figure.kind in UNDER_ROOFS or is_marked


def _has_data(cell: Cell, options: Json) -> bool:
    """Return whether a figure has something to show of `cell`: a time, or the fact that it shows instead."""
    value = options.get("value")
    if not cell.is_ok or rates.is_roof(cell):
        return False
    if value == "share":
        return shares.share(cell) is not None
    return value not in answers.FACTS or value in cell.facts


def absences(cells: list[Cell]) -> list[str]:
    """Return a sentence for each status of contenders without a time, with its reasons if they are few."""
    notes = []
    for status, group in rates.group(rates.not_measured(cells), lambda entry: entry[0]).items():
        absent = [cell for _, _, own in group for cell in own]
        names = ", ".join(dict.fromkeys(cell.contender for cell in absent))
        places = "" if len(absent) == 1 else f" in {len(absent)} cells"
        reasons = "; ".join(reason[:LONGEST_REASON] for _, reason, _ in group)
        told = f" ({reasons})" if len(group) <= MOST_REASONS else "; the report gives the reasons"
        notes.append(f"{status.capitalize()}{places}: {names}{told}")
    return notes


def provenance(cells: list[Cell], machine: Machine, *, has_intervals: bool = True) -> str:
    """Return where and when the samples of a figure were taken, how many, and what the marks mean."""
    done = [cell for cell in cells if cell.is_ok]
    versions = ", ".join(f"{name} {machine.packages[name]}" for name in ("numpy", "numba") if name in machine.packages)
    parts = [f"{machine.processor}, {rates.plural(machine.cores, 'core')}", versions]
    if any(map(rates.is_on_device, cells)):
        count = f"{machine.gpus} " if machine.gpus > 1 else ""
        parts.insert(0, count + ", driver ".join(machine.gpu[key] for key in ("name", "driver") if key in machine.gpu))
    software = [text for cell in done for text in _software(cell)]
    if software:
        parts.append(", ".join(dict.fromkeys(software)))
    if done:
        counts = sorted({len(cell.all_samples_ns) for cell in done})
        processes = sorted({len(cell.samples_ns) for cell in done})
        parts += [
            " and ".join(sorted({f"preset {cell.preset}" for cell in done})),
            " to ".join(dict.fromkeys(sorted(cell.time[:10] for cell in done)[:: max(len(done) - 1, 1)])),
            f"median of {_span(counts, 'sample')}, {_span(processes, 'process')}" + _spread(done) * has_intervals,
        ]
    return " · ".join(part for part in parts if part)


def _spread(cells: list[Cell]) -> str:
    """Return what a figure shows beside medians: intervals of those that enough processes measured, else samples."""
    with_interval = sum(map(rates.has_interval, cells))
    if not with_interval:
        return "; dots: samples"
    return "; bars: 95 % interval" + ("; dots: samples of fewer processes" if with_interval < len(cells) else "")


def _software(cell: Cell) -> list[str]:
    """Return what ranks of `cell` sent by, in words: "MPICH 5.0.2", "nccl 2.27.7"."""
    found = dict(cell.facts.get("software", {}))
    library = [found.pop("mpi")] if "mpi" in found else []
    return [*library, *(f"{name} {version}" for name, version in found.items())]


def _span(numbers: list[int], noun: str) -> str:
    least = f"{numbers[0]} to " if len(numbers) > 1 else ""
    return least + rates.plural(numbers[-1], noun)
