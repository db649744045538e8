"""The answer of an experiment: what its figures show, and what the cells that they show have found. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.analysis import caveats, rates
from harness.analysis.findings import FINDINGS
from harness.experiment import Experiment, Figure
from harness.store.store import Cell

# Part of the ratios of a figure; if more of them are undecided, its title says so.
MOST_UNDECIDED = 0.2
# Words that begin a finding and are no names of backends.
PLAIN_WORDS = (
    *(
        "sizes",
        "with",
        "fastest",
        "the",
        "dense",
        "residuals",
        "products",
        "all",
        "padding",
        "tiles",
        "each of",
        "copies",
    ),
    "by a model",
)


class Shown(NamedTuple):
    """The cells of a machine that a figure shows, and the peaks that other experiments measured there."""

    cells: list[Cell]
    peaks: list[Cell]


def shown(figure: Figure, experiment: str, cells: Iterable[Cell]) -> Shown:
    """Return what `figure` of the experiment called `experiment` shows of the cells of one machine.

    Those of its experiment, or of another that its options name, at its ``where``. A peak that another experiment
    measured holds too.
    """
    everything = list(cells)
    own = [cell for cell in everything if cell.experiment == figure.options.get("of", experiment)]
    roofs = [cell for cell in own if rates.is_roof(cell)]
    chosen = rates.select((cell for cell in own if not rates.is_roof(cell)), figure.options.get("where", {}))
    peaks_elsewhere = [
        cell
        for cell in everything
        if cell.experiment != experiment and (rates.is_peak(cell) or rates.is_narrow_peak(cell))
    ]
    return Shown([*roofs, *chosen], peaks_elsewhere)


def of_figure(figure: Figure, of: Shown) -> str:
    """Return what the cells of a figure have found, and how many of its ratios are undecided if those are many."""
    if "finding" not in figure.options:
        return ""
    sentence = FINDINGS[figure.options["finding"]]([*of.cells, *of.peaks], figure.options)
    undecided, few, ratios = caveats.undecided(of.cells)
    is_about_ratios = figure.options.get("ratios", True)
    if sentence and is_about_ratios and undecided > MOST_UNDECIDED * ratios and "decided" not in sentence:
        sentence += f"; {_doubt(undecided, few, ratios)}"
    return sentence[:1].upper() + sentence[1:] if sentence.startswith(PLAIN_WORDS) else sentence


def _doubt(undecided: int, few: int, ratios: int) -> str:
    """Return how many of the ratios have no verdict, and whether more samples would help."""
    why = "" if not few else ", for want of samples" if few == undecided else f", {few} of them for want of samples"
    if undecided < ratios:
        return f"{undecided} of {ratios} ratios undecided{why}"
    return (f"none of {ratios} ratios is decided" if ratios > 1 else "the ratio is undecided") + why


def of_experiment(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Return what an experiment has found: the finding of its first figure that has one."""
    sentences = (of_figure(figure, shown(figure, experiment.name, cells)) for figure in experiment.figures)
    return next(filter(None, sentences), "")
