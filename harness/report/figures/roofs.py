"""The measured peak in a panel of rates: one line with its name, wherever it was measured."""

from __future__ import annotations

from typing import Any, Literal

from matplotlib.axes import Axes

from harness.analysis import peaks as analysis_peaks
from harness.analysis import rates
from harness.report.figures.style import INK
from harness.store.store import Cell


def mark_peak(panel: Axes, shown: list[Cell], cells: list[Cell], *, across: Literal["x", "y"]) -> None:
    """Draw the peak that was measured for the cells of a panel, as a line across the axis of rates.

    Cells with different numbers of threads, or on a device, have a line each. Nothing is drawn where no peak was
    measured. Nor is it where cells are of several semirings or dtypes: it would be the peak of only some of them.

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
    peaks = {(rates.is_on_device(peak), peak.threads): peak for peak in peaks_of_cells}
    if rates.common(shown, "problem") is None:
        return
    for (is_on_device, threads), peak in peaks.items():
        rate = analysis_peaks.roof_rate(peak)
        count = "" if is_on_device or len(peaks) < 2 else f", {rates.plural(threads, 'thread')}"
        name = analysis_peaks.name_of_peak(peak) + count
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
