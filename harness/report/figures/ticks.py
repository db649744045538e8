"""Limits and ticks of axes, and names that stand apart. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.report.figures.chart import ROOM

POWERS = tuple(2.0**power for power in range(-20, 21))
FEW_RATIOS = (0.25, 0.5, 0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)  # of them, as many as have room
SMALL_RATIOS = (1.25, 1.5, 2.0, 3.0, 4.0)  # beside a bar of colours; of larger ones powers of two
WIDEST = 4.0  # ratio of the ends of an axis of ratios from which on its ticks are powers of two alone
SHORTEST = (0.8, 1.25)  # what an axis of ratios shows at least: what differs by little is not to look as if by much
MOST_DECADES = 4


def limits(scale: str, span: tuple[float, float], given: tuple[float | None, float | None]) -> tuple[float, float]:
    """Return the ends of an axis: those that are `given`, else a little outside of what must be seen."""
    low, high = span if all(map(math.isfinite, span)) else (0.0, 1.0) if scale == "linear" else (1.0, 10.0)
    if scale == "ratio":
        low, high = min(low, SHORTEST[0]), max(high, SHORTEST[1])
    if scale == "linear":
        low = min(low, low if given[0] is None else given[0])  # room is a part of what is shown
        room = 0.06 * ((high - low) or abs(high) or 1.0)
        ends = low - room, high + room
    else:
        low = low if low > 0 else high / 1e3
        room = max(ROOM, (high / low) ** 0.05)
        ends = low / room, high * room
    return tuple(end if fixed is None else fixed for end, fixed in zip(ends, given, strict=True))  # type: ignore[return-value]


def apart(ticks: Sequence[float], least: float = 1.4) -> list[float]:
    """Return those of rising `ticks` whose numbers have room on a logarithmic axis; powers of two if those are many."""
    powers = [tick for tick in ticks if tick > 0 and math.log2(tick).is_integer()]
    kept: list[float] = []
    for tick in powers if len(powers) > 3 else ticks:
        if not kept or tick >= kept[-1] * least:
            kept.append(tick)
    return kept


def of_decades(low: float, high: float, factor: float = 1.0, most: int = MOST_DECADES) -> list[float]:
    """Return ticks at 1, 3, 10, 30 and on, of `factor` times an axis; at round numbers where it has not two of them."""
    low, high = low * factor, high * factor
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    seen = [tick for power in powers for tick in (10.0**power, 3 * 10.0**power) if low <= tick <= high]
    if len(seen) > most:
        whole = [tick for tick in seen if math.log10(tick).is_integer()]
        seen = whole[:: -(-len(whole) // most)]
    if len(seen) < 2:
        step = 10.0 ** math.floor(math.log10((high - low) / 2))
        step = next((step * times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= most), step)
        counts = range(math.ceil(round(low / step, 9)), math.floor(round(high / step, 9)) + 1)
        seen = [float(f"{step * count:.12g}") for count in counts]
    return [tick / factor for tick in seen]


def of_ratios(low: float, high: float, least: float) -> list[float]:
    """Return ticks of a logarithmic axis of ratios, 1 among them, each `least` of its length from the next."""
    known = POWERS if high >= WIDEST * low else FEW_RATIOS
    kept = [1.0]
    for tick in sorted((tick for tick in known if low <= tick <= high), key=lambda tick: abs(math.log(tick))):
        if all(abs(math.log(tick / other)) >= least * math.log(high / low) for other in kept):
            kept.append(tick)
    return sorted(kept)


def of_bar(most: float, rows: int) -> list[float]:
    """Return the ratios that stand beside a bar of colours from ``2 ** -most`` to ``2 ** most``, as high as `rows`."""
    above = [tick for tick in (SMALL_RATIOS if most <= math.log2(SMALL_RATIOS[-1]) else POWERS) if tick > 1]
    seen = [tick for tick in above if math.log2(tick) <= most + 1e-9]
    step = -(-2 * len(seen) // max(rows - 1, 2)) or 1  # as many above 1 as below it
    kept = seen[::-1][::step]
    return [*(1 / tick for tick in kept), 1.0, *reversed(kept)]


def ratio(value: float) -> str:
    """Return a ratio in words: "1/64", "0.8", "8"."""
    power = math.log2(value)
    if power <= -1 and power.is_integer():
        return f"1/{1 / value:.0f}"
    return f"{value:.4g}" if power < 10 else f"{value:.0f}"


def spread_out(heights: Sequence[float], least: float) -> list[float]:
    """Return rising `heights` moved so that they are `least` apart and below 1: up where they meet, down from the top.

    Heights are parts of a panel.
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max([height, *(below + least for below in placed[-1:])]))
    top = 1.0
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], top)
        top = placed[index] - least
    return placed
