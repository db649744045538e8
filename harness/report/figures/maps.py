"""Maps of matrix-vector products over rows and columns: the fastest library, ours, their ratio, and who is fastest."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from harness.analysis import rates, read_rates, rivals
from harness.experiment import Json
from harness.report.figures.looks import INK, PALE, Looks
from harness.report.figures.sheet import Sheet
from harness.report.figures.values import short
from harness.store.store import Cell

# Of a map: inches of a row and of what is around all, the most of both, and rows up to which its words are large.
ROW_INCHES, AROUND_INCHES, MOST_INCHES, FEW_ROWS = 0.62, 0.7, 3.3, 4
SMALLEST, SMALL, LARGE = 6.0, 8.5, 12.0  # type of words in fields
LEAST_SPAN, MOST_SPAN = 1.0, 4.0  # powers of two that colours of ratios reach from 1, at least and at most
FEWEST_RIVALS = 3  # contenders: of two the ratio says who is faster
IN_CACHE, NO_MEMORY = "in cache", "out of\nmemory"
LUMA = (0.299, 0.587, 0.114)  # perceived brightness of red, green and blue (ITU-R BT.601)

Field = tuple[int, int]
Chosen = Callable[[list[Cell]], Cell | None]  # one of the cells of a field


def matrix_map(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw four maps over rows and columns of the matrix, which cases have as axes.

    Percent of the rate of reading is drawn where the matrix comes from memory; elsewhere a field is hatched. Where none
    comes from memory, these two maps are left out, and with two contenders that of who is fastest.
    """
    subject, shown = options["subject"], rates.contenders(cells)
    library = rivals.name_of_fastest(shown)
    by_field = rates.group(shown, lambda cell: (cell.axes["rows"], cell.axes["columns"]))
    heights, widths = (sorted({field[i] for field in by_field}) for i in (0, 1))

    def at(draw: Callable[[list[Cell]], Any]) -> dict[Field, Any]:
        return {(heights.index(r), widths.index(c)): draw(own) for (r, c), own in by_field.items()}

    by: dict[str, Chosen] = {library: _fastest_library, subject: functools.partial(_contender, name=subject)}
    shares = {name: at(functools.partial(_percent, of=of, cells=cells)) for name, of in by.items()}
    if all(isinstance(share, str) for own in shares.values() for share in own.values()):
        shares = {}
        is_cached = all(cell.axes.get("level") != read_rates.MEMORY for cell in shown)
        why = "no matrix comes from memory" if is_cached else "it was not measured in turns with these products"
        sheet.notes.append(f"No percentage of the rate of reading: {why}.")
    has_rivals = len({cell.contender for cell in shown if cell.is_ok}) >= FEWEST_RIVALS
    rows = 1 + bool(shares)
    height = min(AROUND_INCHES + ROW_INCHES * len(heights), MOST_INCHES)
    panels = sheet.panels(rows, 2 if shares or has_rivals else 1, height=height * rows)
    for panel, (name, percents) in zip(panels, shares.items(), strict=False):
        _numbers(panel, percents, (len(heights), len(widths)), "cividis", (0, 100))
        panel.set_title(f"{name}, % of the rate of reading")
    over, *others = panels[2 * bool(shares) :]
    ratios = at(lambda own: _ratio(own, subject))
    farthest = max((abs(math.log2(ratio)) for ratio in ratios.values() if not isinstance(ratio, str)), default=0.0)
    span = min(max(farthest, LEAST_SPAN), MOST_SPAN)
    _numbers(over, ratios, (len(heights), len(widths)), "PuOr_r", (-span, span))
    over.set_title(f"{subject} over {library}")
    for fastest in others if has_rivals else ():
        _winners(sheet, fastest, at(_winner), (len(heights), len(widths)), Looks(shown))
        fastest.set_title("the fastest")
    for panel in others if not has_rivals else ():
        panel.remove()
        panels.remove(panel)
    for panel in panels:
        panel.set_xticks(range(len(widths)), [_power(size) for size in widths])
        panel.set_yticks(range(len(heights)), [_power(size) for size in heights])
        panel.set_xlabel("columns")
        panel.set_ylabel("rows")
        panel.grid(visible=False)
    hatched = f"the matrix fits a cache ({IN_CACHE}), or its contender has no time" if shares else "no time"
    sheet.notes.append(f"Hatched: {hatched}.")


def _contender(own: list[Cell], name: str) -> Cell | None:
    return next((cell for cell in own if cell.contender == name), None)


def _fastest_library(own: list[Cell]) -> Cell | None:
    """Return the fastest library of a field; one without a time if none has any."""
    peers = [cell for cell in own if rivals.is_peer(cell)]
    return max(peers, key=lambda cell: cell.rate if cell.is_ok else 0.0, default=None)


def _percent(own: list[Cell], of: Chosen, cells: list[Cell]) -> float | str:
    cell = of(own)
    if cell is None or not cell.is_ok:
        return _absence(cell)
    share = read_rates.of_read(cell, cells)
    return share.estimate if share else IN_CACHE if cell.axes.get("level") != read_rates.MEMORY else "-"


def _ratio(own: list[Cell], subject: str) -> float | str:
    ours, peer = _contender(own, subject), _fastest_library(own)
    missing = next((cell for cell in (ours, peer) if cell is None or not cell.is_ok), ours)
    if missing is None or not missing.is_ok:
        return _absence(missing)
    return rates.speed_up(ours, peer).estimate if ours and peer else "-"


def _winner(own: list[Cell]) -> Cell | str:
    done = [cell for cell in own if cell.is_ok]
    return min(done, key=lambda cell: cell.median_ns) if done else _absence(own[0])


def _absence(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return NO_MEMORY if "out of memory" in cell.reason else cell.status


def _numbers(
    panel: Axes, fields: dict[Field, float | str], shape: Field, colours: str, limits: tuple[float, float]
) -> None:
    """Draw numbers as coloured fields, ratios on a scale of powers of two; words on hatched ones."""
    is_ratio = limits[0] < 0
    shades = np.full(shape, math.nan)
    for field, value in fields.items():
        if not isinstance(value, str):
            shades[field] = math.log2(value) if is_ratio else value
    image = panel.imshow(shades, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", origin="lower")
    for field, value in fields.items():
        if isinstance(value, str):
            _hatch(panel, field, value, SMALL if shape[0] <= FEW_ROWS else SMALLEST)
        else:
            luma = np.dot(image.to_rgba(shades[field])[:3], LUMA)
            words = short(value) if is_ratio else f"{value:.0f}" if value >= 1 else short(value, 1)
            _write(panel, field, words, "white" if luma < 0.5 else INK, LARGE if shape[0] <= FEW_ROWS else SMALL)


def _winners(sheet: Sheet, panel: Axes, fields: dict[Field, Cell | str], shape: Field, looks: Looks) -> None:
    """Draw each field in the colour of the contender that is fastest there."""
    names = list(dict.fromkeys(looks.name(cell) for cell in fields.values() if not isinstance(cell, str)))
    shades = np.full(shape, math.nan)
    for field, cell in fields.items():
        if isinstance(cell, str):
            _hatch(panel, field, cell, SMALLEST)
        else:
            shades[field] = names.index(looks.name(cell))
    if names:
        hues = [looks.of(name)["color"] for name in names]
        panel.imshow(shades, cmap=ListedColormap(hues), vmin=-0.5, vmax=len(names) - 0.5, aspect="auto", origin="lower")
    for name in names:
        sheet.add_to_legend(name, color=looks.of(name)["color"], marker="s", linestyle="", markersize=9)


def _hatch(panel: Axes, field: Field, words: str, size: float) -> None:
    row, column = field
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": PALE, "hatch": "////", "linewidth": 0}
    panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))
    if words != IN_CACHE:
        _write(panel, field, words, INK, size)


def _write(panel: Axes, field: Field, words: str, colour: str, size: float) -> None:
    panel.text(field[1], field[0], words, ha="center", va="center", size=size, color=colour)


def _power(size: int) -> str:
    exponent = round(math.log10(size))
    return f"$10^{exponent}$" if size == 10**exponent else f"{size:,}"
