"""Draw an experiment's figures from stored cells. Never measures.

Each kind of figure is a function from cells and options to a `Chart`, which `panels` draws. A new one is a function and
its line in `KINDS`, or it stands in the module of its experiment, and its kind is "module:function".

===============  ==========================================================  ======================================
kind             shows                                                       options, beside ``where``, ``panels``
===============  ==========================================================  ======================================
``bars, dots``   a row for each contender with a table of rates, ratios      ``value``, ``sort``, ``table``, ``titles``;
                                                                             ``labels``: "ladder"
``strip``        a row of dots for each place, with a table                  ``rows``; axes ``colours``, ``markers``;
                                                                             ``spread``: False shows medians alone
``lines``        a line per contender against a numeric axis                 ``x``, ``value``, ``y_scale``, ``ends``,
                                                                             ``limits``, ``marker``, ``every``
``heatmap``      rows by columns, a field each                               ``rows``, ``columns``, ``value``
``map``          fastest library, ours, ratio by rows and columns            ``subject``
``scaling``      efficiency against threads                                  cases have an axis ``method``
``ranks``        efficiency against ranks beside its model, by product       cases have axes ``method``, ``mode``
``model_error``  time by the model of ``ranks`` over the measured one        ``of``: the experiment that measured
``projected``    efficiency by a model, on thousands of ranks                ``links``: name, n, bytes/s, latency
``roofline``     rate against operations a byte of own loads, under roofs    ``point``: the axis that names a shape
``predicted``    the rate that loads allow beside the measured one           cells state their loops
``reuse``        loads through a fast memory of any size, above the bound    cells state their loops
``working_set``  rate against the bytes in use, with the caches              ``working_sets``, ``passing``
``ragged``       loss at sizes that fit no tile, a row for each contender    of `ragged_sizes.losses`, ``tile``
``extra_work``   pairs computed by padding                                   ``tiles``
``stages``       stacked bars: the stages of a call, warm and first          ``x_label``; cells have stages
``factors``      a row for each idea of a ladder, and all of them            ``steps``, ``whole``
``grids``        a row for each grid of ranks, counted over formula          ``counts``: what is counted
===============  ==========================================================  ======================================

``where`` keeps the cells that stand there, as ``{"mode": "strong"}`` or ``{"n": [257, 512]}``. ``panels`` is the axis
with a panel for each value (``"problem"``, semiring and dtype, by default), or several of them. ``value`` is
``"rate"``, ``"time"``, ``"time_ratio"`` or ``"speed_up"`` (to the reference of the case), ``"of_peak"`` (percent of
the measured peak), ``"of_read"`` (of the measured rate of reading), ``"over_fastest"`` (to the fastest library of the
case), ``"over_other"`` (to the fastest other contender), ``"regret"`` (time over that of the fastest other
contender), or a fact: ``"residual"``, ``"share"``, ``"greatest_error"``. ``every``: cases have every size of a range.
``rows`` and ``columns`` are axes or ``"contender"``. ``subject`` is the backend that the figure is about. ``of``
takes the cells of another experiment. ``finding``, a name in `findings.FINDINGS` or a function, says what the cells
have found. ``largest`` keeps the cells where this axis is largest, among those that stand together on the axes
``within``. ``compares`` is the axis that a figure is about: with times at one value of it alone, it is not drawn.
``merged`` shows contenders that run the same kernels of OpenBLAS as one. ``beside`` names backends that stand beside
a ladder and are no rungs. ``note`` is a sentence below the figure. ``titles``: "panels" leaves what all cases share
to the title of the figure. ``peak`` False leaves the measured peak out; ``extra_bytes`` adds a column of memory that
a contender takes beside operands and result. ``x_label`` renames an axis; ``launches`` adds the host's time of a
launch.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path

from harness.analysis import answers, caveats, rates, shares
from harness.analysis.findings import libraries
from harness.errors import ExperimentError
from harness.experiment import Experiment, Figure, Json
from harness.machine import Machine
from harness.report.figures import fields, found, lines, panels, roofs, rows
from harness.report.figures.chart import Chart
from harness.report.figures.sheet import file_of, styled
from harness.store.store import Cell

Build = Callable[[list[Cell], Json], Chart]
KINDS: dict[str, Build] = {
    "bars": rows.bars,
    "dots": rows.dots,
    "strip": rows.strip,
    "lines": lines.lines,
    "heatmap": fields.heatmap,
    "map": fields.matrix_map,
    "scaling": lines.scaling,
    "ranks": lines.rank_scaling,
    "model_error": lines.model_error,
    "projected": lines.projected,
    "roofline": roofs.roofline,
    "reuse": roofs.reuse,
    "working_set": roofs.working_set,
    "extra_work": lines.extra_work,
    "predicted": found.predicted,
    "ragged": found.ragged,
    "stages": found.stages,
    "factors": found.factors,
    "grids": found.grids,
}
LONGEST_REASON = 90
MOST_REASONS = 2  # below a figure, of one status; a report lists them all
WITH_PEAKS, UNDER_ROOFS = ("bars", "lines"), ("roofline", "predicted")  # kinds that show the peak, of rates or always


def draw(
    experiment: Experiment,
    cells: list[Cell],
    machine: Machine,
    folder: Path,
    *,
    mark: str = "",
    decided: bool = False,
    known: dict[Path, str] | None = None,
) -> list[Path]:
    """Draw the figures of `experiment` from its cells, as ``<folder>/<figure name>.svg``.

    Contenders without a time are named below the figure. A figure without any data is not drawn, and one that stands
    there from earlier is removed: the report says why nothing was measured. With `decided` the same holds of a figure
    of which too many ratios have no verdict (`answers.doubt`), and of one whose subject has no time. A peak that
    another experiment measured on this machine, in the same preset, holds here too. `mark` is a further sentence below
    each. What `known` says is drawn alike is not drawn again, and what is drawn is added.

    Raises
    ------
    ExperimentError
        If a figure is of an unknown kind.
    """
    drawn, known = [], {} if known is None else known
    with styled():
        for figure in experiment.figures:
            of = answers.shown(figure, experiment.name, cells)
            is_left_out = decided and (answers.doubt(figure, of) or answers.is_without_subject(figure, of))
            if is_left_out or not is_shown(figure, of):
                file_of(folder / figure.name).unlink(missing_ok=True)
            else:
                path, chart = folder / figure.name, chart_of(figure, of, machine, mark)
                if known.get(path) != repr(chart):
                    panels.write(chart, path)
                    known[path] = repr(chart)
                drawn.append(file_of(path))
    return drawn


def is_shown(figure: Figure, of: answers.Shown) -> bool:
    """Return whether a figure has data; raise ExperimentError if it is of an unknown kind."""
    _builder(figure)
    return any(map(functools.partial(_has_data, options=figure.options), of.cells))


def _builder(figure: Figure) -> Build:
    module, _, name = figure.kind.partition(":")
    if name:
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    if module not in KINDS:
        raise ExperimentError(f"figure {figure.name}: unknown kind", expected=", ".join(KINDS), got=repr(figure.kind))
    return KINDS[module]


def chart_of(figure: Figure, of: answers.Shown, machine: Machine, mark: str = "") -> Chart:
    """Return the chart of a figure with what stands around it: what came out, what is shown, what to keep in mind."""
    caches = (("L1d", machine.l1d), ("L2", machine.l2), ("L3", machine.l3))
    chart = _builder(figure)([*of.cells, *of.peaks], {"caches": caches, **figure.options})
    chart.title, chart.subtitle = answers.of_figure(figure, of) or figure.title, answers.below_title(figure, of)
    chart.names, chart.identifier = libraries.families(of.cells), answers.fingerprint(figure, of)
    details = answers.details_of_figure(figure, of)
    chart.notes += [f"{details}."] if details else []
    chart.notes += [figure.options["note"]] if "note" in figure.options else []
    chart.notes += [] if chart.is_computed else [*absences(of.cells), *caveats.in_figure(of.cells)]
    if _shows_a_peak(figure) and (of_another_run := caveats.of_peaks(of.cells, of.peaks)):
        chart.notes.append(f"{of_another_run}.")
    if of.left_out:
        chart.notes.append(f"Not shown: {', '.join(of.left_out)}, measured before it was told which processor this is.")
    if chart.ends:  # no legend that has room for it
        ends = dict.fromkeys(series.name for panel in chart.panels for series in panel.series)
        chart.notes += [f"{name}: {chart.names[name]}." for name in ends if name in chart.names]
    chart.notes += [mark] if mark else []
    sampled = [] if chart.is_computed else of.cells
    chart.footer = provenance(sampled, machine, has_intervals=chart.has_spread)
    return chart


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
