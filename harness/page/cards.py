"""Cards: what each experiment has found on each machine, with a number, how sure it is, and where its chart is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from harness.analysis import answers, rates
from harness.experiment import Experiment, Figure
from harness.page.recorded import Recorded
from harness.store.store import Cell

# What a card's word of confidence means, as the page explains it. The undecided part is that of `answers`.
CONFIDENCE = {
    "high": f"at least {rates.FEWEST_PROCESSES} processes, and a verdict on four ratios of five",
    "medium": f"a verdict on four ratios of five, from fewer than {rates.FEWEST_PROCESSES} processes",
    "low": "more than one ratio of five is undecided: too few samples, or no difference to be seen",
    "counted": "a count, not a time",
    "modelled": "computed by a model, not measured",
}


class Card(NamedTuple):
    """What an experiment has found on a machine."""

    experiment: str
    machine: str
    finding: str
    value: str  # the number of the finding, or empty
    interval: str  # of the number, if it is of one cell
    confidence: str
    question: str
    address: str  # of its chart: the state of the page, behind the #
    prominence: int


def cards(recorded: Recorded, experiments: Iterable[Experiment]) -> list[Card]:
    """Return a card for each experiment that has found something, the most prominent first; undecided ones last."""
    found = (_card(recorded, experiment) for experiment in experiments)
    return sorted((card for card in found if card), key=lambda card: (card.confidence == "low", -card.prominence))


def _card(recorded: Recorded, experiment: Experiment) -> Card | None:
    for figure in experiment.figures:
        shown = answers.shown(figure, experiment.name, recorded.cells)
        is_timed = any(cell.is_ok for cell in rates.contenders(shown.cells))
        finding = answers.of_figure(figure, shown) if is_timed else ""
        if finding:
            value, interval = answers.headline(figure, shown)
            return Card(
                experiment=experiment.name,
                machine=recorded.name,
                finding=finding,
                value=value,
                interval=interval,
                confidence=_confidence(figure, shown),
                question=experiment.question,
                address=address(recorded.name, experiment, rates.contenders(shown.cells)),
                prominence=max(figure.prominence for figure in experiment.figures),
            )
    return None


def address(machine: str, experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Return the state of the page that shows `experiment` on `machine`: of its problems the one with most cells."""
    timed = [cell for cell in cells if cell.is_ok]
    state = {"machine": machine, "experiment": experiment.name}
    if timed:
        problems = rates.group(timed, lambda cell: (rates.axis(cell, "semiring"), rates.axis(cell, "dtype")))
        semiring, dtype = max(problems, key=lambda problem: len(problems[problem]))
        state |= {"semiring": semiring or "", "dtype": dtype or ""}
    return urlencode(state)


def _confidence(figure: Figure, shown: answers.Shown) -> str:
    """Return how sure the finding of a figure is, a word of `CONFIDENCE`."""
    if figure.kind in answers.NOT_TIMED:
        return answers.NOT_TIMED[figure.kind]
    undecided, _, ratios, *_ = answers.undecided(figure, shown)
    timed = rates.timed(shown.cells)
    if undecided > answers.MOST_UNDECIDED * ratios or not timed:
        return "low"
    return "high" if all(map(rates.has_interval, timed)) else "medium"
