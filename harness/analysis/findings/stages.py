"""Sentences about calls from arrays of the host, and about the errors of recursive products, from stored cells."""

from __future__ import annotations

from collections.abc import Callable

from harness.analysis import caveats, ranks, rates
from harness.analysis.caveats import Undecided
from harness.analysis.places import enumerated, verb
from harness.experiment import Json
from harness.store.store import Cell

COPIES = ("host to device", "device to host")
MOST = 2  # panels that one sentence speaks of


def copies(cells: list[Cell], options: Json) -> str:
    """Return which part of a warm call computes and copies, for the first and the last contender of a product."""
    for title, own in rates.group(rates.contenders(cells), lambda cell: rates.describe([cell])).items():
        told = [(cell, bar) for cell in own if cell.is_ok and (bar := ranks.warm_stages(cell))]
        if told:
            (usual, _), *_ = told
            shown = [told[0], *told[1:][-1:]]
            copied = [f"{_part(bar, *COPIES)} ({cell.contender})" for cell, bar in shown]
            computed = " and ".join(_part(bar, "compute") for _, bar in shown)
            first = sum(ranks.first_stages(usual).values()) / (usual.median_ns / 1e6)
            again = f"; the first call takes {first:.3g} times as long" if first else ""
            return f"Copies take {' and '.join(copied)} of a call, computing {computed} ({title}){again}"
    return ""


def copies_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many shares of calls that copy are of too few samples."""
    own = (cell for cell in rates.contenders(cells) if cell.is_ok and ranks.warm_stages(cell))
    return caveats.of_shares((cell, None) for cell in own)


def _part(bar: dict[str, float], *stages: str) -> str:
    return f"{100 * sum(bar.get(stage, 0.0) for stage in stages) / sum(bar.values()):.0f} %"


def errors(cells: list[Cell], options: Json) -> str:
    """Return for the first panels the largest and the least error over the reference's, at the largest size."""
    found, told = list[str](), list[str]()
    for title, own in rates.group(rates.contenders(cells), lambda cell: rates.words(cell, options["panels"])).items():
        pairs = [
            (rates.axis(cell, options["x"]), cell.facts["greatest_error"] / reference.facts["greatest_error"], cell)
            for cell in own
            if cell.is_ok and (reference := rates.reference_of(cell, own)) is not None and reference is not cell
            if cell.facts.get("greatest_error") and reference.facts.get("greatest_error")
        ]
        largest = max((n for n, _, _ in pairs), default=None)
        ratios = [(ratio, cell) for n, ratio, cell in pairs if n == largest]
        if ratios:
            (most, worst), (least, best) = (end(ratios, key=lambda entry: entry[0]) for end in (max, min))
            rest = [] if best is worst else [f"{best.contender} {least:.3g} times"]
            among = [word for word in title.split(", ") if word != worst.reference]
            of = f" the largest error of {worst.reference}" if worst.reference not in told else ""
            told.append(worst.reference)
            place = ", ".join([*among, f"n={largest}"])
            found.append(
                enumerated([f"{worst.contender} {verb(worst.contender)} {most:.3g} times{of}", *rest]) + f" ({place})"
            )
    return "; ".join(found[:MOST])


def recursion(cells: list[Cell], options: Json) -> str:
    """Return for the first panels the best time over the reference's, at the largest size and at the smallest."""
    found: list[str] = []
    for title, own in rates.group(rates.contenders(cells), lambda cell: rates.words(cell, options["panels"])).items():
        pairs = [
            (rates.axis(cell, options["x"]), rates.time_ratio(cell, reference).estimate, cell)
            for cell in own
            if cell.is_ok and (reference := rates.reference_of(cell, own)) is not None and reference is not cell
        ]
        if not pairs:
            continue
        by_size = rates.group(pairs, lambda pair: pair[0])
        (n, ratio, best), (least, at_least, _) = (min(by_size[end(by_size)], key=lambda x: x[1]) for end in (max, min))
        among = ", ".join(word for word in title.split(", ") if word != best.reference)
        rest = f", {at_least:.2f} at n={least}" if least != n else ""
        of = f"the time of {best.reference} " if not found else ""
        over = f", over {among}" if among else ""
        found.append(f"{ratio:.2f} times {of}at n={n} ({best.contender}{over}){rest}")
    return f"{options.get('who', 'Recursion')} takes {'; '.join(found[:MOST])}" if found else ""


JUDGED: dict[str, Callable[[list[Cell], Json], Undecided]] = {"copies": copies_undecided}
FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {"copies": copies, "errors": errors, "recursion": recursion}
