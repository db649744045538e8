"""Where cells stand, and rates, ratios and scaling, computed from their samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from harness.experiment import NARROW_PEAK
from harness.stats import statistics
from harness.stats.statistics import Interval
from harness.store.store import Cell

T = TypeVar("T")

# With fewer, samples are shown one by one: what differs between processes would not be in an interval.
FEWEST_PROCESSES = 3
# The role of a case that measures a peak, and the name of a contender that does.
PEAK = "peak"
# The contender that measures the rate of reading memory, in a case of its own or beside the cells it bounds.
READ = "read"
# The role of a case that measures what messages between ranks take.
LINK = "link"


def axis(cell: Cell, name: str) -> Any:
    """Return where `cell` stands on an axis: its own axes, else its problem's, else None.

    ``"problem"`` is semiring and dtype, ``"backend"`` the one that computed it, ``"threads"`` its number of threads,
    ``"contender"`` its name.
    ``"device"`` is None for the host: a case on a device may have contenders of the host, and the other way round.
    """
    if name == "device":
        family = str(axis(cell, "backend")).partition("-")[0]
        return {"cpu": None, "gpu": "gpu"}.get(family, cell.axes.get("device"))
    if name in cell.axes:
        return cell.axes[name]
    if name in _OF_CELL:
        return _OF_CELL[name](cell)
    problem = cell.facts.get("problem") or cell.arguments.get("problem") or {}
    return problem.get(name)


_OF_CELL: dict[str, Callable[[Cell], Any]] = {
    "problem": lambda cell: f"{axis(cell, 'semiring')} {axis(cell, 'dtype')}",
    "contender": lambda cell: cell.contender,
    "backend": lambda cell: cell.arguments.get("backend", cell.contender),
    "threads": lambda cell: cell.threads,
}


def words(cell: Cell, names: str | Sequence[str]) -> str:
    """Return where `cell` stands on an axis or on several: "plus_times float64, 2 threads", "min_plus, on the GPU"."""
    form: dict[str, Callable[[Any], str]] = {
        "threads": lambda count: plural(count, "thread"),
        "device": _on_device,
        "n": lambda size: f"n={size}",
    }
    return ", ".join(form.get(name, str)(axis(cell, name)) for name in ([names] if isinstance(names, str) else names))


def select(cells: Iterable[Cell], where: Mapping[str, Any]) -> list[Cell]:
    """Return the cells that stand at `where`, as ``{"mode": "strong"}``; of a list of values, at any of them."""
    legal = {name: value if isinstance(value, list | tuple) else (value,) for name, value in where.items()}
    return [cell for cell in cells if all(axis(cell, name) in values for name, values in legal.items())]


def group(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Any, list[T]]:
    """Return the items by key, both in the order in which they came."""
    groups: dict[Any, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def is_peak(cell: Cell) -> bool:
    """Return whether `cell` measures the peak of registers alone, in its own case or beside the cells it bounds."""
    return PEAK in (cell.axes.get("role"), cell.contender) and not is_narrow_peak(cell)


def is_narrow_peak(cell: Cell) -> bool:
    """Return whether `cell` measures the peak of narrower vectors than this processor has."""
    return cell.contender == NARROW_PEAK


def is_roof(cell: Cell) -> bool:
    """Return whether `cell` measures the machine (a peak, a bandwidth, a link) and not a contender."""
    is_rate = cell.contender == READ or cell.axes.get("role") in ("bandwidth", LINK)
    return is_rate or is_peak(cell) or is_narrow_peak(cell)


def current(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that nothing recorded later has superseded: what is shown and counted."""
    return [cell for cell in cells if cell.is_current]


def contenders(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that are no roofs."""
    return [cell for cell in cells if not is_roof(cell)]


def timed(cells: Iterable[Cell]) -> list[Cell]:
    """Return the contenders that have a time."""
    return [cell for cell in contenders(cells) if cell.is_ok]


def unit(cells: Iterable[Cell]) -> str:
    """Return the unit of `Cell.rate`: operations are FLOP only for plus_times over floats and complex numbers."""
    cells = list(cells)
    semirings = {axis(cell, "semiring") for cell in cells}
    are_floats = all(str(axis(cell, "dtype")).startswith(("float", "complex")) for cell in cells)
    return "GFLOP/s" if cells and semirings == {"plus_times"} and are_floats else "Gop/s"


def describe(cells: Iterable[Cell]) -> str:
    """Return the semiring, dtype and sizes that all of `cells` share, after the backend of their case if any."""
    cells = list(cells)
    backends = {cell.axes.get("backend") for cell in cells}
    words = [backends.pop() if len(backends) == 1 else "", common(cells, "semiring"), common(cells, "dtype")]
    words.append(size(*cells))
    return ", ".join(str(word) for word in words if word)


def size(*cells: Cell) -> str:
    """Return the size that all of `cells` have, "n=512" or "512 x 512 x 64"; empty if they have none in common."""
    sizes = [common(cells, name) for name in "mnk"]
    if not all(sizes):
        return ""
    return f"n={sizes[0]}" if len(set(sizes)) == 1 else " x ".join(map(str, sizes))


def common(cells: Iterable[Cell], name: str) -> Any:
    """Return where on an axis all of `cells` stand, or None if they do not stand together."""
    values = {axis(cell, name) for cell in cells}
    return values.pop() if len(values) == 1 else None


def runs_on(cells: Iterable[Cell]) -> str:
    """Return the processors that `cells` ran on: "2 threads", "on the GPU", or "on the GPU or 2 threads".

    Of different numbers of threads none is named.
    """
    by_device = group(cells, lambda cell: axis(cell, "device"))
    threads = common(by_device.pop(None, []), "threads")
    places = [_on_device(device) for device in by_device]
    return " or ".join([*places, *([plural(threads, "thread")] if threads else [])])


def is_on_device(cell: Cell) -> bool:
    """Return whether `cell` computes on a device, not on the host."""
    return axis(cell, "device") is not None


def _on_device(device: str | None) -> str:
    return f"on the {(device or 'cpu').upper()}"


def plural(count: int, noun: str) -> str:
    """Return "1 thread", "2 threads", "2 processes"."""
    return f"{count} {noun}" + ("" if count == 1 else "es" if noun.endswith("s") else "s")


def time_interval(cell: Cell) -> Interval:
    """Return the median time of a call with its interval [ns]."""
    return statistics.median_interval(cell.all_samples_ns)


def rate_interval(cell: Cell) -> Interval:
    """Return the median rate with its interval [G operations/s]."""
    return rate_of(time_interval(cell), cell)


def rate_of(time_ns: Interval, cell: Cell) -> Interval:
    """Return the rate at which `cell` works if a call takes that time [G operations/s]; NaN without operations."""
    operations = float(cell.facts.get("operations", math.nan))
    return Interval(operations / time_ns.estimate, operations / time_ns.high, operations / time_ns.low)


def has_interval(cell: Cell) -> bool:
    """Return whether enough processes measured `cell` for an interval that holds in the next one too."""
    return len(cell.samples_ns) >= FEWEST_PROCESSES


def time_ratio(cell: Cell, reference: Cell) -> Interval:
    """Return the time of `cell` over the time of `reference`, sample paired with sample within each process."""
    return statistics.median_interval(paired_ratios(cell, reference))


def paired_ratios(cell: Cell, reference: Cell) -> list[float]:
    """Return the time of each sample of `cell` over that of the sample of `reference` beside it."""
    processes = zip(cell.samples_ns, reference.samples_ns, strict=False)
    pairs = [pair for own, other in processes for pair in zip(own, other, strict=False)]
    times, others = np.asarray(pairs, float).reshape(-1, 2).T
    ratios: list[float] = (times / others).tolist()
    return ratios


def sample_speeds(cell: Cell, other: Cell) -> list[float]:
    """Return the rate of each sample of `cell` over that of the sample of `other` beside it; none of many processes."""
    work = work_ratio(cell, other)
    return [] if has_interval(cell) else [work / ratio for ratio in paired_ratios(cell, other)]


def sample_rates(cell: Cell) -> list[float]:
    """Return the rate of each sample of `cell` [G operations/s]."""
    return [rate_of(Interval(ns, ns, ns), cell).estimate for ns in cell.all_samples_ns]


def work_ratio(cell: Cell, reference: Cell) -> float:
    """Return the operations of `cell` over those of `reference`; 1 where one of them counts none."""
    return cell.facts.get("operations", 0) / (reference.facts.get("operations") or math.inf) or 1.0


def chosen_backend(cell: Cell) -> str:
    """Return the backend that a call took, where its plan says so: what ``"auto"`` chose; else nothing."""
    return str((cell.facts.get("plan") or {}).get("backend", ""))


def speed_up(cell: Cell, reference: Cell) -> Interval:
    """Return the rate of `cell` over the rate of `reference`: the ratio of times if both do the same work."""
    work = work_ratio(cell, reference)
    estimate, low, high = time_ratio(cell, reference)
    return Interval(work / estimate, work / high, work / low)


def step(cell: Cell, below: Cell) -> Interval:
    """Return the rate of a rung over that of another as their medians have it, so that steps multiply to the whole.

    The interval is as wide as that of `speed_up`, whose estimate is the median of paired ratios.
    """
    paired, of_medians = speed_up(cell, below), cell.rate / below.rate
    return Interval(*(of_medians * bound / paired.estimate for bound in paired))


def in_turns(cell: Cell, other: Cell) -> bool:
    """Return whether two cells are of one case and run: their samples are pairs."""
    return (cell.run, cell.case) == (other.run, other.case)


def reference_of(cell: Cell, cells: Iterable[Cell]) -> Cell | None:
    """Return the contender that `cell` was measured interleaved with and is compared to, if it has a time."""
    for other in cells:
        if (other.run, other.case, other.contender) == (cell.run, cell.case, cell.reference) and other.is_ok:
            return other
    return None


def rungs(cells: Sequence[Cell], options: Mapping[str, Any]) -> list[Cell]:
    """Return the rungs of a ladder among `cells`: not what stands ``beside`` it, as libraries do."""
    return [cell for cell in cells if axis(cell, "backend") not in options.get("beside", ())]


def steps_below(cells: list[Cell]) -> list[Cell | None]:
    """Return, for each rung of a ladder, the rung below that has a time and was interleaved with it."""
    below: list[Cell | None] = []
    last: Cell | None = None
    for cell in cells:
        below.append(last if last and in_turns(last, cell) else None)
        last = cell if cell.is_ok else last
    return below


def scaling(cells: Iterable[Cell]) -> dict[str, list[tuple[int, Interval]]]:
    """Return, by method, each number of threads with the speed-up over one thread of the same case."""
    return {
        method: [(cell.threads, speed_up(cell, alone)) for cell, alone in pairs]
        for method, pairs in beside_one_thread(cells).items()
    }


def beside_one_thread(cells: Iterable[Cell]) -> dict[str, list[tuple[Cell, Cell]]]:
    """Return, by method, the cell of each number of threads with that of one thread of the same case."""
    curves: dict[str, list[tuple[Cell, Cell]]] = {}
    for (method, _, _), curve in group(cells, lambda c: (c.axes.get("method", c.contender), c.case, c.run)).items():
        done = sorted((cell for cell in curve if cell.is_ok), key=lambda cell: cell.threads)
        if done and done[0].threads == 1:
            curves[method] = [(cell, done[0]) for cell in done]
    return curves


def not_measured(cells: Iterable[Cell]) -> list[tuple[str, str, list[Cell]]]:
    """Return status, reason and cells of everything that has no time, those of one status and reason together."""
    groups = group(
        (cell for cell in cells if not cell.is_ok),
        lambda cell: (cell.status, cell.reason.strip().partition("\n")[0]),
    )
    return [(status, reason, alike) for (status, reason), alike in groups.items()]


def one_process(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells from a single process: what differs between processes is not in their interval."""
    return [cell for cell in cells if cell.is_ok and len(cell.samples_ns) < 2]
