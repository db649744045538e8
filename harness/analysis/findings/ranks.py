"""What experiments on ranks have found, in a sentence for the title of a figure: who, how much, and where not. Pure.

Each takes the cells that a figure shows, and its options. It returns an empty string where nothing can be said.
Where samples are fewer than an interval needs, their number stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.analysis import caveats, conditions, ranks, rates, rivals
from harness.analysis.caveats import Undecided
from harness.analysis.ranks import model as rank_model
from harness.analysis.ranks import projection
from harness.analysis.traffic.model import itemsize
from harness.experiment import Json
from harness.stats.statistics import FEWEST_FOR_INTERVAL, Interval
from harness.store.store import Cell


class Claim(NamedTuple):
    """A number with its interval, and where it was found."""

    value: Interval
    who: str
    where: str
    cell: Cell


def scaling(cells: list[Cell], options: Json) -> str:
    """Return the speed of the most ranks over one, at best, beside as many threads, and at worst."""
    claims, threads, most = list[Claim](), dict[str, float](), 2
    for title, own in ranks.products(cells).items():
        for method, points in ranks.curves(own).items():
            last = points[-1]
            if rank_model.decomposition(last.cell) is None:
                threads |= {title: last.measured.estimate} if last.ranks >= most else {}
            elif last.ranks >= most:
                claims, most = (claims if last.ranks == most else []), last.ranks
                claims.append(Claim(last.measured, method, title, last.cell))
    if not claims:
        return ""
    noun = "GPUs" if rates.is_on_device(claims[0].cell) else "ranks"
    best, worst = ends(claims)
    title = max(claims, key=_estimate).where
    beside = f"; {most} threads {threads[title]:.2f}" if title in threads else ""
    first = f"{most} {noun} have {best.value.estimate:.2f} times the speed of one ({best.who}, {best.where}{beside})"
    least = ", ".join(filter(None, (worst.who, _unlike(worst.where, best.where)))).replace(", ;", ";")
    return first if worst is best else f"{first}; least {worst.value.estimate:.2f} ({least})"


def splits(cells: list[Cell], options: Json) -> str:
    """Return the speeds of ranks x threads over one process at the largest product, and where the best is least."""
    return _over_one_process(cells, _split)


def _split(name: str) -> str:
    """Return "2 ranks of 1 thread have" for "2 x 1"."""
    ranks, threads = (int(count) for count in name.split(" x "))
    return f"{rates.plural(ranks, 'rank')} of {rates.plural(threads, 'thread')} {'has' if ranks == 1 else 'have'}"


def strategies(cells: list[Cell], options: Json) -> str:
    """Return the speeds of strategies over one process at the largest product, and where the best is least."""
    return _over_one_process(cells, "{} has".format)


def _over_one_process(cells: list[Cell], having: Callable[[str], str]) -> str:
    cases = _over_references(cells)
    if not cases:
        return ""
    best, worst = max(cases, key=lambda ends: float(ends[0].cell.facts["operations"]))
    least, _ = min(cases, key=lambda ends: _estimate(ends[0]))
    first = f"{having(best.who)} {best.value.estimate:.2f} times the speed of one process ({best.where})"
    first += (
        ""
        if worst is best
        else f", {having(worst.who).removesuffix(' have').removesuffix(' has')} {worst.value.estimate:.2f}"
    )
    where = _unlike(least.where, best.where)
    return first if least is best else f"{first}; the best elsewhere at least {least.value.estimate:.2f} ({where})"


def _unlike(where: str, other: str) -> str:
    """Return what a place has not in common with another, "min_plus" beside "plus_times, float64, n=1024"."""
    place, mark, weakness = where.partition(";")
    own, others = (
        [word for part in text.split(", ") for word in ([part] if " x " in part else part.split())]
        for text in (place, other.partition(";")[0])
    )
    return ", ".join(word for word in own if word not in others) + mark + weakness


def over_reference(cells: list[Cell], options: Json) -> str:
    """Return the speeds over the reference's at the largest product, best and worst, and where the best is least."""
    cases = _over_references(cells)
    if not cases:
        return ""
    best, worst = max(cases, key=lambda ends: float(ends[0].cell.facts["operations"]))
    least, _ = min(cases, key=lambda ends: _estimate(ends[0]))
    first = f"{best.who} has {best.value.estimate:.2f} times the speed of {best.cell.reference} ({best.where})"
    first += "" if worst is best else f", {worst.who} {worst.value.estimate:.2f}"
    if least is best:
        return first
    where = ", ".join(filter(None, (least.who, _unlike(least.where, best.where))))
    return f"{first}; the best elsewhere at least {least.value.estimate:.2f} ({where})"


def _over_references(cells: list[Cell]) -> list[tuple[Claim, Claim]]:
    """Return the best and the worst speed over the reference's of each product, over all cases that have it."""
    claims = [
        Claim(rates.speed_up(cell, reference), cell.contender, _place(cell), cell)
        for own in rates.group(rates.contenders(cells), lambda cell: (cell.case, cell.run)).values()
        for cell in own
        if cell.is_ok and (reference := rates.reference_of(cell, own)) is not None and reference is not cell
    ]
    return [ends(alike) for alike in rates.group(claims, lambda claim: claim.where).values()]


def peers(cells: list[Cell], options: Json) -> str:
    """Return the speed of the strategy over that of the fastest other system, where it is most and where least."""
    pairs = _over_systems(cells)
    if not pairs:
        return ""
    best, worst = ends([Claim(rates.speed_up(o, p), o.contender, rates.describe([p]), o) for o, p in pairs])
    names = {peer.contender for _, peer in pairs}
    whose = names.pop() if len(names) == 1 else "the fastest other system"
    first = f"{best.who} has {best.value.estimate:.2f} times the speed of {whose} ({best.where})"
    return first if worst is best else f"{first}; least {worst.value.estimate:.2f} ({_unlike(worst.where, best.where)})"


def _over_systems(cells: list[Cell]) -> list[tuple[Cell, Cell]]:
    """Return our fastest strategy of each case with the fastest other system."""
    pairs = []
    for own in rates.group(rates.contenders(cells), lambda cell: (cell.case, cell.run)).values():
        done = [cell for cell in own if cell.is_ok]
        ours = [cell for cell in done if rank_model.decomposition(cell) is not None]
        others = [cell for cell in done if rivals.is_peer(cell)]
        if ours and others:
            pairs.append((max(ours, key=_rate), max(others, key=_rate)))
    return pairs


def peers_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many ratios of `peers` have no verdict."""
    return caveats.without_verdict(_over_systems(cells))


def shares(cells: list[Cell], options: Json) -> str:
    """Return which part of a warm call computes, at most and at least, of the largest product that several computed.

    The call begins when ranks hold the operands. If they come from rank 0, to send them is a part of it.
    """
    own = _computing(cells)
    if not own:
        return ""
    (least, worst), (most, best) = min(own, key=lambda x: x[0]), max(own, key=lambda x: x[0])
    one, other = _operands(best), _operands(worst)
    of_best, of_worst, of_both = ("", "", f", {one}") if one == other else (f" ({one})", f" ({other})", "")
    first = f"{best.contender}{of_best} spends {most:.0f} % of a warm call computing"
    rest = "" if worst is best else f", {worst.contender}{of_worst} {least:.0f} %"
    return f"{first}{rest} ({_place(best)}{of_both})"


def _operands(cell: Cell) -> str:
    """Return where the operands are when a call begins."""
    return f"operands on {'rank 0' if cell.arguments.get('backend') == rank_model.FROM_ROOT else 'the ranks'}"


def _computing(cells: list[Cell]) -> list[tuple[float, Cell]]:
    """Return the percentage that computes of each contender of the largest product that several computed."""
    warm = [(cell, bar) for cell in rates.contenders(cells) if cell.is_ok and (bar := ranks.warm_stages(cell))]
    by_case = rates.group(
        [(100 * bar["compute"] / sum(bar.values()), cell) for cell, bar in warm], lambda found: found[1].case
    )
    return max(by_case.values(), key=lambda own: (len(own) > 1, float(own[0][1].facts["operations"])), default=[])


def shares_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many shares of `shares` are of too few samples."""
    return caveats.of_shares((cell, None) for _, cell in _computing(cells))


# What a rank has counted, and what that is held against.
COUNTED = {"words": ("receives", "times what it must"), "bytes": ("needs", "times its part of one copy")}


def counts(cells: list[Cell], options: Json) -> str:
    """Return the least and the most of what was counted over the lower bound, and how it compares with the formula."""
    what, counted = options["counts"], [count for _, count in _counted(cells)]
    parts = [(count[what] / count[f"formula_{what}"], count) for count in counted if count[f"formula_{what}"]]
    if not parts:
        return ""
    others = [(part, count) for part, count in parts if part != 1]
    equal = f"{len(parts) - len(others)} of" if others else "all"
    checked = f"{equal} {len(parts)} counts equal the formula{_others(others)}"
    bounded = [(count[what] / count[f"bound_{what}"], count) for count in counted if count[f"bound_{what}"]]
    if not bounded:
        return checked[0].upper() + checked[1:]
    does, times = COUNTED[what]
    (least, best), (most, worst) = (end(bounded, key=lambda bound: bound[0]) for end in (min, max))
    return f"A rank {does} {least:.2f} ({_grid(best)}) to {most:.2f} {times} ({_grid(worst)}); {checked}"


def _others(found: list[tuple[float, Json]]) -> str:
    """Return which counts are so many times their formula: ", those in panels of 8 are 0.69 to 0.79 of it"."""
    if not found:
        return ""
    low, high = (f"{end(part for part, _ in found):.2f}" for end in (min, max))
    panels = {count["panel"] for _, count in found}
    who = f"those in panels of {panels.pop()}" if len(panels) == 1 and all(panels) else "the others"
    return f", {who} are {low if low == high else f'{low} to {high}'} of it"


def spare_block(cells: list[Cell], options: Json) -> str:
    """Return why memory is below its formula, where what is missing is a block of sums in each count that differs.

    So it is in the oldest results, whose formula was asked for backends that do not add in place.
    """
    others = [(cell, count) for cell, count in _counted(cells) if count["bytes"] != count["formula_bytes"]]
    are_blocks = [count["formula_bytes"] - count["bytes"] == _block_bytes(cell, count) for cell, count in others]
    if options["counts"] != "bytes" or not others or not all(are_blocks):
        return ""
    return (
        "What the counts that differ lack is one block of sums each: the formula of these older results has a second "
        "one, which panels take only where the backend does not add to C in place"
    )


def _block_bytes(cell: Cell, count: Json) -> int:
    """Return the bytes of the largest block of D on the grid of a count."""
    pm, pn, _ = map(int, str(count["grid"]).split("x"))
    rows, columns = -(-rates.axis(cell, "m") // pm), -(-rates.axis(cell, "n") // pn)
    return int(rows * columns * itemsize(cell))


def _counted(cells: list[Cell]) -> list[tuple[Cell, Json]]:
    """Return what was counted on each grid, with its cell."""
    done = [cell for cell in rates.contenders(cells) if cell.is_ok]
    return [(cell, count) for cell in done for count in cell.facts.get("grids") or ()]


def _grid(count: Json) -> str:
    """Return who counted: the grid, and the strategy and its panels if they are not the plain ones."""
    panels = f"panels of {count['panel']}" if count.get("panel") else ""
    strategy = "from rank 0" if count.get("backend") == rank_model.FROM_ROOT else ""
    return ", ".join(filter(None, (str(count["grid"]), strategy, panels)))


def projected(cells: list[Cell], options: Json) -> str:
    """Return what the model expects of cubes and of rows of ranks on the most ranks."""
    local = [cell for cell in rates.contenders(cells) if cell.is_ok]
    if not local:
        return ""
    cell = local[-1]
    _, n, *constants = options["links"]["gpu" if rates.is_on_device(cell) else "cpu"]
    last = {form: projection.efficiencies(cell, form, n, *constants)[-1] for form in (projection.THREE, projection.ONE)}
    (count, cube), (_, rows) = last[projection.THREE], last[projection.ONE]
    kept = f"{count:,} ranks keep {cube:.0f} % of their speed on a 3-D grid, {rows:.0f} % on a 1-D one"
    return f"By a model, not measured: {kept} ({rates.axis(cell, 'problem')}, n={n})"


def model_error(cells: list[Cell], options: Json) -> str:
    """Return how many points the model is near, and how near one measurement of a product is to another."""
    errors, unsteady = ranks.model_errors(cells), ranks.unsteadiness(cells)
    if not errors:
        return ""
    within = sum(abs(error) <= ranks.TOLERANCE for _, error in errors)
    near = f"The model is within {ranks.TOLERANCE:.0f} % of the measured time at {within} of {len(errors)} points"
    return near if unsteady is None else f"{near}; one rank alone differs by up to {unsteady:.0f} % between cases"


JUDGED: dict[str, Callable[[list[Cell], Json], Undecided]] = {"peers": peers_undecided, "stages": shares_undecided}
DETAILS: dict[str, Callable[[list[Cell], Json], str]] = {"counts": spare_block}
FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {
    "scaling": scaling,
    "splits": splits,
    "strategies": strategies,
    "over_reference": over_reference,
    "peers": peers,
    "stages": shares,
    "counts": counts,
    "projection": projected,
    "model_error": model_error,
}


def ends(claims: list[Claim]) -> tuple[Claim, Claim]:
    """Return the best claim and the worst, their places with what makes them doubtful."""
    best, worst = (end(claims, key=_estimate) for end in (max, min))
    placed = _placed(best)
    return placed, placed if best is worst else _placed(worst)


def _placed(claim: Claim) -> Claim:
    return claim._replace(where=claim.where + conditions.weakness(claim.cell))


def _estimate(claim: Claim) -> float:
    return claim.value.estimate


def _rate(cell: Cell) -> float:
    return cell.rate


def _place(cell: Cell) -> str:
    return rates.describe([cell])


def number(claim: Claim) -> str:
    """Return "0.88 [0.87, 0.89]"; of too few processes for an interval "0.88", of few samples "0.88 [2 samples]"."""
    estimate, low, high = (f"{bound:.2f}" if bound < 10 else f"{bound:.3g}" for bound in claim.value)
    samples = len(claim.cell.all_samples_ns)
    interval = [f"{low}, {high}"] if low != high and rates.has_interval(claim.cell) else []
    is_said = claim.where.endswith("samples")
    few = [f"{samples} samples"] if samples < FEWEST_FOR_INTERVAL and not is_said else []
    return f"{estimate} [{'; '.join(interval + few)}]" if interval + few else estimate
