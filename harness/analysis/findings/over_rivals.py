"""Findings about the speed of a subject over the fastest library, or over the fastest other kernel. Pure.

The title has the mean and both ends; where those are, and how many ratios are undecided, stands below it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.analysis import caveats, contests, rates, rivals
from harness.analysis.caveats import Undecided
from harness.analysis.findings import libraries
from harness.analysis.findings.ranks import Claim, ends, number
from harness.analysis.places import where_in_words
from harness.experiment import Json
from harness.stats.statistics import geometric_mean
from harness.stats.verdict import Verdict
from harness.store.store import Cell

Rival = Callable[[Cell, list[Cell]], Cell | None]


class Over(NamedTuple):
    """What the subject is held against: the fastest of some, and their name in a sentence."""

    fastest: Rival
    name: str


LIBRARY = Over(rivals.fastest_peer, rivals.THE_FASTEST)
KERNEL = Over(rivals.fastest_other, "the fastest other kernel")


def _pairs(over: Over, cells: list[Cell], options: Json) -> list[tuple[Cell, Cell]]:
    """Return each cell of the subject with its rival."""
    own = [c for c in rates.contenders(cells) if c.is_ok and rates.axis(c, "backend") == options["subject"]]
    return [(cell, rival) for cell in own if (rival := over.fastest(cell, cells)) is not None]


def _sentence(over: Over, cells: list[Cell], options: Json) -> str:
    pairs, who = _pairs(over, cells, options), options["subject"]
    if not pairs:
        return ""
    if len(pairs) == 1:
        ((cell, rival),) = pairs
        name = _name(rival) if rivals.is_expression(rival) else rival.contender
        claim = Claim(rates.speed_up(cell, rival), name, where_in_words(cell), cell)
        return f"{who} is {number(claim)} times as fast as {claim.who} ({claim.where})"
    if rates.common((cell for cell, _ in pairs), "semiring") is None:
        return f"{who} is {_by_problem(pairs, over, options)}"
    speeds = _speeds(pairs)
    plain = libraries.as_installed(cells, options)
    mean = f"{geometric_mean(speeds):.2f}"
    installed = f", {plain} as installed" if plain not in ("", mean) else ""
    slower = len(_slower(pairs))
    losses = f", slower in {slower}" if slower else ""
    span = f"{min(speeds):.2f} to {max(speeds):.2f}{losses}"
    of = f"geometric mean of {len(pairs)} products{_threads(pairs)}, {span}{installed}"
    return f"{who} is {mean} times as fast as {_rivals(over, pairs, cells)} ({of})"


def _speeds(pairs: Sequence[tuple[Cell, Cell]]) -> list[float]:
    return [rates.speed_up(cell, rival).estimate for cell, rival in pairs]


def _slower(pairs: Sequence[tuple[Cell, Cell]]) -> list[tuple[Cell, Cell]]:
    """Return the pairs of which the first is surely slower: a tie is no loss."""
    found = zip(pairs, contests.verdicts(pairs), strict=True)
    return [pair for pair, outcome in found if outcome is Verdict.SLOWER]


def _threads(pairs: Sequence[tuple[Cell, Cell]]) -> str:
    """Return " on 1 thread" or " on 1 and 2 threads", with which the ends change; on GPUs nothing."""
    counts = sorted({cell.threads for cell, _ in pairs if not rates.is_on_device(cell)})
    *others, most = [*map(str, counts)] or [""]
    return f" on {', '.join(others)}{' and ' * bool(others)}{rates.plural(int(most), 'thread')}" if most else ""


def _by_problem(pairs: Sequence[tuple[Cell, Cell]], over: Over, options: Json) -> str:
    """Return the ends over all cases, those over a library apart from those over an expression of its operations.

    Of the semiring that the option ``named`` names the geometric means of each dtype come first, over the library that
    has it if there is one.
    """
    own = [pair for pair in pairs if rates.axis(pair[0], "semiring") == options.get("named")]
    by_routine = [pair for pair in own if not rivals.is_expression(pair[1])]
    if own:
        return f"{_means(by_routine or own, over)} over {options['named']}; of all products {_ends(pairs)}"
    by_expression = rates.group(pairs, lambda pair: rivals.is_expression(pair[1]))
    return "; ".join(_span(by_expression[kind], over) for kind in sorted(by_expression))


def _means(pairs: Sequence[tuple[Cell, Cell]], over: Over) -> str:
    """Return "5.51 (float32) to 13.5 times (float64) as fast as tropical-gemm": the geometric means by dtype."""
    by_dtype = rates.group(pairs, lambda pair: str(rates.axis(pair[0], "dtype")))
    means = sorted((geometric_mean(_speeds(alike)), dtype) for dtype, alike in by_dtype.items())
    (least, low), (most, high) = means[0], means[-1]
    first = "" if low == high else f"{_rounded(least)} ({low}) to "
    return f"{first}{_rounded(most)} times{f' ({high})' * bool(first)} as fast as {_common_name(pairs, over)}"


def _span(pairs: Sequence[tuple[Cell, Cell]], over: Over) -> str:
    """Return "1.12 (plus_times float32) to 8.53 times (min_plus float64) as fast as the fastest library".

    Where it is surely slower that is said: "up to 8.53 times as fast as the fastest library (min_plus float64), slower
    in 2 of 30 (at worst 0.80, plus_times float32)".
    """
    (least, low, _), (most, high, _) = _least_and_most(pairs)
    name, slower = _common_name(pairs, over), len(_slower(pairs))
    if slower and most > 1:
        worst = f"slower in {slower} of {len(pairs)} (at worst {_rounded(least)}, {low})"
        return f"up to {_rounded(most)} times as fast as {name} ({high}), {worst}"
    if low == high:
        span = " to ".join(dict.fromkeys(map(_rounded, (least, most))))
        return f"{span} times as fast as {name} ({high})"
    return f"{_rounded(least)} ({low}) to {_rounded(most)} times ({high}) as fast as {name}"


def _ends(pairs: Sequence[tuple[Cell, Cell]]) -> str:
    """Return the least and the most, each with the rival there; where it is surely slower, in how many products."""
    (least, low, worst), (most, high, best) = _least_and_most(pairs)
    slower, top = len(_slower(pairs)), f"{_rounded(most)} times {_name(best)} ({high})"
    if not slower:
        return f"{_rounded(least)} times {_name(worst)} ({low}) to {top}"
    at_worst = "at worst " if slower > 1 else ""
    return f"up to {top}, slower in {slower} of {len(pairs)} ({at_worst}{_rounded(least)} times {_name(worst)}, {low})"


def _least_and_most(pairs: Sequence[tuple[Cell, Cell]]) -> tuple[tuple[float, str, Cell], tuple[float, str, Cell]]:
    """Return the least and the greatest speed, each with its semiring and dtype, and the rival."""
    speeds = [(rates.speed_up(cell, rival).estimate, _kind(cell), rival) for cell, rival in pairs]
    return min(speeds, key=lambda entry: entry[:2]), max(speeds, key=lambda entry: entry[:2])


def _name(rival: Cell) -> str:
    """Return what a sentence calls a rival: "a NumPy expression", "MKL", or the name of a kernel of this project."""
    return f"a {rivals.project_of(rival)} expression" if rivals.is_expression(rival) else libraries.plain_name(rival)


def _common_name(pairs: Sequence[tuple[Cell, Cell]], over: Over) -> str:
    """Return the name of the rivals if all have the same, else what the fastest of several is called."""
    names = {_name(rival) for _, rival in pairs}
    return names.pop() if len(names) == 1 else over.name


def _kind(cell: Cell) -> str:
    """Return semiring and dtype: that of the operands where it is another, as in the row of a figure."""
    return f"{rates.axis(cell, 'semiring')} {cell.axes.get('operands', rates.axis(cell, 'dtype'))}"


def _rounded(speed: float) -> str:
    return f"{speed:.2f}" if speed < 10 else f"{speed:.3g}"


def _rivals(over: Over, pairs: Sequence[tuple[Cell, Cell]], cells: Sequence[Cell]) -> str:
    """Return against whom a mean is: "the fastest library, mostly OpenBLAS with Haswell kernels".

    If only one library was measured, it is that one, and where no library has the product, an expression of its.
    """
    by_name = rates.group((rival for _, rival in pairs), lambda rival: rival.contender)
    name, own = max(by_name.items(), key=lambda entry: len(entry[1]))
    if all(rivals.is_expression(rival) for _, rival in pairs):
        return _common_name(pairs, over)
    kernels = libraries.families([cell for cell in cells if cell.contender == name]).get(name)
    who = libraries.plain_name(own[0]) + (f" with {kernels}" if kernels else "")
    timed = {rivals.project_of(cell) for cell in rates.contenders(cells) if cell.is_ok and rivals.is_peer(cell)}
    if over is LIBRARY and len(timed) == 1:
        return who
    if 2 * len(own) <= len(pairs):
        return over.name
    return f"{over.name}, {'here' if len(by_name) == 1 else 'mostly'} {who}"


def _places(over: Over, cells: list[Cell], options: Json) -> str:
    """Return where the subject is fastest and slowest, and how many of its ratios are undecided."""
    pairs = _pairs(over, cells, options)
    if len(pairs) < 2:
        return ""
    own = [cell for cell, _ in pairs]
    claims = [Claim(rates.speed_up(c, r), r.contender, where_in_words(c, own), c) for c, r in pairs]
    best, worst = ends(claims)
    least, most = (f"{_rounded(claim.value.estimate)} ({claim.where})" for claim in (worst, best))
    return f"Least {least}, most {most}{caveats.doubt(caveats.without_verdict(pairs))}"


def _undecided(over: Over, cells: list[Cell], options: Json) -> Undecided:
    return caveats.without_verdict(_pairs(over, cells, options))


def over_fastest(cells: list[Cell], options: Json) -> str:
    """Return the speed of the subject over the fastest library of each case: the mean, the least and the most.

    Who is the fastest mostly is named, with the kernels that its library took. Of a library in several configurations
    the best counts; what it is as installed is said too where it differs.
    """
    return _sentence(LIBRARY, cells, options)


def over_other(cells: list[Cell], options: Json) -> str:
    """Return the speed of the subject over the fastest other contender of each case, as `over_fastest`."""
    return _sentence(KERNEL, cells, options)


def places_over_fastest(cells: list[Cell], options: Json) -> str:
    """Return where the ends of `over_fastest` are, and what is undecided."""
    return _places(LIBRARY, cells, options)


def places_over_other(cells: list[Cell], options: Json) -> str:
    """Return where the ends of `over_other` are, and what is undecided."""
    return _places(KERNEL, cells, options)


FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {"over_fastest": over_fastest, "over_other": over_other}
JUDGED: dict[str, Callable[[list[Cell], Json], Undecided]] = {
    "over_fastest": functools.partial(_undecided, LIBRARY),
    "over_other": functools.partial(_undecided, KERNEL),
}
PLACES: dict[str, Callable[[list[Cell], Json], str]] = {
    "over_fastest": places_over_fastest,
    "over_other": places_over_other,
}
