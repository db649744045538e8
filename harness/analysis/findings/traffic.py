"""What loads explain, and what they do not, in sentences for the titles of figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness.analysis import caveats, peaks, rates
from harness.analysis.caveats import Undecided
from harness.analysis.traffic import bounds, model
from harness.analysis.traffic.loads import depth_in, loads
from harness.experiment import Json
from harness.store.store import Cell

# A rung is explained if its prediction is off by no more than this factor.
EXPLAINED = 1.3


def predicted(cells: list[Cell], options: Json) -> str:
    """Return how many rungs loads alone predict, and which one is furthest from its prediction."""
    ratios = _over_measured(cells)
    if not ratios:
        return ""
    near = sum(1 / EXPLAINED <= ratio <= EXPLAINED for ratio, _ in ratios)
    ratio, cell = max(ratios, key=lambda entry: abs(math.log(entry[0])))
    first = f"What a kernel loads explains {near} of {len(ratios)} rates, within a factor of {EXPLAINED}"
    far = f"{1 / ratio:.2g} of the rate that its loads allow"
    return f"{first}; furthest off is {cell.contender}, at {far} ({rates.size(cell)})"


def _over_measured(cells: list[Cell]) -> list[tuple[float, Cell]]:
    """Return what the loads of each rung allow, over its measured rate."""
    found = ((model.over_measured(cell, cells), cell) for cell in rates.contenders(cells) if cell.is_ok)
    return [(ratio, cell) for ratio, cell in found if ratio is not None]


def predicted_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many rates of `predicted` have no verdict beside the peak, to which predictions are in proportion."""
    return caveats.of_shares((cell, peaks.peak_of(cell, cells)) for _, cell in _over_measured(cells))


class _FromFirst(NamedTuple):
    """The first rung of a device and the subject of a figure, with what each loads from every memory [bytes]."""

    first: Cell
    subject: Cell
    level: model.Level  # the memory that holds the first rung back
    of_first: Mapping[model.Level, float]
    of_subject: Mapping[model.Level, float]

    def saved(self, level: model.Level) -> float:
        """Return how many times the bytes of the subject the first rung loads from `level`."""
        return self.of_first[level] / self.of_subject[level]


def _from_first(cells: list[Cell], options: Json) -> list[_FromFirst]:
    """Return the first rung and the subject of each device where loads of both are known."""
    found = []
    for group in rates.group(rates.contenders(cells), lambda cell: rates.axis(cell, "device")).values():
        known = [(cell, p) for cell in group if cell.is_ok and (p := model.predict(cell, cells)) is not None]
        subject = next((cell for cell, _ in known if cell.contender in options["subjects"]), None)
        if subject is None or known[0][0] is subject:
            continue
        first, bound = known[0]
        of_both = (model.bytes_from(cell, cells) for cell in (first, subject))
        found.append(_FromFirst(first, subject, bound.level, *of_both))
    return found


def own_traffic(cells: list[Cell], options: Json) -> str:
    """Return how much less the subject loads than the first rung, how much faster it is, and its part of the peak.

    Bytes of both are those from the memory that holds the first rung back.
    """
    sentences: list[str] = []
    for found in _from_first(cells, options):
        first, subject = found.first, found.subject
        share = peaks.percent_of_peak(subject, cells)
        reached = "" if share is None else f", at {share:.0f} % of the peak"
        loads_of = f"1/{found.saved(found.level):.3g} of the bytes of {first.contender} from {found.level.in_words}"
        faster = subject.rate / first.rate
        sentences.append(f"{subject.contender} loads {loads_of} and is {faster:.3g} times as fast{reached}")
    return "; ".join(sentences)


def traffic_by_memory(cells: list[Cell], options: Json) -> str:
    """Return how many times the bytes of the subject the first rung loads, from each memory."""
    sentences: list[str] = []
    for found in _from_first(cells, options):
        ratios = {level: found.saved(level) for level in found.of_first if level in found.of_subject}
        parts = [
            f"{ratio:.3g} from {level.in_words}{' (which holds it back)' * (level == found.level)}"
            for level, ratio in ratios.items()
        ]
        sentences.append(f"{found.first.contender} over those of {found.subject.contender}: {', '.join(parts)}")
    return f"Bytes that are loaded by {'; by '.join(sentences)}" if sentences else ""


def own_traffic_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many ratios of `own_traffic` have no verdict."""
    return caveats.of_shares((found.subject, found.first) for found in _from_first(cells, options))


def roofs(cells: list[Cell], options: Json) -> str:
    """Return which part of its roof the fastest kernel of each shape reaches, at least and at most, and which roof."""
    shares = _shares_of_roofs(cells)
    if not shares:
        return ""
    is_one_semiring = rates.common([cell for _, cell, _ in shares], "semiring") is not None
    parts = [
        f"{100 * share:.0f} % of {_allowance(roof)} ({_shape(cell, with_semiring=not is_one_semiring)})"
        for share, cell, roof in (end(shares, key=lambda entry: entry[0]) for end in (min, max))
    ]
    return f"The fastest kernel of each shape reaches {' to '.join(parts)}"


def roofs_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many shares of `roofs` are of too few samples: roofs are measured in cases of their own."""
    return caveats.of_shares((cell, None) for _, cell, _ in _shares_of_roofs(cells))


def above_roofs(cells: list[Cell], options: Json) -> str:
    """Return why a kernel is above its roof, if one is."""
    is_above = any(round(100 * share) > 100 for share, _, _ in _shares_of_roofs(cells))
    return "Above 100 %: the roof was measured too low, or fewer bytes passed than the loops load" if is_above else ""


def _shares_of_roofs(cells: list[Cell]) -> list[tuple[float, Cell, model.RateBound]]:
    """Return of each product the part of its roof that the fastest kernel reaches, that kernel, and the roof."""
    products = [cell for cell in rates.contenders(cells) if cell.is_ok]
    groups = rates.group(products, lambda cell: (cell.case, cell.run)).values()
    fastest = [max(own, key=lambda cell: cell.rate) for own in groups]
    return [(cell.rate / roof.rate, cell, roof) for cell in fastest if (roof := model.roof_of(cell, cells)) is not None]


def _allowance(roof: model.RateBound) -> str:
    """Return what bounds a rate, in words: "the peak", "what L3 allows"."""
    return "the peak" if roof.bound == "peak" else f"what {roof.level.in_words} allows"


def _shape(cell: Cell, *, with_semiring: bool) -> str:
    semiring = [str(rates.axis(cell, "semiring"))] if with_semiring else []
    return ", ".join([cell.contender, *semiring, str(cell.axes.get("shape", rates.size(cell)))])


def over_bound(cells: list[Cell], options: Json) -> str:
    """Return how many times the least loads the best rung of the host moves into L1."""
    found = _over_bounds(cells)
    if not found:
        return ""
    best, name = min(found)
    return f"Into L1 {name} moves {best:.2g} times the least of any order of loops"


def worst_over_bound(cells: list[Cell], options: Json) -> str:
    """Return how many times the least loads the worst rung of the host moves into L1."""
    found = _over_bounds(cells)
    return f"{max(found)[1]} moves {max(found)[0]:.2g} times that least" if found else ""


def _over_bounds(cells: list[Cell]) -> list[tuple[float, str]]:
    """Return the loads of each rung of the host into L1 over the least of any order of loops, with its name."""
    found = []
    for cell in rates.contenders(cells):
        nest, memories = model.nest_of(cell), model.levels(cell, cells)
        level = next((memory for memory in memories if memory.name == "L1"), None)
        if not cell.is_ok or nest is None or level is None or rates.is_on_device(cell):
            continue
        sizes, size = model.sizes_of(cell), model.itemsize(cell)
        depth = depth_in(nest, sizes, size, level.capacity, size)
        least = bounds.least_loads(sizes["i"], sizes["j"], sizes["p"], level.capacity / size)
        if depth and least:
            found.append((loads(nest, sizes, 1, depth).total / least, cell.contender))
    return found


def blocks(cells: list[Cell], options: Json) -> str:
    """Return the part of the best rate of each sweep that the backend's own blocks have, and what others cost."""
    found = _of_blocks(cells, options)
    if not found:
        return ""
    least, where = min((own.rate / best.rate, sweep) for sweep, (own, best, _) in found.items())
    most, sweep = max((best.rate / worst.rate, sweep) for sweep, (_, best, worst) in found.items())
    chosen = "Blocks chosen by the sizes of the caches"
    first = f"{chosen} have at least {100 * least:.0f} % of the best rate (worst: {where})"
    return f"{first}; a wrong {sweep} costs a factor of {most:.2g}"


def _of_blocks(cells: list[Cell], options: Json) -> dict[str, tuple[Cell, Cell, Cell]]:
    """Return of each sweep the backend's own blocks, the best and the worst."""
    found = {}
    groups = rates.group(rates.contenders(cells), lambda cell: rates.axis(cell, options["panels"]))
    for sweep, group in groups.items():
        done = [cell for cell in group if cell.is_ok]
        own = next(filter(model.is_model, done), None)
        if own is not None and len(done) > 1:
            found[sweep] = own, max(done, key=_rate), min(done, key=_rate)
    return found


def _rate(cell: Cell) -> float:
    return cell.rate


def blocks_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many rates of own blocks, and of the worst ones, have no verdict beside those of the best."""
    found = _of_blocks(cells, options).values()
    return caveats.of_shares((cell, best) for own, best, worst in found for cell in (own, worst) if cell is not best)


def balance_of_tiles(cells: list[Cell], options: Json) -> str:
    """Return the tile that machine balance asks for, with the memory that what passes the tile comes from."""
    one = next((cell for cell in rates.contenders(cells) if cell.is_ok), None)
    found = None if one is None else model.balance_of(one, cells, *options["passing"]["tile"])
    return f"Machine balance with {found[1]} asks for tiles of {found[0]:.0f}" if found else ""


def balance(cells: list[Cell], options: Json) -> str:
    """Return the square tile that machine balance asks for, with each measured memory but the nearest."""
    one = next((cell for cell in rates.contenders(cells) if cell.is_ok), None)
    found = [] if one is None else [model.balance_of(one, cells, level.name, 2) for level in model.levels(one, cells)]
    asked = [f"{side:.0f} with {name}" for side, name in filter(None, found) if name not in model.NEAREST]
    return f"Machine balance asks for tiles of {', of '.join(asked)}" if asked else ""


JUDGED: dict[str, Callable[[list[Cell], Json], Undecided]] = {
    "predicted": predicted_undecided,
    "own_traffic": own_traffic_undecided,
    "roofs": roofs_undecided,
    "blocks": blocks_undecided,
}
DETAILS: dict[str, Callable[[list[Cell], Json], str]] = {
    "blocks": balance_of_tiles,
    "own_traffic": traffic_by_memory,
    "roofs": above_roofs,
    "over_bound": worst_over_bound,
}
FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {
    "predicted": predicted,
    "own_traffic": own_traffic,
    "roofs": roofs,
    "over_bound": over_bound,
    "blocks": blocks,
    "balance": balance,
}
