"""The file: cards, charts, tables and their data in one HTML document, within a limit of size."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.experiment import Experiment
from harness.page import belief, cards, charts, colours, extra, matrix, plain, recorded, rungs, weak
from harness.page.recorded import Recorded, ShownRow
from harness.surroundings import write_whole

# Of the whole file. What gives way to it: first the intervals of the tables that need no script; then samples, of which
# so many a cell are shown, by the pointer alone.
LIMIT = 2_000_000
RICHNESS = ((recorded.MOST_SAMPLES, True), *((count, False) for count in (recorded.MOST_SAMPLES, 8, 5, 3, 0)))
# Characters of seven bits that HTML reads as something else. Each is written with the seven bits after it, as one
# character of two bytes from this one on.
NOT_WRITTEN, FIRST_PAIR = "\0\n\r<", 0x100
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
    extra.altair()
    extra.converter()  # both are asked for before seconds of work
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
    places = weak.places(machines, known)
    beliefs = [belief.belief(own) for own in machines]
    made_cards = [(own, cards.cards(own, known)) for own in machines]
    first = max((card for _, own in made_cards for card in own), key=lambda card: card.prominence, default=None)
    ladder = next(((own, steps) for own in machines if (steps := rungs.rungs(own))), None)
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
        "script": _scripts(),
        "data": {
            "charts": charts.all_charts(),
            "first": first.address if first else "",
            "colours": {row.backend: f"var({colours.variable(row.backend)})" for row in rows},
            "axes": {name: recorded.axis_of(experiment) for name, experiment in experiments.items()},
            "roofline": rungs.roofline(ladder[0]) if ladder else [],
            "weak": [_place(place) for place in places[:MOST_DRAWN]],
            "spread": [{"percent": recorded.digits(one.percent)} for own in beliefs for one in own.spreads],
        },
    }


def _place(place: weak.Weak) -> dict[str, Any]:
    value = f"{place.percent:.1f} % of the speed of {place.against}"
    record = {
        **place._asdict(),
        "colour": f"var({colours.variable(place.contender.split(',')[0].split()[0])}, currentColor)",
    }
    return {**record, "place": place.name, "value": value, "percent": recorded.digits(place.percent)}


def _render(parts: Mapping[str, Any]) -> str:
    """Return the document, everything escaped that is not marked as HTML."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return str(
        environment.get_template("page.html").render(**parts, style=_template("page.css"), code=_template("page.js"))
    )


def _template(name: str) -> str:
    return (resources.files("harness.page") / "templates" / name).read_text(encoding="utf-8")


@functools.cache
def _scripts() -> str:
    """Return Vega, Vega-Lite and Vega-Embed, which leave ``vegaEmbed`` in the window."""
    return _packed_text(extra.converter().javascript_bundle("window.vegaEmbed=vegaEmbed;"))


def _packed(record: Mapping[str, Any]) -> str:
    return _packed_text(json.dumps(record, separators=(",", ":")))


def _packed_text(text: str) -> str:
    """Return `text` as the page unpacks it: gzip, then seven bits a character. The same text gives the same bytes."""
    bits = np.unpackbits(np.frombuffer(gzip.compress(text.encode(), 9, mtime=0), np.uint8))
    # It ends in a zero byte, as of less than 16 MB. Ones after it make the last character one that stands for itself.
    padded = np.pad(bits, (0, 7 - len(bits) % 7), constant_values=1)
    return _characters((np.packbits(padded.reshape(-1, 7), axis=1).ravel() >> 1).tolist())


def _characters(codes: Sequence[int]) -> str:
    """Return `codes` of seven bits as characters that HTML leaves as they are."""
    written, left = [], iter(codes)
    for code in left:
        pair = NOT_WRITTEN.find(chr(code))
        written.append(chr(code if pair < 0 else FIRST_PAIR + (pair << 7) + next(left)))
    return "".join(written)
