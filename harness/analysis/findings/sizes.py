"""Findings about sizes: from which on something pays, and what those cost that fit no tile. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from harness.analysis import ragged_sizes, rates
from harness.analysis.findings.sentences import LOSS, PAYS, Finding, Value, nothing
from harness.analysis.ragged_sizes import swept
from harness.experiment import Json
from harness.stats.statistics import exact, median
from harness.store.store import Cell

MOST_NOISE = 25.0  # percent by which whole tiles may differ in a sweep that tells what other sizes cost
_MACHINE = {"peak": "the peak", rates.READ: "the rate of reading"}  # what the machine can do, in a sentence


def first_size(sizes: Sequence[tuple[float, bool]], point: Callable[[float], str] = "n={:g}".format) -> Value:
    """Return from which size on all pay: "from n=2048 on", "only up to n=256", "nowhere up to n=512"."""
    ordered = sorted(sizes)
    above = max((n for n, pays in ordered if not pays), default=-math.inf)
    first = min((n for n, _ in ordered if n > above), default=math.inf)
    last = max((n for n, _ in itertools.takewhile(lambda size: size[1], ordered)), default=-math.inf)
    if first < math.inf:
        return Value(exact(first), words=f"from {point(first)} on")
    words = f"only up to {point(last)}" if last > -math.inf else f"nowhere up to {point(ordered[-1][0])}"
    return Value(exact(math.inf), words=words)


def pays(cells: list[Cell], options: Json) -> Finding | None:
    """Return for each contender and panel from which size on it is surely faster than the reference.

    With the option ``point``, how a place on the axis ``x`` is written, the reference is the subject instead, and
    medians decide. ``who`` and ``words`` are what a sentence calls the reference and contenders.
    """
    x, is_reversed, found = options.get("x", "n"), "point" in options, list[tuple[str, str, Value]]()
    panels = options.get("panels", "problem")
    series = rates.group(rates.contenders(cells), lambda cell: (rates.words(cell, panels), cell.contender))
    places = [set(place.split(", ")) for place, _ in series]
    shared = set.intersection(*places) if places else set()
    for (place, name), own in series.items():
        pairs = [(c, r) for c in own if c.is_ok and (r := rates.reference_of(c, cells)) is not None and r is not c]
        sizes = [(float(rates.axis(c, x)), _is_faster(c, r, is_reversed=is_reversed)) for c, r in pairs]
        if sizes:
            value = first_size(sizes, options.get("point", "n={:g}").format)
            panel = ", ".join(word for word in place.split(", ") if word not in shared)
            reference = options.get("who", pairs[0][1].contender)
            found.append((name, reference, value._replace(place=panel)))
    if not found:
        return None
    name, reference, value = min(found, key=lambda entry: entry[2].number)
    rest = [entry for entry in found if entry[2] is not value]
    call = options.get("words", {})
    others = rates.group(rest, lambda entry: f"than {entry[0]}" if is_reversed else call.get(entry[0], entry[0]))
    who, over = (reference, name) if is_reversed else (call.get(name, name), reference)
    return Finding(who, PAYS, [value], over, others={name: [v for _, _, v in own] for name, own in others.items()})


def _is_faster(cell: Cell, reference: Cell, *, is_reversed: bool) -> bool:
    if is_reversed:
        return rates.time_ratio(cell, reference).estimate > 1
    return rates.speed_up(cell, reference).low > 1


def losses(cells: list[Cell], options: Json) -> Finding | None:
    """Return what sizes that fit no tile cost the subject at most, and in the middle; who else loses most.

    In a sweep a loss is named only where it is beyond what whole tiles differ by themselves.
    """
    who, x = options["subject"], options.get("x", "n")
    sweeps = swept.sweeps(cells, options) if options.get("sweeps") else {}
    found, firm = ragged_sizes.losses(cells, options), ragged_sizes.firm_sizes(cells, options)
    ends = {row: ragged_sizes.worst(own, {n for name, n in firm if name == row[0]}) for row, own in found.items()}
    own = [row for row in found if row[0] == who]
    timed = [cell for cell in rates.timed(cells) if rates.axis(cell, "backend") == who]
    judged = [(cell, None) for cell in timed]
    if not own:
        alone = nothing(f"{who} was measured alone: the drift of the machine hides what a size costs", judged)
        return alone if options.get("sweeps") and timed else None
    subject = max(own, key=lambda row: (sweeps[row].is_noise_known, ends[row][1])) if sweeps else own[0]
    (n, loss), sweep = ends[subject], sweeps.get(subject)
    if sweep and (why := _cannot_tell(sweep, subject)):
        return nothing(why, judged)
    middle, noise = median([lost for _, lost in found[subject]]), sweep.noise if sweep else -math.inf
    notes = [f"In the median {_row(subject)} loses {max(middle, 0):.1f} %"]
    if sweep:
        beside = _MACHINE.get(sweep.beside, sweep.beside)
        notes += [f"whole tiles differ by {sweep.noise:.0f} %", f"speeds are over {beside}, timed in turns"]
    size = "n={}".format if x == "n" else f"{x} {{}}".format
    others = {row: end for row, end in ends.items() if row[0] != who}
    others = {row: end for row, end in others.items() if not sweeps or sweeps[row].is_beyond_noise(end[1])}
    if others:
        row = max(others, key=lambda row: others[row][1])
        at, most = others[row]
        notes.append(f"{_row(row)} loses at most {max(most, 0):.0f} % ({size(at)})")
    value = Value(exact(max(loss, 0.0)), place=size(n)) if loss > noise else Value(exact(noise))
    what = f"at {options.get('ragged', 'sizes that fit no tile')}"
    return Finding(_row(subject), LOSS, [value], what, judged=judged, note="; ".join(notes))


def _cannot_tell(sweep: swept.Sweep, row: tuple[str, str]) -> str:
    """Return why noise hides what sizes cost; mostly nothing."""
    if not sweep.is_noise_known:
        return f"Too few whole tiles were measured to tell what sizes cost {_row(row)}"
    hides = f"Whole tiles of {_row(row)} differ by {sweep.noise:.0f} %, which hides what other sizes cost"
    return hides if sweep.noise > MOST_NOISE else ""


def _row(name: tuple[str, str]) -> str:
    """Return a contender with its row in a figure: "gpu-tuned (float32)"."""
    return f"{name[0]} ({name[1]})" if name[1] else name[0]


FINDINGS: dict[str, Callable[[list[Cell], Json], Finding | None]] = {"pays": pays, "losses": losses}
