"""The answer of an experiment: what its figures show, and what the cells that they show have found. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.analysis import caveats, findings, mean_sizes, peaks, rates, shares
from harness.analysis.findings import libraries
from harness.analysis.findings.sentences import Finding
from harness.errors import HarnessError
from harness.experiment import Experiment, Figure, content_hash
from harness.store.store import Cell

# If this part of the ratios of a figure is undecided, or more, its title says so, and it is not published.
MOST_UNDECIDED = 0.2
# Values of figures that are no times, and kinds of figures that show none: no ratios of times, so no verdicts.
FACTS = ("residual", "share", "greatest_error")
NOT_TIMED = {"grids": "counted", **dict.fromkeys(("projected", "model_error", "extra_work", "reuse"), "modelled")}


# Every option of a figure that a drawing function or a finding reads.
OPTIONS = tuple(
    "algorithm all beside by colours columns compares counts ends every extra_bytes finding ideas labels largest "
    "launches limits links marker markers merged named note of over over_reference over_sizes pair panels passing "
    "peak pick place point ragged reference_words rolled rows sort spread stages steps subject subjects sweeps "
    "table tile tiles titles value what where who whole within words working_sets x x_label y_scale".split()
)


@dataclass(frozen=True)
class Shown:
    """The cells of a machine that a figure shows, and the peaks that other experiments or earlier runs measured."""

    cells: list[Cell]
    peaks: list[Cell]
    left_out: tuple[str, ...] = ()  # contenders that are not at their best
    found: dict[str, Finding | None] = field(default_factory=dict, repr=False)  # by figure: what is known by now


def faults(figure: Figure) -> list[HarnessError]:
    """Return what is wrong with the options of a figure: a finding that there is not, or options that nothing reads."""
    finding = figure.options.get("finding")
    known = findings.FINDINGS
    wrong = (
        [HarnessError.unknown("finding", finding, known)] if isinstance(finding, str) and finding not in known else []
    )
    wrong += [HarnessError.unknown("option", name, OPTIONS) for name in figure.options if name not in OPTIONS]
    return [error.told_by(f"figure {figure.name}") for error in wrong]


def shown(figure: Figure, experiment: str, cells: Iterable[Cell]) -> Shown:
    """Return what `figure` of the experiment called `experiment` shows of the cells of one machine.

    Those of its experiment, or of another that its options name, at its ``where``. A peak that another experiment
    measured holds too, or an earlier run. None where times are those of one value alone of the axis that the figure
    ``compares``.
    """
    everything = list(cells)
    source = figure.options.get("of", experiment)
    own = [cell for cell in everything if cell.experiment == source and cell.is_current]
    roofs = [cell for cell in own if rates.is_roof(cell)]
    chosen = rates.select((cell for cell in own if not rates.is_roof(cell)), figure.options.get("where", {}))
    if "largest" in figure.options:
        within = figure.options.get("within", figure.options.get("panels", ()))
        chosen = _largest(chosen, figure.options["largest"], within)
    peaks_elsewhere = [
        cell
        for cell in everything
        if peaks.is_any_peak(cell) and not (cell.experiment == experiment and cell.is_current)
    ]
    not_at_their_best = libraries.untold(chosen)
    chosen = [cell for cell in chosen if cell.contender not in not_at_their_best]
    if figure.options.get("merged"):
        chosen = libraries.merged(chosen)
    if figure.options.get("over_sizes") == "mean":
        chosen = mean_sizes.merged(chosen)
    if "compares" in figure.options and len(_timed_values(chosen, figure.options["compares"])) < 2:
        return Shown([], [])
    return Shown([*roofs, *chosen], peaks_elsewhere, tuple(sorted(not_at_their_best)))


def _timed_values(cells: Iterable[Cell], axis: str) -> set[Any]:
    """Return the values of `axis` at which a cell has a time."""
    return {rates.axis(cell, axis) for cell in cells if cell.is_ok}


def _largest(cells: list[Cell], side: str, within: str | Sequence[str]) -> list[Cell]:
    """Return the cells where `side` is largest among those that stand together on the axes `within`."""
    groups = rates.group(cells, lambda cell: rates.words(cell, within)).values()
    most = [max((rates.axis(cell, side) or 0 for cell in group), default=0) for group in groups]
    return [
        cell for group, at in zip(groups, most, strict=True) for cell in group if (rates.axis(cell, side) or 0) == at
    ]


def of_figure(figure: Figure, of: Shown) -> str:
    """Return what the cells of a figure have found, and how many of its ratios are undecided if those are many.

    If they are most of them, it says so, and nothing is found.
    """
    found = finding(figure, of)
    return (found and (_nothing_decided(figure, of) or found.sentence + _too_many(figure, of))) or ""


def in_brief(figure: Figure, of: Shown) -> str:
    """Return what `of_figure` does, by `Finding.brief`."""
    found = finding(figure, of)
    return (found and (_nothing_decided(figure, of) or found.brief + _too_many(figure, of))) or ""


def with_range(figure: Figure, of: Shown) -> str:
    """Return what `of_figure` does, and the second sentence."""
    return ". ".join(filter(None, [of_figure(figure, of), range_of_figure(figure, of)]))


def finding(figure: Figure, of: Shown) -> Finding | None:
    """Return what the cells of a figure have found, as data."""
    if figure.name not in of.found:
        of.found[figure.name] = findings.of(figure, [*of.cells, *of.peaks])
    return of.found[figure.name]


def headline(figure: Figure, of: Shown) -> tuple[str, str]:
    """Return the number of a finding and its interval; empty texts of one on which nothing is decided."""
    found = finding(figure, of)
    return ("", "") if found is None or _nothing_decided(figure, of) else found.headline


def _nothing_decided(figure: Figure, of: Shown) -> str:
    if figure.options.get("value") == "share" or figure.kind == "model_error":  # they rest on times, and on no ratios
        return caveats.nothing_decided(caveats.of_times(rates.timed(of.cells)))
    return caveats.nothing_decided(undecided(figure, of))


def undecided(figure: Figure, of: Shown) -> caveats.Undecided:
    """Return how many of the numbers of a figure have no verdict: those that its finding tells, else all ratios.

    Ratios are those to the reference of their case.
    """
    if figure.kind in NOT_TIMED or figure.options.get("value") in FACTS:
        return caveats.Undecided(0, 0, 0, 0)
    found = finding(figure, of)
    judged = found.judged if found else None
    return caveats.undecided(of.cells) if judged is None else caveats.of_shares(judged)


def range_of_figure(figure: Figure, of: Shown) -> str:
    """Return the second sentence of a finding: the ends of its numbers, and where it loses; mostly there is one."""
    found = finding(figure, of)
    return "" if found is None or _nothing_decided(figure, of) else found.spread


def below_title(figure: Figure, of: Shown) -> str:
    """Return what a figure shows, and the range of the number in its title."""
    title = of_figure(figure, of)
    return ". ".join(filter(None, [figure.title, range_of_figure(figure, of)])) if title else ""


def doubt(figure: Figure, of: Shown) -> str:
    """Return how many numbers of a figure are `undecided`, " (7 of 12 undecided)", if too many are; else nothing.

    Of a figure of shares of an algorithm it is how many of them are of runs that took far longer than a plain one.
    """
    if figure.options.get("value") == "share":
        slow, stored = shares.of_slow_runs(of.cells)
        return f" ({slow} of {stored} from slow runs)" if stored and slow >= MOST_UNDECIDED * stored else ""
    return _too_many(figure, of)


def is_without_subject(figure: Figure, of: Shown) -> bool:
    """Return whether what a figure is about has no time among its cells: older runs may lack it, or say nothing."""
    return _lacks_subject(figure, of) or ("finding" in figure.options and not of_figure(figure, of))


def _lacks_subject(figure: Figure, of: Shown) -> bool:
    subject, done = figure.options.get("subject"), rates.timed(of.cells)
    names = {name for cell in done for name in (cell.contender, rates.axis(cell, "backend"))}
    return subject is not None and subject not in names


def _too_many(figure: Figure, of: Shown) -> str:
    found = undecided(figure, of)
    return caveats.doubt(found) if found.undecided >= MOST_UNDECIDED * found.ratios else ""


def details_of_figure(figure: Figure, of: Shown) -> str:
    """Return what its cells have found besides, too long for a title; mostly nothing."""
    found = finding(figure, of)
    return found.note if found else ""


def fingerprint(figure: Figure, of: Shown) -> str:
    """Return 16 hexadecimal digits that name what a figure is made of: its cells, and what is said of them.

    Peaks that other experiments measured count by what is said: most of them bound nothing that it shows.
    """
    said = [of_figure(figure, of), below_title(figure, of), details_of_figure(figure, of)]
    shown = [
        [cell.experiment, cell.preset, cell.run, cell.time, cell.axes, cell.contender, cell.samples_ns, cell.facts]
        for cell in of.cells
    ]
    return content_hash([said, shown])


def of_experiment(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Return what an experiment has found: the finding of its first figure that has one, and its subject."""
    return next(filter(None, (_answer(figure, experiment, cells) for figure in experiment.figures)), "")


def by_name(
    experiment: Experiment, cells: Sequence[Cell], say: Callable[[Figure, Shown], str] = of_figure
) -> dict[str, str]:
    """Return what an experiment has found, by its name, and what each of its figures has, by theirs."""
    found = {figure.name: _answer(figure, experiment, cells, say) for figure in experiment.figures}
    return {**found, experiment.name: next(filter(None, found.values()), "")}


def _answer(
    figure: Figure, experiment: Experiment, cells: Sequence[Cell], say: Callable[[Figure, Shown], str] = of_figure
) -> str:
    """Return the finding of a figure; none of one without its subject: older runs were about another backend."""
    of = shown(figure, experiment.name, cells)
    return "" if _lacks_subject(figure, of) else say(figure, of)
