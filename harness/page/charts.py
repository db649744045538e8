"""The charts of the page that no choice changes: figures' own, and two more. The script of the page draws them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis import answers
from harness.experiment import Experiment
from harness.page.belief import Belief
from harness.page.colours import variable
from harness.page.recorded import Recorded, digits
from harness.page.weak import Weak
from harness.report.figures import drawing
from harness.report.figures.chart import Axis, Chart, Panel, Point, Series
from harness.report.figures.looks import COLOURS, INK, dot
from harness.stats.statistics import exact

ROOFLINE = "roofline"
STEP = 2  # percent: width of a bar of `spread`
MARKERS = {"beaten": "o", "ragged size": "^"}  # of a weak place, by its kind


def roofline(recorded: Recorded, experiments: Mapping[str, Experiment]) -> Chart:
    """Return the chart of the rungs below the measured roofs, as the figure has it; empty if none was measured."""
    for figure in experiments[ROOFLINE].figures[:1]:
        of = answers.shown(figure, ROOFLINE, recorded.cells)
        if drawing.is_shown(figure, of):
            return drawing.chart_of(figure, of, recorded.machine)
    return Chart()


def weak(places: Sequence[Weak]) -> Chart:
    """Return a row for each place where ours is slow, in their order; without any an empty chart."""
    if not places:
        return Chart()
    panel = Panel(x=Axis("% missing", limits=(0, None)), y=Axis(names=[place.name for place in places]))
    for row, place in enumerate(places):
        look = dot(_colour(place.contender.split(",")[0].split()[0]), MARKERS[place.kind])
        panel.series.append(Series([Point(row, exact(place.percent))], look, f"{place.kind}: {place.name}", across="x"))
    return Chart([panel], subtitle="Places where it is slow; the same stands in the table below")


def spread(beliefs: Sequence[Belief]) -> Chart:
    """Return how many cells differ by how much between runs; where nothing has run twice, an empty chart."""
    counts = Counter(math.floor(one.percent / STEP) for own in beliefs for one in own.spreads)
    if not counts:
        return Chart()
    bars = [Point(STEP * (at + 0.5), exact(float(count)), begin=0.0) for at, count in sorted(counts.items())]
    panel = Panel(x=Axis("slowest run over fastest, %", limits=(0, None)), y=Axis("cells", limits=(0, None)))
    panel.series = [Series(bars, {"color": INK}, form="bars")]
    return Chart([panel], subtitle="Number of cells by how much their times differ between runs")


def to_json(chart: Chart) -> Any:
    """Return a chart for the script of the page: with few digits, and colours that follow a light or dark scheme."""
    text = json.dumps(_rounded(chart.to_json())).replace(f'"{INK}"', '"currentColor"')
    for backend, colour in COLOURS.items():
        text = text.replace(f'"{colour}"', json.dumps(_colour(backend)))
    return json.loads(text)


def _colour(backend: str) -> str:
    return f"var({variable(backend)}, {COLOURS.get(backend, 'currentColor')})"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return digits(value) if isinstance(value, float) else value
