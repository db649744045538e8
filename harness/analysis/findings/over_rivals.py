"""Findings about the speed of a subject over the fastest library, or over the fastest other kernel. Pure.

The title has the mean and both ends; where those are, and how many ratios are undecided, stands below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.analysis import caveats, rates, rivals
from harness.analysis.findings import libraries
from harness.analysis.findings.ranks import Claim, ends, number
from harness.analysis.places import where_in_words
from harness.experiment import Json
from harness.stats.statistics import geometric_mean
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
        claim = Claim(rates.speed_up(cell, rival), rival.contender, where_in_words(cell), cell)
        return f"{who} is {number(claim)} times as fast as {claim.who} ({claim.where})"
    if rates.common((cell for cell, _ in pairs), "semiring") is None:
        return f"{who} is {_by_problem(pairs, over, options)}"
    speeds = _speeds(pairs)
    plain = libraries.as_installed(cells, options)
    mean = f"{geometric_mean(speeds):.2f}"
    installed = f", {plain} as installed" if plain not in ("", mean) else ""
    span = f"{min(speeds):.2f} to {max(speeds):.2f}"
    of = f"geometric mean of {len(pairs)} products, {span}{installed}"
    return f"{who} is {mean} times as fast as {over.name}{_mostly(pairs, cells)} ({of})"


def _speeds(pairs: Sequence[tuple[Cell, Cell]]) -> list[float]:
    return [rates.speed_up(cell, rival).estimate for cell, rival in pairs]


def _by_problem(pairs: Sequence[tuple[Cell, Cell]], over: Over, options: Json) -> str:
    """Return the ends over all cases: "0.94 (plus_times float64) to 50 times (max_min int32) as fast as ...".

    Before them stand the ends over the semiring that the option ``named`` names: the geometric means of each dtype.
    """
    speeds = [(rates.speed_up(cell, rival).estimate, _kind(cell)) for cell, rival in pairs]
    (least, low), (most, high) = min(speeds), max(speeds)
    own = [pair for pair in pairs if rates.axis(pair[0], "semiring") == options.get("named")]
    if not own:
        return f"{_rounded(least)} ({low}) to {_rounded(most)} times ({high}) as fast as {over.name}"
    by_dtype = rates.group(own, lambda pair: str(rates.axis(pair[0], "dtype")))
    means = sorted((geometric_mean(_speeds(alike)), dtype) for dtype, alike in by_dtype.items())
    span = dict.fromkeys(
        f"{_rounded(mean)} ({dtype})" if len(means) > 1 else _rounded(mean) for mean, dtype in (means[0], means[-1])
    )
    named = f"{' to '.join(span)} times as fast as {over.name} over {options['named']}"
    return f"{named}; of all products {_rounded(least)} ({low}) to {_rounded(most)} times ({high})"


def _kind(cell: Cell) -> str:
    """Return semiring and dtype: that of the operands where it is another, as in the row of a figure."""
    return f"{rates.axis(cell, 'semiring')} {cell.axes.get('operands', rates.axis(cell, 'dtype'))}"


def _rounded(speed: float) -> str:
    return f"{speed:.2f}" if speed < 10 else f"{speed:.3g}"


def _mostly(pairs: Sequence[tuple[Cell, Cell]], cells: Sequence[Cell]) -> str:
    """Return who is the fastest in most cases, with the kernels that it took: ", mostly OpenBLAS (Haswell kernels)"."""
    by_name = rates.group((rival for _, rival in pairs), lambda rival: rival.contender)
    name, own = max(by_name.items(), key=lambda entry: len(entry[1]))
    if 2 * len(own) <= len(pairs):
        return ""
    kernels = libraries.families([cell for cell in cells if cell.contender == name]).get(name)
    who = libraries.plain_name(own[0]) + (f" with {kernels}" if kernels else "")
    return f", {'here' if len(by_name) == 1 else 'mostly'} {who}"


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
PLACES: dict[str, Callable[[list[Cell], Json], str]] = {
    "over_fastest": places_over_fastest,
    "over_other": places_over_other,
}
