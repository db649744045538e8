"""Sentences about calls from arrays of the host, and about the errors of recursive products, from stored cells."""

from __future__ import annotations

from collections.abc import Callable

from harness.analysis import ranks, rates
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
            parts = [_parts(cell, bar) for cell, bar in [told[0], *told[1:][-1:]]]
            first = sum(ranks.first_stages(usual).values()) / (usual.median_ns / 1e6)
            again = f"; the first call takes {first:.3g} times as long" if first else ""
            return f"{', '.join(parts)} ({title}){again}"
    return ""


def _parts(cell: Cell, bar: dict[str, float]) -> str:
    copied, total = sum(bar.get(stage, 0.0) for stage in COPIES), sum(bar.values())
    return f"{100 * bar['compute'] / total:.0f} % of a {cell.contender} call compute, {100 * copied / total:.0f} % copy"


def errors(cells: list[Cell], options: Json) -> str:
    """Return for the first panels the errors over the reference's, at the largest size that has both."""
    found = []
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
            (ratio, first), *others = ratios
            rest = "".join(f", {cell.contender} {other:.3g}" for other, cell in others)
            sentence = f"{first.contender} has {ratio:.3g} times the error of {first.reference}{rest}"
            found.append(f"{sentence} ({title}, n={largest})")
    return "; ".join(found[:MOST])


def recursion(cells: list[Cell], options: Json) -> str:
    """Return for the first panels the best time over the reference's, at the largest size and at the smallest."""
    found = []
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
        sentence = f"{best.contender}: {ratio:.2f} of the time of {best.reference} at n={n}"
        rest = f", at n={least} {at_least:.2f} at best" if least != n else ""
        found.append(f"{sentence}{rest} ({title})")
    return "; ".join(found[:MOST])


FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {"copies": copies, "errors": errors, "recursion": recursion}
