"""What GPU kernels without one of their ideas, and with other stages and tiles, have found: sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.analysis import rates
from harness.experiment import Json
from harness.store.store import Cell

# The product of the factors agrees with the whole step up to this part of it.
AGREES = 0.1
MOST_PANELS = 2  # that one title speaks of


def left_out(cells: list[Cell], options: Json) -> str:
    """Return for each panel the time without all ideas, and the idea whose absence costs most.

    Parameters
    ----------
    cells : list of Cell
        The reference of a case has all ideas.
    options : mapping
        ``ideas``: contenders that lack one idea each; ``pair``: the one that lacks the last two of them, which
        depend on each other; ``all``: the one that lacks all.
    """
    found = _ablated(cells, options)[:MOST_PANELS]
    if not any(ideas for _, _, ideas in found):
        return _slowest_first([(kind, times) for kind, times, _ in found])
    who = next(cell.reference for cell in rates.contenders(cells))
    told = [(kind, times.get(options["all"], math.nan), ideas) for kind, times, ideas in found if ideas]
    wholes = ", ".join(f"{whole:.2f}{' times as long' * (not i)} ({kind})" for i, (kind, whole, _) in enumerate(told))
    costliest = [max(ideas, key=lambda name: ideas[name]) for _, _, ideas in told]
    alone = rates.group(zip(costliest, told, strict=True), lambda entry: entry[0])
    costs = [
        f"{idea}{' alone costs most' * (not i)} ({' and '.join(f'{ideas[idea]:.2f}' for _, (_, _, ideas) in own)})"
        for i, (idea, own) in enumerate(alone.items())
    ]
    return f"Without any of its ideas {who} takes {wholes}; {', '.join(costs)}"


def _slowest_first(found: Sequence[tuple[str, dict[str, float]]]) -> str:
    """Return "a guard takes 1.11 (float32) and 1.02 (float64) times as long, ..." of contenders, the slowest first."""
    kinds = [kind for kind, _ in found]
    names = sorted(found[0][1], key=lambda name: -found[0][1][name]) if found else []
    shown = [[f"{times[name]:.2f}" for _, times in found if name in times] for name in names]
    first = [" and ".join(f"{time} ({kind})" for time, kind in zip(own, kinds, strict=False)) for own in shown[:1]]
    rest = [f"{name} {' and '.join(own)}" for name, own in zip(names[1:], shown[1:], strict=True)]
    return ", ".join([f"{names[0]} takes {first[0]} times as long", *rest]) if names else ""


def products(cells: list[Cell], options: Json) -> str:
    """Return for each panel what the factors multiply to, and how far two ideas are from being independent."""
    parts = []
    for kind, times, ideas in _ablated(cells, options)[:MOST_PANELS]:
        if ideas:
            product, whole = math.prod(ideas.values()), times.get(options["all"], math.nan)
            agree = abs(product / whole - 1) <= AGREES
            parts.append(
                f"{kind}: the factors multiply to {product:.2f}"
                + ("" if agree else _overlap(times, list(ideas), options))
            )
    return "; ".join(parts)


def _ablated(cells: list[Cell], options: Json) -> list[tuple[str, dict[str, float], dict[str, float]]]:
    """Return of each panel with times its kind, the times over the reference's, and those that lack one idea."""
    found = []
    for group in rates.group(rates.contenders(cells), lambda cell: rates.words(cell, options["panels"])).values():
        times = {cell.contender: ratio for cell in group if (ratio := _slower(cell, group)) is not None}
        semiring, dtype = (group[0].axes.get(name) for name in ("semiring", "dtype"))
        if times:
            ideas = {name: times[name] for name in options["ideas"] if name in times}
            found.append((str(dtype if semiring == "plus_times" else semiring), times, ideas))
    return found


def _overlap(times: dict[str, float], ideas: list[str], options: Json) -> str:
    """Return how far the last two ideas are from being independent, by the contender that lacks both."""
    both, (one, other) = times.get(options["pair"], math.nan), ideas[-2:]
    return f", but {one} and {other} together take {both:.2f} times as long, not {times[one] * times[other]:.2f}"


def stages(cells: list[Cell], options: Json) -> str:
    """Return with which tile a second stage gains most over one, and with which least, or loses."""
    gains = []
    for name, group in rates.group(rates.contenders(cells), lambda cell: cell.axes.get("tile")).items():
        by_count = {int(cell.contender.split()[0]): cell for cell in group if cell.is_ok}
        if 1 in by_count and 2 in by_count:
            gain = rates.speed_up(by_count[2], by_count[1]).estimate
            gains.append((gain, name, _blocks(by_count[1]), _blocks(by_count[2])))
    if not gains:
        return ""
    most, least = max(gains), min(gains)
    first = f"A second stage gains most with tiles of {_gain(most)}"
    return first if most == least else f"{first}, least with {_gain(least)}"


def tiles(cells: list[Cell], options: Json) -> str:
    """Return for the first panel the best tile over no tile, what unrolling gains there, and which tiles pay at all.

    The first contender has no tile; those whose names end with the option ``rolled`` keep the loop over their steps.
    """
    panels = rates.group(rates.contenders(cells), lambda cell: rates.words(cell, options["panels"]))
    found = [cell for cell in next(iter(panels.values()), []) if cell.is_ok and cell.contender != cell.reference]
    gains = {cell.contender: 1 / ratio for cell in found if (ratio := _slower(cell, cells)) is not None}
    unrolled = {name: gain for name, gain in gains.items() if not name.endswith(options["rolled"])}
    if not unrolled:
        return ""
    best, pays = max(unrolled, key=lambda name: unrolled[name]), [name for name, gain in unrolled.items() if gain > 1]
    rolled = gains.get(best + options["rolled"])
    loop = f" ({unrolled[best] / rolled:.2f} times the same tiles with a rolled loop)" if rolled else ""
    first = f"Tiles of {best} are {unrolled[best]:.2f} times as fast as no tiles{loop}"
    slower = [name for name in unrolled if name not in pays]
    return f"{first}; {', '.join(slower)} are slower than none" if slower else first


BY_ROWS = " as long as a thread for each element with {} of B in shared memory"


def rows(cells: list[Cell], options: Json) -> str:
    """Return by panel the time of one thread a row over that of one an element, by the least and the most columns."""
    found: list[str] = []
    for name, group in rates.group(rates.contenders(cells), lambda cell: rates.words(cell, options["panels"])).items():
        own = [(c, t) for c in group if rates.axis(c, "backend") == "gpu-row" and (t := _slower(c, group)) is not None]
        if own:
            ends = {_columns(cell): time for cell, time in (own[0], own[-1])}
            (least, slow), (most, quick) = ends.items() if len(ends) > 1 else [*ends.items()] * 2
            one = f"{slow:.2g} times{BY_ROWS.format(rates.plural(int(least), 'column')) if not found else ''}"
            found.append(f"{one}, {quick:.2g} times with {most} ({name})")
    return f"A thread for each row takes {'; '.join(found)}" if found else ""


def _columns(cell: Cell) -> str:
    """Return how many columns of B a contender keeps: "4" of "gpu-row, 4 of B"."""
    return cell.contender.partition(", ")[2].partition(" ")[0]


def _gain(found: tuple[float, str, int, int]) -> str:
    gain, tile, one, two = found
    blocks = f"{rates.plural(one, 'block')} either way" if one == two else f"{rates.plural(one, 'block')} become {two}"
    return f"{tile}, {gain:.2f} times the speed ({blocks})"


def _blocks(cell: Cell) -> int:
    """Return how many blocks a multiprocessor holds."""
    return int(cell.facts.get("kernel", {}).get("blocks", 0))


def alike(cells: list[Cell], options: Json) -> str:
    """Return how long all contenders take over all sizes, and by how much they differ at one size at most."""
    by_size = rates.group((c for c in rates.contenders(cells) if c.is_ok), lambda cell: rates.axis(cell, "n"))
    times = {n: [cell.median_ns / 1e3 for cell in own] for n, own in by_size.items() if len(own) > 1}
    if not times:
        return ""
    low, high = (choose(map(choose, times.values())) for choose in (min, max))
    n, apart = max(((n, max(own) / min(own)) for n, own in times.items()), key=lambda entry: entry[1])
    spans = f"All rungs take {low:.1f} to {high:.1f} us up to n={max(times)}"
    return f"{spans}, and differ by {apart:.2f} times at most (n={n})"


def _slower(cell: Cell, group: Sequence[Cell]) -> float | None:
    """Return the time of `cell` over that of its reference; None for the reference itself."""
    reference = rates.reference_of(cell, group)
    if reference is None or reference is cell or not cell.is_ok:
        return None
    return rates.time_ratio(cell, reference).estimate


DETAILS = {"left_out": products}
FINDINGS = {"left_out": left_out, "kernel_stages": stages, "tiles": tiles, "rows": rows, "alike": alike}
