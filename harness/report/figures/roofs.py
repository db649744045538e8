"""The measured peak in a panel of rates: one line with its name, wherever it was measured."""

from __future__ import annotations

from typing import Any, Literal

from matplotlib.axes import Axes

from harness.analysis import peaks as analysis_peaks
from harness.analysis import rates
from harness.experiment import NARROW_PEAK
from harness.report.figures.looks import INK
from harness.store.store import Cell

# A peak of narrow vectors that is this part of the peak counts as level with it.
LEVEL = 0.95


def mark_peak(panel: Axes, shown: list[Cell], cells: list[Cell], *, across: Literal["x", "y"]) -> None:
    """Draw the peak that was measured for the cells of a panel, as a line across the axis of rates.

    Cells with different numbers of threads, or on a device, have a line each. Nothing is drawn where no peak was
    measured. Nor is it where cells are of several semirings or dtypes: it would be the peak of only some of them.
    Where operands are narrower than sums, the line names the dtype of sums, whose peak it is.

    Parameters
    ----------
    panel : Axes
    own : list of Cell
        The cells of the panel.
    cells : list of Cell
        The cells that contain the peaks.
    across : str
        The axis that shows rates.
    """
    peaks_of_cells = [peak for cell in shown if (peak := analysis_peaks.peak_of(cell, cells))]
    rising = sorted(peaks_of_cells, key=analysis_peaks.roof_rate)  # of several runs the fastest is drawn
    peaks = {(rates.is_on_device(peak), peak.threads): peak for peak in rising}
    if rates.common(shown, "problem") is None:
        return
    for (is_on_device, threads), peak in peaks.items():
        rate = analysis_peaks.roof_rate(peak)
        count = "" if is_on_device or len(peaks) < 2 else f", {rates.plural(threads, 'thread')}"
        is_mixed = any(rates.axis(cell, "operands") is not None for cell in shown)
        of = f" of {rates.axis(peak, 'dtype')}" if is_mixed else ""
        name = analysis_peaks.name_of_peak(peak) + of + count
        label_style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "size": 9}
        look: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": (0, (4, 3))}
        if across == "x":
            panel.axvline(rate, **look)
            label_style |= {"xycoords": panel.get_xaxis_transform(), "va": "top", "rotation": 90}
            panel.annotate(name, (rate, 1), (-4, -2), **label_style)
        else:
            panel.axhline(rate, **look)
            label_style |= {"xycoords": panel.get_yaxis_transform(), "va": "bottom"}
            panel.annotate(name, (1, rate), (-2, 1), **label_style)


def mark_narrow_peak(
    panel: Axes, shown: list[Cell], cells: list[Cell], *, across: Literal["x", "y"], value: str
) -> None:
    """Draw a thin line at the peak of AVX2 where wider vectors are there: the roof of libraries that lack them.

    As `mark_peak`. `value` is ``"rate"``, or ``"of_peak"``: the line then stands at its percentage of the peak. It is
    left out where it would lie on the peak, on a processor that computes wide vectors in two halves.
    """
    if rates.common(shown, "problem") is None:
        return
    for threads, alike in rates.group(shown, lambda cell: cell.threads).items():
        narrow = analysis_peaks.narrow_peak_of(alike[0], cells)
        peak = analysis_peaks.peak_of(alike[0], cells)
        if narrow is None or peak is None or rates.is_on_device(alike[0]):
            continue
        part = analysis_peaks.roof_rate(narrow) / analysis_peaks.roof_rate(peak)
        if part > LEVEL:
            continue
        at = analysis_peaks.roof_rate(narrow) if value == "rate" else 100 * part
        name = NARROW_PEAK + (f", {rates.plural(threads, 'thread')}" if threads > 1 else "")
        (panel.axvline if across == "x" else panel.axhline)(at, color=INK, linewidth=0.7, linestyle=(0, (1, 2)))
        label_style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "size": 8, "color": INK}
        if across == "x":
            label_style |= {"xycoords": panel.get_xaxis_transform(), "va": "top", "rotation": 90}
            panel.annotate(name, (at, 1), (-3, -2), **label_style)
        else:
            label_style |= {"xycoords": panel.get_yaxis_transform(), "va": "bottom"}
            panel.annotate(name, (1, at), (-2, 1), **label_style)


def mark_peaks(panel: Axes, shown: list[Cell], cells: list[Cell], *, across: Literal["x", "y"], value: str) -> None:
    """Draw what bounds the cells of a panel that shows `value`, where that is a rate or a percentage of the peak."""
    if value == "rate":
        mark_peak(panel, shown, cells, across=across)
    if value in ("rate", "of_peak"):
        mark_narrow_peak(panel, shown, cells, across=across, value=value)
