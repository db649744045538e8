"""Findings about who is fastest: in how many cases, and by how much, where it loses too. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.analysis import caveats, rates, read_rates, rivals
from harness.analysis.places import ends_in_words, enumerated, place, where_in_words
from harness.experiment import Json
from harness.store.store import Cell

# Winners that are named in a title.
MOST_NAMED = 4


def fastest(cells: list[Cell], options: Json) -> str:
    """Return who is fastest in most cases, and its speed over a rival in all cases, those that it loses too.

    Of the cases that it wins ties with the next are told apart.

    The rival is the fastest library; of a library, or without one, the reference; of the reference the next. Where
    none is fastest in most cases, the first of all are named, and how fast they are beside the reference.
    """
    cases = _cases(cells)
    if not cases:
        return ""
    wins = rates.group((_winner(own).contender for own in cases), str)
    name, own_wins = max(wins.items(), key=lambda entry: len(entry[1]))
    if 2 * len(own_wins) <= len(cases):
        most_first = sorted(((who, len(won)) for who, won in wins.items()), key=lambda win: -win[1])
        return _counted(most_first, len(cases)) + _over_reference(cases, options)
    count = rates.plural(len(cases), "case")
    where = f"all {count}" if len(own_wins) == len(cases) > 1 else f"{len(own_wins)} of {count}"
    return f"{name} is fastest in {where}{_ties(name, cases)}{_over_rivals(name, cases, options)}"


def _ties(name: str, cases: Sequence[list[Cell]]) -> str:
    """Return how many of the cases that a contender wins are ties with the next: ", 97 of them ties"."""
    won = [own for own in cases if _winner(own).contender == name]
    pairs = [(_winner(own), sorted(own, key=lambda cell: cell.median_ns)[1]) for own in won]
    ties = caveats.ties(pairs)
    if not ties:
        return ""
    among = "" if len(won) == 1 else "all of them " if ties == len(won) else f"{ties} of them "
    return f", {among}{'a tie' if ties == 1 else 'ties'}"


def _cases(cells: list[Cell]) -> list[list[Cell]]:
    """Return the cells of each case that have a time, of those with two or more."""
    groups = rates.group(rates.contenders(cells), lambda cell: (cell.case, cell.run)).values()
    timed = [[cell for cell in own if cell.is_ok] for own in groups]
    return [own for own in timed if len(own) > 1]


def _winner(own: Sequence[Cell]) -> Cell:
    return min(own, key=lambda cell: cell.median_ns)


def _over_rivals(name: str, cases: Sequence[list[Cell]], options: Json) -> str:
    """Return the least and the greatest speed of a contender over its rivals, with their name; nothing without one.

    Where it loses cases, the sentence says that these are among those of the speeds.
    """
    pairs = [(cell, own) for own in cases for cell in own if cell.contender == name]
    rival, words = _rival(pairs, options)
    times = [
        (rates.time_ratio(cell, other).estimate, cell)
        for cell, own in pairs
        if (other := rival(cell, own)) is not None and other is not cell
    ]
    if not times:
        return ""
    wins_all = all(_winner(own).contender == name for own in cases)
    among = f"; in all {len(times)} it" if len(times) == len(cases) else f"; in {len(times)} of them it"
    if rival is rates.reference_of and options.get("value") == "time_ratio":
        return f"{', in' if wins_all else f'{among} takes'} {ends_in_words(times, '.2f')} of the time of {words}"
    speeds = ends_in_words([(1 / time, cell) for time, cell in times], ".2f")
    return f"{', at' if wins_all else f'{among} has'} {speeds} times the speed of {words}"


def _rival(
    pairs: Sequence[tuple[Cell, list[Cell]]], options: Json
) -> tuple[Callable[[Cell, list[Cell]], Cell | None], str]:
    """Return what finds the rival of a contender in a case, and what a sentence calls it."""
    first, _ = pairs[0]
    if not rivals.is_peer(first) and all(rivals.fastest_peer(cell, own) for cell, own in pairs):
        return rivals.fastest_peer, rivals.THE_FASTEST
    if first.contender != first.reference:
        return rates.reference_of, options.get("reference_words", first.reference)
    return rivals.fastest_other, "the next"


def _over_reference(cases: Sequence[list[Cell]], options: Json) -> str:
    """Return "; the fastest takes 0.16 to 0.79 of the time of dense", or nothing without one reference.

    In a figure of speeds it is "; the fastest has 1.27 to 6.25 times the speed of dense".
    """
    pairs = [(_winner(own), rates.reference_of(own[0], own)) for own in cases]
    parts = [rates.time_ratio(cell, other).estimate for cell, other in pairs if other is not None]
    if len(parts) < len(pairs) or len({other.contender for _, other in pairs if other}) > 1:
        return ""
    is_time = options.get("value") == "time_ratio"
    ends = (min(parts), max(parts)) if is_time else (1 / max(parts), 1 / min(parts))
    span = " to ".join(dict.fromkeys(f"{end:.2f}" for end in ends))
    does, what = ("takes", "of the time of") if is_time else ("has", "times the speed of")
    return f"; the fastest {does} {span} {what} {options.get('reference_words', cases[0][0].reference)}"


def beaten(cells: list[Cell], options: Json) -> str:
    """Return by how much anything is faster than the reference of its case at most, and what is, and where."""
    gains = [
        (rates.speed_up(cell, reference).estimate, cell)
        for cell in rates.contenders(cells)
        if cell.is_ok and (reference := rates.reference_of(cell, cells)) is not None and reference is not cell
    ]
    if not gains:
        return ""
    most, cell = max(gains, key=lambda gain: gain[0])
    if most <= 1:
        return f"Nothing is faster than {cell.reference}"
    where = f"{cell.contender}, {where_in_words(cell)}"
    return f"Nothing is more than {100 * (most - 1):.0f} % faster than {cell.reference} ({where})"


def winners(cells: list[Cell], options: Json) -> str:
    """Return who is fastest in the first case and in the last; of reading, at which part of the measured rate.

    Of many cases it is who is fastest in how many.
    """
    found = [(_winner(own).contender, _how(_winner(own), cells, options)) for own in _cases(cells)]
    names = {name for name, _ in found}
    if len(names) == 1 and len(found) > 1:
        return f"{names.pop()} is fastest in all {len(found)} cases"
    if len(found) > MOST_NAMED:
        wins = [(name, len(own)) for name, own in rates.group(found, lambda entry: entry[0]).items()]
        return _counted(sorted(wins, key=lambda win: -win[1]), len(found))
    first_and_last = found[:: len(found) - 1 or 1]
    return ", ".join(f"{name}{' is fastest' * (not i)} for {where}" for i, (name, where) in enumerate(first_and_last))


def _how(cell: Cell, cells: list[Cell], options: Json) -> str:
    """Return the place of `cell`, and in a figure of reading its part of the measured rate."""
    share = read_rates.of_read(cell, cells) if options.get("value") == "of_read" else None
    return place(cell) + (f" ({share.estimate:.0f} % of the read rate)" if share else "")


def _counted(wins: Sequence[tuple[str, int]], cases: int) -> str:
    """Return "gpu-symv is fastest in 3 of 7 cases, gpu-tuned in 2": the first of those who won some of the cases."""
    (name, count), *others = wins[:MOST_NAMED]
    first = f"{name} is fastest in {count} of {rates.plural(cases, 'case')}"
    return enumerated([first, *(f"{who} in {n}" for who, n in others)])


FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {"fastest": fastest, "beaten": beaten, "winners": winners}
