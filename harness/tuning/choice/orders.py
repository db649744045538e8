"""The orders in which ``backend="auto"`` tries backends, as measured: the user's table, then the shipped one.

A table holds, for sizes of a class of products, how long each backend took. A product is computed as the nearest that
were measured in its class say together; if none is within `REACH`, nothing was measured, and the static order holds.
What a table says is an order alone: whether a backend may compute a product, and in which arithmetic, its caller
decides.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness.machine import Machine
from harness.surroundings import is_there
from harness.tuning import stored
from harness.tuning.choice.classes import Sizes
from harness.tuning.measured import Measured

# Farthest measured sizes that speak for others: a factor of 4 in each of m, n, k and the number of products.
REACH = 8  # quarters of an octave

# A side so long that a longer one changes nothing, in the same steps: 4096 elements. Before sides of 16384 spoke for
# longer ones, 500000 x 32 x 8 in bfloat16 took 12 times the time of the best backend (H200, 2026-11-24).
LONG = 48

# So many of the nearest sizes are heard, each with a weight of 1 over its distance and this many steps. A backend that
# fewer of them name, by weight, is left out.
NEAREST, NO_DISTANCE, NAMED = 5, 0.25, 0.6

# A backend of the static order stays the first unless another is faster by more than this: 3 % is what two medians of
# the same backend differ by in short races.
MARGIN = 1.03

# Most sizes whose times a table keeps beside its entries.
_MOST_KEPT = 1 << 14

SHIPPED = Path(__file__).with_name("measured")
# The fastest backend of a entry has this number, and the others theirs in proportion to their times.
UNIT = 1000

Times = Mapping[str, int]


@dataclass(frozen=True)
class AutoOwner:
    """The owner of what was measured for ``backend="auto"``: a machine, or an architecture of GPUs."""

    place: Machine | stored.Chip

    @property
    def key(self) -> str:
        """The name of its file: ``"auto-gpu-sm_90"``."""
        return f"auto-{self.place.key}"

    @property
    def kind(self) -> str:
        """What a shipped table is for: an architecture of GPUs, or the vector unit of a processor."""
        if isinstance(self.place, stored.Chip):
            return self.place.key
        units = [name for name in ("avx512f", "avx2", "asimd") if name in self.place.simd]
        tiles = "-amx" if "amx_tile" in self.place.simd else ""
        return f"cpu-{units[0]}{tiles}" if units else "cpu"

    def to_json(self) -> dict[str, Any]:
        """Return the place as a JSON object."""
        return self.place.to_json()


class Near(NamedTuple):
    """The times at some sizes, their names by time, and those that are within `MARGIN` of the least."""

    times: Times
    by_time: tuple[str, ...]
    fast: frozenset[str]

    @classmethod
    def of(cls, times: Times) -> Near:
        """Return those of `times`."""
        fast = frozenset(name for name, time in times.items() if time <= MARGIN * UNIT)
        return cls(times, tuple(sorted(times, key=times.__getitem__)), fast)

    def order(self, static: Collection[str], suits: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the backends as `order` does."""
        for first in static:
            if first in self.fast and suits(first):
                return (first, *(name for name in self.by_time if name != first))
        return self.by_time


def _together(near: Iterable[tuple[float, Times]]) -> Times:
    """Return the times between sizes: the means of logarithms, the heavier the less the distance that comes first."""
    weights: dict[str, float] = defaultdict(float)
    sums: dict[str, float] = defaultdict(float)
    total = 0.0
    for distance, times in near:
        weight = 1 / (distance + NO_DISTANCE)
        total += weight
        for name, time in times.items():
            weights[name] += weight
            sums[name] += weight * math.log(time)
    means = {name: math.exp(sums[name] / weight) for name, weight in weights.items() if weight >= NAMED * total}
    least = min(means.values(), default=1.0)
    return {name: round(UNIT * mean / least) for name, mean in means.items()}


@dataclass(eq=False)
class Table:
    """What was measured in one place.

    Attributes
    ----------
    entries : mapping
        By class of product (`classes.class_of`) and sizes: times of backends, in thousandths of the fastest's.
    provenance : str
        Where they come from: machine, date, commit and file; empty if there are none.
    notice : str
        Why a file is not used; empty if all is well.
    """

    entries: Mapping[str, Mapping[Sizes, Times]] = field(default_factory=dict)
    provenance: str = ""
    notice: str = ""
    _measured: dict[str, Measured[Times]] = field(default_factory=dict)
    _near: dict[Hashable, Near] = field(default_factory=dict)

    def near(self, of_class: str, sizes: Sizes) -> Near:
        """Return the times between the nearest measured sizes of that class; empty if none is near.

        A size beyond all measured ones of the class counts as the greatest of them, if that is at least `LONG`: a
        longer side then changes the time of every backend alike.
        """
        steps = sizes.steps()
        found = self._near.get((of_class, steps))
        if found is None:
            if len(self._near) >= _MOST_KEPT:
                self._near.clear()
            found = self._near[of_class, steps] = Near.of(self._search(of_class, steps))
        return found

    def _search(self, of_class: str, steps: tuple[int, ...]) -> Times:
        measured = self._measured.get(of_class)
        if measured is None:
            entries = {sizes.steps(): times for sizes, times in self.entries.get(of_class, {}).items()}
            measured = self._measured[of_class] = Measured(entries.items(), REACH)
        return _together(itertools.islice(measured.near(measured.within(steps, LONG)), NEAREST))


def order(
    tables: tuple[Table, ...],
    of_class: str,
    sizes: Sizes,
    static: Collection[str],
    suits: Callable[[str], bool] = lambda name: True,
) -> tuple[str, ...]:
    """Return the backends that were measured near a product, the one to try first first; empty: none was.

    Parameters
    ----------
    tables : tuple of Table
        The first that knows the class at those sizes decides.
    of_class : str
    sizes : Sizes
    static : collection of str
        The order without measurements: the first of it that is within `MARGIN` of the fastest goes first.
    suits : callable
        Returns whether one of `static` counts; it is asked of those alone that may go first.
    """
    for table in tables:
        near = table.near(of_class, sizes)
        if near.times:
            return near.order(static, suits)
    return ()


def sizes_of_others(
    tables: tuple[Table, ...], classes: Collection[str], name: str, static: tuple[str, ...]
) -> Iterator[int]:
    """Yield the elements of the least A and B near each entry of those classes in which another than `name` goes first.

    A product with fewer elements than the least of these is near no such entry.
    """
    # where it goes first at each of several sizes, it does between them
    for sizes, times in ((s, t) for table in tables for c in classes for s, t in table.entries.get(c, {}).items()):
        if Near.of(times).order(static, lambda _: True)[0] != name:
            least_m, least_n, least_k, products = (size / 2 ** ((REACH + 1) / 4) for size in sizes)
            yield int(max(products, 1) * (least_m + least_n) * least_k)


# By what identifies a machine or an architecture within a process.
_known: dict[tuple[object, ...], tuple[Table, ...]] = {}


def tables_of(place: Machine | stored.Chip) -> tuple[Table, ...]:
    """Return the user's table for a place and the shipped one for its kind, read once per process.

    A file that cannot be used counts as absent; it is warned of once.
    """
    identity = stored.identity(place)
    known = _known.get(identity)
    if known is None:
        own = own_table(AutoOwner(place))
        if own.notice:
            warnings.warn(f"backend='auto': {own.notice}", stacklevel=2)
        known = tuple(table for table in (own, shipped_table(AutoOwner(place).kind)) if table.entries)
        _known[identity] = known
    return known


def forget_tables() -> None:
    """Forget what was read, so that files are read again."""
    _known.clear()


def own_table(choice: AutoOwner) -> Table:
    """Return the table that the user has measured; without entries, and perhaps with a notice, if there is none."""
    read = stored.read(choice)
    try:
        entries = entries_of(read.values)
    except ValueError as error:
        return Table(notice=f"{read.path} is ignored: {error}")
    if entries:
        return Table(entries, f"measured here {read.date}, in {read.path}")
    return Table(notice=read.notice if read.path is not None and is_there(read.path) else "")


@functools.cache
def shipped_table(kind: str) -> Table:
    """Return the table that is shipped for an architecture of GPUs or a vector unit; an empty one if there is none."""
    path = SHIPPED / f"{kind}.json"
    if not path.exists():
        return Table()
    record = json.loads(path.read_text(encoding="utf-8"))
    source = f"{record['machine']}, {record['date']}, commit {record['commit']}"
    return Table(entries_of(record["values"]), f"shipped: measured on {source}")


def entries_of(values: stored.Values) -> dict[str, dict[Sizes, Times]]:
    """Return stored values as entries; raise ValueError if one is of no class and sizes."""
    entries: dict[str, dict[Sizes, Times]] = {}
    for name, times in values.items():
        of_class, _, sizes = name.rpartition(": ")
        if not of_class:
            raise ValueError(f"{name!r} is no class of products with its sizes")
        entries.setdefault(of_class, {})[Sizes.read(sizes)] = times
    return entries
