"""A chart as data: panels of series, rows or fields with their axes and references, and what stands around them.

Kinds of figures build it from stored cells; `panels` draws it as a file, and the script of the page as a part of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.stats.statistics import Interval

Look = dict[str, Any]  # colour, marker and line, in matplotlib's words
NEAR = 1.25  # samples this much off what they are samples of do not stretch an axis
ROOM = 1.08  # between the outermost value and the end of a logarithmic axis


class Point(NamedTuple):
    """A value with its interval at a place of the other axis."""

    at: float
    value: Interval
    samples: Sequence[float] = ()  # shown where they are too few for an interval
    begin: float = math.nan  # where a bar or a stem begins; not finite: nothing leads to the point


@dataclass
class Series:
    """Points of one look; they are joined if the look has a ``linestyle``."""

    points: Sequence[Point]
    look: Look
    name: str = ""  # in the legend, or at its last point
    form: str = "line"  # or "steps", "bars", "band": a line with the band of its intervals
    across: str = "y"  # the axis of the values


@dataclass
class Axis:
    """What an axis says and how it is scaled. Of limits, ticks and names what is left open follows from the data."""

    label: str = ""
    scale: str = "linear"  # or "log" (of base 10), "log2", "ratio" (logarithmic around 1)
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Sequence[float] = ()
    names: Sequence[str] = ()  # of rows or columns, at 0, 1, 2 and on
    seen: Sequence[float] = ()  # what it shows at least
    factor: float = 1.0  # ticks say so many times what is drawn
    is_bytes: bool = False


class Rule(NamedTuple):
    """A line across a panel with words at its end, or a strip from `at` to `end`."""

    at: float
    across: str = "y"  # the axis that it stands on
    words: str = ""
    look: Look = {}  # noqa: RUF012 a field of a named tuple, which none writes to
    end: float = math.nan


class Words(NamedTuple):
    """Words at a point, or with "x", "y" or "xy" in `within` at a part of the panel's width, height or both."""

    text: str
    x: float
    y: float
    look: Look = {}  # noqa: RUF012 as above
    within: str = ""


class Table(NamedTuple):
    """Columns of text beside rows, or fields in place of them."""

    heads: list[str]
    rows: list[list[str]]


class Fields(NamedTuple):
    """Coloured fields of rows by columns, each with words; one without a number is blank, or hatched."""

    numbers: list[list[float]]
    words: list[list[str]]
    colours: str | Sequence[str]  # a map of matplotlib's, or a colour for each whole number from 0
    limits: tuple[float, float]
    bar: str = ""  # the label of a bar of colours; empty: none
    is_ratio: bool = False  # numbers are powers of two
    is_hatched: bool = False


@dataclass
class Panel:
    """What stands in one pair of axes."""

    title: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    series: list[Series] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    table: Table | None = None
    fields: Fields | None = None

    def span(self, across: str) -> tuple[float, float]:
        """Return the least and the most on an axis that must be seen: values, their intervals and samples near them."""
        seen = [end for rule in self.rules if rule.across == across for end in (rule.at, rule.end)]
        seen += (self.x if across == "x" else self.y).seen
        for series in self.series:
            for point in series.points:
                if series.across != across:
                    seen.append(point.at)
                    continue
                middle = point.value.estimate
                near = (s for s in point.samples if s / NEAR <= middle <= s * NEAR)
                seen += [*((point.samples and [middle]) or point.value), *near, point.begin]
        known = [value for value in seen if math.isfinite(value)]
        return min(known, default=math.nan), max(known, default=math.nan)


@dataclass
class Chart:
    """Panels in rows of `columns`, what the legend names beside series, and sentences below.

    Attributes
    ----------
    height : float
        Of a panel without rows [inches].
    share : str
        Axes that panels have in common: "x", "y", "xy"; "row" for both within a row of panels.
    ends : bool
        Whether series are named at their last points; else in the legend.
    says : str
        What is shown in place of panels.
    is_computed : bool
        No sample has a part in it.
    title, subtitle, footer : str
        What came out, or what is shown where nothing can be said; what is shown; where and when it was measured.
    names : dict
        What stands behind the name of a series in the legend.
    identifier : str
        Names what the chart is made of, in its file.
    """

    panels: list[Panel] = field(default_factory=list)
    columns: int = 1
    height: float = 2.9
    share: str = ""
    ends: bool = False
    legend: dict[str, Look] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    says: str = ""
    is_computed: bool = False
    title: str = ""
    subtitle: str = ""
    footer: str = ""
    names: dict[str, str] = field(default_factory=dict)
    identifier: str = ""

    @property
    def points(self) -> Iterable[Point]:
        """All points of all series."""
        return (point for panel in self.panels for series in panel.series for point in series.points)

    @property
    def has_spread(self) -> bool:
        """Whether intervals or samples of values are shown."""
        return any(len(point.samples) > 0 or point.value.low < point.value.high for point in self.points)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, for the page: numbers that are not finite are null."""
        return dict(_plain(dataclasses.asdict(self)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict") and not isinstance(value, Interval):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
