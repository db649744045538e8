"""Findings that are ratios, of speeds, times or errors, over a library, another kernel or the reference. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from harness.analysis import caveats, contests, rates, rivals
from harness.analysis.findings import libraries
from harness.analysis.findings.sentences import (
    ERROR,
    FIRST,
    LEAST,
    MEAN,
    MOST,
    RESIDUAL,
    SPEED,
    TIME,
    WINS,
    Finding,
    Measure,
    Value,
)
from harness.experiment import Json
from harness.stats.statistics import Interval, exact, geometric_mean
from harness.stats.verdict import Verdict
from harness.store.store import Cell

# What the option ``over`` may name: what finds the rival of a cell.
LIBRARY, KERNEL, REFERENCE = "library", "kernel", "reference"
Rival = Callable[[Cell, list[Cell]], Cell | None]
RIVALS: dict[str, Rival] = {
    LIBRARY: rivals.fastest_peer,
    KERNEL: rivals.fastest_other,
    REFERENCE: rates.reference_of,
}
FASTEST = {LIBRARY: rivals.THE_FASTEST, KERNEL: "the fastest other kernel"}
Ratio = Callable[[Cell, Cell], Interval | None]


def _of_fact(name: str) -> Ratio:
    """Return the function for the fact called `name` of a cell over that of another."""

    def over(cell: Cell, other: Cell) -> Interval | None:
        own, of_other = cell.facts.get(name), other.facts.get(name)
        return exact(own / of_other) if own is not None and of_other else None

    return over


def ratio(measure: Measure, of: Ratio, cells: list[Cell], options: Json) -> Finding | None:
    """Return the ratios of a subject to its rivals.

    Parameters
    ----------
    measure : Measure
    of : callable
        What is compared.
    cells : list of Cell
    options : mapping
        ``over`` is one of `RIVALS`, the reference by default. ``subject`` is a contender or a backend; without it the
        subject is who has the number that ``pick`` picks, of our own kernels if there are any. ``place`` are axes that
        say where, ``by`` the axis that names who. Of the semiring ``named`` the means are told by dtype.
        ``reference_words`` is what a sentence calls the reference.
    """
    over = options.get("over", REFERENCE)
    values = _values(of, RIVALS[over], cells, options)
    if not values:
        return None
    if over != REFERENCE and "subject" in options:
        return _over_fastest(measure, values, cells, options)
    by_who = rates.group(values, lambda value: str(rates.axis(value.cell, options.get("by", "contender"))))
    ours = {who: own for who, own in by_who.items() if not rivals.is_peer(own[0].cell)} or by_who
    pick = options.get("pick", MOST)
    choose = min if pick == LEAST else max
    who = choose(ours, key=lambda name: choose(value.number.estimate for value in ours[name]))
    own = by_who.pop(who)
    at = choose(own, key=lambda value: value.number.estimate)
    name = options.get("reference_words", at.rival.contender)
    return Finding(who, measure, own, name, pick, others=by_who, slower=_slower(measure, own))


def _values(of: Ratio, find: Rival, cells: list[Cell], options: Json) -> list[Value]:
    """Return the number of each cell of the subject that has a rival."""
    subject, axes, found = options.get("subject"), options.get("place", ()), list[Value]()
    timed = rates.timed(cells)
    named = [cell for cell in timed if cell.contender == subject]
    for cell in named or [cell for cell in timed if subject in (None, rates.axis(cell, "backend"))]:
        rival = find(cell, cells)
        if rival is None or rival is cell:
            continue
        number = of(cell, rival)
        found += [] if number is None else [Value(number, (cell, rival), rates.words(cell, axes))]
    return found


def _over_fastest(measure: Measure, values: list[Value], cells: list[Cell], options: Json) -> Finding:
    """Return the mean over the fastest of several; over an expression of a library's operations apart."""
    pairs = [(value.cell, value.rival) for value in values]
    who, over = options["subject"], options["over"]
    named = [value for value in values if rates.axis(value.cell, "semiring") == options.get("named")]
    routines = [value for value in named or values if not rivals.is_expression(value.rival)] or named or values
    name = _name_of_rivals(over, routines, cells)
    slower = _slower(measure, values)
    if named:
        by_dtype = rates.group(routines, lambda value: str(rates.axis(value.cell, "dtype")))
        means = [Value(exact(_mean(own)), place=dtype) for dtype, own in by_dtype.items()]
        every = {f"all {len(values)} products": values}
        return Finding(who, measure, means, name, scope=options["named"], others=every, slower=slower, judged=pairs)
    expressions = [value for value in values if value not in routines]
    others = {"over expressions": expressions} if expressions else {}
    plain = libraries.as_installed(cells, options) if over == LIBRARY else ""
    note = f"{plain} times as fast as libraries as installed" if plain not in ("", f"{_mean(routines):.2f}") else ""
    return Finding(who, measure, routines, name, MEAN, others=others, slower=slower, judged=pairs, note=note)


def _mean(values: Sequence[Value]) -> float:
    return geometric_mean([value.number.estimate for value in values])


def _slower(measure: Measure, values: Sequence[Value]) -> int:
    """Return of how many speeds the subject is surely slower: a tie is no loss."""
    pairs = [(value.cell, value.rival) for value in values] if measure is SPEED else []
    return sum(outcome is Verdict.SLOWER for outcome in contests.verdicts(pairs)) if pairs else 0


def _name_of_rivals(over: str, values: Sequence[Value], cells: Sequence[Cell]) -> str:
    """Return "the fastest library, mostly OpenBLAS with Haswell kernels"; one alone by its name."""
    by_name = rates.group((value.rival for value in values), lambda rival: rival.contender)
    name, own = max(by_name.items(), key=lambda entry: len(entry[1]))
    if rivals.is_expression(own[0]):
        return f"a {rivals.project_of(own[0])} expression"
    kernels = libraries.families([cell for cell in cells if cell.contender == name]).get(name)
    who = libraries.plain_name(own[0]) + (f" with {kernels}" if kernels else "")
    semirings = {rates.axis(value.cell, "semiring") for value in values}
    same = [c for c in rates.timed(cells) if rates.axis(c, "semiring") in semirings]
    timed = {rivals.project_of(c) for c in same if rivals.is_peer(c) and not rivals.is_expression(c)}
    if over == LIBRARY and len(timed) == 1:
        return who
    if 2 * len(own) <= len(values):
        return FASTEST[over]
    return f"{FASTEST[over]}, {'here' if len(by_name) == 1 else 'mostly'} {who}"


def best(cells: list[Cell], options: Json) -> Finding | None:
    """Return the fastest choice of each panel, or of each value of the axis ``by``, over the slowest."""
    by = options.get("by", options.get("panels", "problem"))
    found = {}
    done = rates.timed(cells)
    for place, own in rates.group(done, lambda cell: rates.words(cell, by)).items():
        fast, slow = max(own, key=lambda cell: cell.rate), min(own, key=lambda cell: cell.rate)
        if fast is not slow:
            found[fast.contender, slow.contender, place] = Value(exact(fast.rate / slow.rate), (fast, slow), place)
    if not found:
        return None
    first = next(iter(found)) if options.get("pick", FIRST) == FIRST else max(found, key=lambda key: found[key].number)
    who, over, _ = first
    others = {f"{fast} over {slow}": [v] for (fast, slow, place), v in found.items() if (fast, slow, place) != first}
    return Finding(who, SPEED, [found[first]], over, others=others)


def fastest(cells: list[Cell], options: Json) -> Finding | None:
    """Return who is fastest in most cases, and its speed in all of them over the fastest library or the reference."""
    groups = rates.group(rates.timed(cells), lambda c: (c.case, c.run)).values()
    cases = [sorted(own, key=lambda cell: cell.median_ns) for own in groups if len(own) > 1]
    if not cases:
        return None
    wins = rates.group(cases, lambda own: own[0].contender)
    counts = {who: [Value(exact(len(won)), words=f"{len(won)} of {len(cases)}")] for who, won in wins.items()}
    who = max(wins, key=lambda name: len(wins[name]))
    own = [(cell, case) for case in cases for cell in case if cell.contender == who]
    first, _ = own[0]
    has_libraries = not rivals.is_peer(first) and all(rivals.fastest_peer(cell, case) for cell, case in own)
    over = LIBRARY if has_libraries else REFERENCE if who != first.reference else KERNEL
    measure, of = (TIME, rates.time_ratio) if options.get("value") == "time_ratio" else (SPEED, rates.speed_up)
    pairs = [(cell, rival) for cell, case in own if (rival := RIVALS[over](cell, case)) is not None]
    name = FASTEST.get(over) or options.get("reference_words", first.reference)
    held = [Finding(who, measure, [Value(of(*pair), pair) for pair in pairs], name).range] if pairs else []
    ties = caveats.ties([(case[0], case[1]) for case in wins[who]])
    told = [f"{ties} of its wins {'is a tie' if ties == 1 else 'are ties'}"] if ties else []
    won = counts.pop(who)
    return Finding(who, WINS, won, "cases", others=counts, note="; ".join(told + held))


FINDINGS: dict[str, Callable[[list[Cell], Json], Finding | None]] = {
    "speed": functools.partial(ratio, SPEED, rates.speed_up),
    "time": functools.partial(ratio, TIME, rates.time_ratio),
    "error": functools.partial(ratio, ERROR, _of_fact("greatest_error")),
    "residual": functools.partial(ratio, RESIDUAL, _of_fact("residual")),
    "best": best,
    "fastest": fastest,
}
