"""A finding as data, and the one way to say it: a sentence with one number, then the range in a second one. Pure.

    cpu-simd is 1.04 times as fast as MKL (geometric mean of 24 products).
    From 0.94 (n=256) to 1.21 (n=511); slower in 3 of 24.

A finding holds every number that it rests on. Here one is picked for the sentence and the ends are found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.analysis import conditions, rates
from harness.stats.statistics import Interval, geometric_mean, median
from harness.store.store import Cell

# Which number of a finding its sentence has, and what stands beside a mean.
MOST, LEAST, FIRST = "most", "least", "first"
MEAN, MEDIAN = "geometric mean", "median"
MOST_NAMED = 3  # further contenders in the second sentence; of more the ends are told


class Measure(NamedTuple):
    """What a finding says of its subject: the verb for one and for several, and the words with the number."""

    singular: str
    plural: str
    words: str  # {} is the number, {over} what it is held against
    is_percent: bool = False

    def write(self, number: float) -> str:
        """Return a number with the digits that it is worth: "1.04", "13.5", "491"; of percents "84"."""
        if self.is_percent or number >= 100:
            return f"{number:.0f}"
        return f"{number:.2f}" if number < 10 else f"{number:.1f}"


SPEED = Measure("is", "are", "{} times as fast as {over}")
TIME = Measure("takes", "take", "{} times as long as {over}")
ERROR = Measure("has", "have", "{} times the largest error of {over}")
RESIDUAL = Measure("leaves", "leave", "{} times the residual of {over}")
PART = Measure("reaches", "reach", "{} % of {over}", is_percent=True)
SPENDS = Measure("spends", "spend", "{} % of {over}", is_percent=True)
LOSS = Measure("loses", "lose", "at most {} % of its speed {over}", is_percent=True)
PAYS = Measure("is", "are", "faster than {over} {}")
WINS = Measure("is", "are", "fastest in {} {over}")


class Value(NamedTuple):
    """A number of a finding: of which cells, and where, if not at the product of the first."""

    number: Interval
    cells: tuple[Cell, ...] = ()  # whose it is, and the one beside
    place: str = ""
    words: str = ""  # written in place of the number: "from n=2048 on"

    @property
    def cell(self) -> Cell:
        """The cell whose number it is."""
        return self.cells[0]

    @property
    def rival(self) -> Cell:
        """The cell that it is held against."""
        return self.cells[1]


@dataclass(frozen=True)
class Finding:
    """What cells have found.

    Parameters
    ----------
    subject : str
        Who.
    measure : Measure
    values : sequence of Value
        All numbers about the subject.
    over : str
        What they are held against.
    pick : str
        Which of them the sentence has.
    scope : str
        What alone it is about: ``"min_plus"``.
    noun : str
        What a mean is over.
    others : mapping
        Numbers of the same measure about others, by their names.
    slower : int
        Of how many values the subject is surely slower.
    judged : sequence of pairs of Cell, optional
        Ratios, or a cell alone, whose verdicts decide. By default all ratios to the references of the cases.
    note : str
        What stands below a figure besides.
    plain : str
        A sentence in place of all: why nothing can be said.
    """

    subject: str
    measure: Measure
    values: Sequence[Value]
    over: str = ""
    pick: str = MOST
    scope: str = ""
    noun: str = "product"
    others: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    slower: int = 0
    judged: Sequence[tuple[Cell, Cell | None]] | None = None
    note: str = ""
    plain: str = ""

    @property
    def sentence(self) -> str:
        """The sentence, with one number, and what a mean is over."""
        return self._said(*self._number())

    @property
    def brief(self) -> str:
        """The sentence, which of a mean does not count what it is over: all its numbers are the one."""
        number, place = self._number()
        is_mean = self.pick in (MEAN, MEDIAN) and len(self.values) > 1
        return self._said(number, self.pick if is_mean else place)

    def _said(self, number: str, place: str) -> str:
        if self.plain:
            return self.plain
        does = verb(self.subject, self.measure.singular, self.measure.plural)
        said = f"{self.subject} {does} {self.measure.words.format(number, over=self.over)}"
        said = f"over {self.scope}, {said}" if self.scope else said
        return _begun(f"{said} ({place})" if place else said)

    @property
    def spread(self) -> str:
        """The second sentence: the ends, others, and in how many it is slower; empty of a single number."""
        parts = []
        if len(self.values) > 1:
            parts.append("from " * (not any(value.words for value in self.values)) + self._ends(self.values))
        if self.slower:
            parts.append(f"slower in {self.slower} of {len(self.judged or self.values)}")
        named = dict(self.others)
        if len(named) > MOST_NAMED:
            every = [value._replace(place=name) for name, own in named.items() for value in own]
            named = {f"{len(named)} others": [_end(min, every), _end(max, every)]}
        parts += [f"{name} {self._ends(own)}" for name, own in named.items()]
        return _begun("; ".join(parts))

    @property
    def range(self) -> str:
        """All numbers of the subject in a sentence, for a note."""
        does = verb(self.subject, self.measure.singular, self.measure.plural)
        return f"{self.subject} {does} {self.measure.words.format(self._ends(self.values), over=self.over)}"

    @property
    def headline(self) -> tuple[str, str]:
        """The number as the sentence has it, "1.04 times", and its interval if it is of one cell: "[1.02, 1.06]"."""
        if self.plain:
            return "", ""
        (number, _), value = self._number(), self._picked
        if value is not None and value.words:
            return number, ""
        unit = self.measure.words.partition("{}")[2].split()[:1]
        has_interval = value is not None and value.number.low < value.number.high
        interval = f"[{', '.join(map(self.measure.write, value.number[1:]))}]" if value and has_interval else ""
        return " ".join([number, *unit]), interval

    @property
    def _picked(self) -> Value | None:
        """The value that the sentence has; None where it has a mean of several."""
        if len(self.values) == 1 or self.pick == FIRST:
            return self.values[0]
        return {MOST: _end(max, self.values), LEAST: _end(min, self.values)}.get(self.pick)

    def _number(self) -> tuple[str, str]:
        """Return the number of the sentence, and where it holds."""
        if self.plain:
            return "", ""
        if (value := self._picked) is not None:
            return value.words or self.measure.write(value.number.estimate), _where(value, [])
        mean = {MEAN: geometric_mean, MEDIAN: median}[self.pick]([value.number.estimate for value in self.values])
        return self.measure.write(mean), f"{self.pick} of {rates.plural(len(self.values), self.noun)}{self._threads()}"

    def _threads(self) -> str:
        """Return " on 1 and 2 threads", with which ratios of products change; on GPUs nothing."""
        cells = [value.cell for value in self.values if value.cells and not rates.is_on_device(value.cell)]
        counts = [str(count) for count in sorted({cell.threads for cell in cells})]
        noun = "thread" if counts == ["1"] else "threads"
        return f" on {' and '.join(counts)} {noun}" if counts and self.noun == "product" else ""

    def _ends(self, values: Sequence[Value]) -> str:
        """Return "0.94 (n=64) to 1.21 (n=511)"; of one value, or where both ends are alike, one of them."""
        cells = [value.cell for value in values if value.cells]
        if any(value.words for value in values):
            return ", ".join(dict.fromkeys(self._in_words(value, cells) for value in values))
        ends = (_end(min, values), _end(max, values))
        is_one = ends[0].number.estimate == ends[1].number.estimate
        return " to ".join(self._in_words(end, cells) for end in ends[: 1 if is_one else 2])

    def _in_words(self, value: Value, among: Sequence[Cell]) -> str:
        """Return a number with its place: "81 % (n=64)"."""
        number, where = self.measure.write(value.number.estimate), _where(value, among)
        said = value.words or number + " %" * self.measure.is_percent
        return f"{said} ({where})" if where else said


def nothing(why: str, judged: Sequence[tuple[Cell, Cell | None]]) -> Finding:
    """Return the finding that nothing can be said, and why."""
    return Finding("", SPEED, (), judged=judged, plain=why)


def _end(choose: Callable[..., Value], values: Sequence[Value]) -> Value:
    return choose(values, key=lambda value: value.number.estimate)


def _begun(text: str) -> str:
    """Return a sentence with a capital, unless it begins with a name such as cpu-simd."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first in ("from", "slower", "over", "all") else text


def _where(value: Value, among: Sequence[Cell]) -> str:
    """Return where a number holds, and what makes it a doubtful end."""
    if not value.cells:
        return value.place
    return (value.place or where_in_words(value.cell, among)) + conditions.weakness(value.cell)


def verb(name: str, singular: str, plural: str) -> str:
    """Return the verb for a contender's name: of "2 levels", "blocks" the plural, of "cpu-blis" the singular."""
    noun = re.split(", | of |: | with | to ", name)[0].split()[-1]
    is_plural = noun == "all" or (
        noun.endswith("s") and not noun.endswith("ss") and "-" not in noun and "_" not in noun
    )
    return plural if is_plural else singular


def where_in_words(cell: Cell, among: Sequence[Cell] = ()) -> str:
    """Return semiring, dtype and size of `cell`, without the two first where all of `among` share them.

    Of operands narrower than the sums the dtype is said: it is the row of a figure.
    """
    shared = [name for name in ("semiring", "dtype") if among and rates.common(among, name)]
    kinds = {"semiring": rates.axis(cell, "semiring"), "dtype": cell.axes.get("operands", rates.axis(cell, "dtype"))}
    is_narrow = kinds["dtype"] != rates.axis(cell, "dtype")
    told = {name: kind for name, kind in kinds.items() if name not in shared or (name == "dtype" and is_narrow)}
    words = [str(kind) for kind in told.values() if kind]
    threads = [rates.plural(cell.threads, "thread")] if among and not rates.common(among, "threads") else []
    return ", ".join(filter(None, [*words, _sizes(cell), *threads]))


def _sizes(cell: Cell) -> str:
    """Return the sizes of the matrix, or those of the product."""
    if "rows" in cell.axes and "columns" in cell.axes:
        return f"{cell.axes['rows']:,} x {cell.axes['columns']:,}"
    return f"blocks of {cell.axes['block']}" if "block" in cell.axes else rates.size(cell)
