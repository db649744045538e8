"""The file: cards, charts, tables and their data in one HTML document, within a limit of size."""

from __future__ import annotations

import base64
import bisect
import dataclasses
import functools
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.experiment import Experiment
from harness.page import belief, cards, charts, colours, matrix, plain, recorded, rungs, weak
from harness.page.recorded import Recorded, ShownRow
from harness.report.figures.chart import Chart
from harness.surroundings import write_whole

# Of the whole file. What gives way to it: first the intervals of the tables that need no script; then samples, of which
# so many a cell are shown, by the pointer alone.
LIMIT = 2_000_000
RICHNESS = ((recorded.MOST_SAMPLES, True), *((count, False) for count in (recorded.MOST_SAMPLES, 8, 5, 3, 0)))
# So many of the weakest places are drawn and listed; all of them are counted.
MOST_WEAK, MOST_DRAWN = 60, 30


def write(machines: Sequence[Recorded], experiments: Mapping[str, Experiment], path: Path, *, mark: str = "") -> int:
    """Write the page of `machines` to `path` and return its size in bytes.

    Parameters
    ----------
    machines : sequence of Recorded
        In the order of the page: the first is shown when it opens.
    experiments : mapping
        In the order of the report.
    path : Path
    mark : str
        A sentence about the code that makes the page.

    Raises
    ------
    HarnessError
        If the extra "page" is not installed, or the page is larger than `LIMIT`.
    """
    _jinja()  # asked for before seconds of work
    rows = [row for own in machines for row in recorded.shown(own, experiments)]
    parts = _parts(machines, experiments, rows, mark)
    tables = functools.cache(functools.partial(plain.plain, rows))

    def text_of(count: int, has_intervals: bool) -> str:
        thinner = [dataclasses.replace(row, samples=recorded.spread_out(row.samples, count)) for row in rows]
        data = _packed({"cells": recorded.columns(thinner), **parts["data"]})
        return _render({**parts, "tables": tables(has_intervals=has_intervals), "data": data})

    text = _richest(text_of)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
    return len(text.encode())


def _richest(text_of: Callable[[int, bool], str]) -> str:
    """Return the text of the first form that is small enough; raise HarnessError if none is.

    Each form is smaller than the one before, so that after the first one, which a page of few machines has, the place
    is found by halving.
    """
    texts = functools.cache(lambda form: text_of(*RICHNESS[form]))

    def is_small(form: int) -> bool:
        return len(texts(form).encode()) <= LIMIT

    form = 0 if is_small(0) else bisect.bisect_left(range(len(RICHNESS)), True, lo=1, key=is_small)
    if form < len(RICHNESS):
        return texts(form)
    raise HarnessError(
        "the page is too large",
        expected=f"at most {LIMIT:,} bytes",
        got=f"{len(texts(form - 1).encode()):,}",
        fix="fewer machines: --machine",
    )


def _parts(
    machines: Sequence[Recorded], experiments: Mapping[str, Experiment], rows: list[ShownRow], mark: str
) -> dict[str, Any]:
    """Return what the template shows, and under ``data`` what scripts draw."""
    known = list(experiments.values())
    theirs = {own.name for own in machines if not own.is_own}
    places = sorted(weak.places(machines, known), key=lambda place: place.machine in theirs)
    beliefs = [belief.belief(own) for own in machines]
    made_cards = [(own, cards.cards(own, known)) for own in machines]
    found = next((of_machine for _, of_machine in made_cards if of_machine), [])
    first = max(found, key=lambda card: card.prominence, default=None)
    ladder = next(((own, steps) for own in machines if (steps := rungs.rungs(own))), None)
    roofline = charts.roofline(ladder[0], experiments) if ladder else Chart()
    spread = charts.spread(beliefs)
    return {
        "machines": machines,
        "cards": made_cards,
        "confidence": cards.CONFIDENCE,
        "matrices": matrix.matrices(machines, rows, known),
        "weak": places[:MOST_WEAK],
        "weak_count": len(places),
        "weak_drawn": MOST_DRAWN,
        "least_loss": weak.LEAST_LOSS,
        "beliefs": beliefs,
        "ladder": ladder,
        "levels": rungs.levels(),
        "palette": colours.palette(rows),
        "count": len(rows),
        "questions": {name: experiment.question for name, experiment in experiments.items()},
        "mark": mark,
        "roofline": roofline,
        "spread": spread,
        "data": {
            "first": first.address if first else "",
            "colours": {row.backend: f"var({colours.variable(row.backend)})" for row in rows},
            "axes": {name: recorded.axis_of(experiment) for name, experiment in experiments.items()},
            "roofline": charts.to_json(roofline),
            "weak": charts.to_json(charts.weak(places[:MOST_DRAWN])),
            "spread": charts.to_json(spread),
        },
    }


def _render(parts: Mapping[str, Any]) -> str:
    """Return the document, everything escaped that is not marked as HTML."""
    jinja2 = _jinja()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return str(
        environment.get_template("page.html").render(**parts, style=_template("page.css"), code=_template("page.js"))
    )


def _template(name: str) -> str:
    return (resources.files("harness.page") / "templates" / name).read_text(encoding="utf-8")


def _jinja() -> Any:
    try:
        import jinja2
    except ImportError as error:
        fix = "pip install jinja2"
        raise HarnessError("the page needs Jinja2, which is not installed", fix=fix) from error
    return jinja2


def _packed(record: Mapping[str, Any]) -> str:
    """Return a record as the page unpacks it: JSON, gzip, base64. The same record gives the same bytes."""
    text = json.dumps(record, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
