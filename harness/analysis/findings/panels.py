"""The panels of a figure that its title speaks of, and what tells them apart. Pure."""

from __future__ import annotations

from harness.analysis import rates
from harness.experiment import Json
from harness.store.store import Cell

MOST_PANELS = 2  # that one title speaks of


def panels(cells: list[Cell], options: Json) -> list[list[Cell]]:
    """Return the contenders of the first panels of a figure."""
    return list(_by_name(cells, options).values())[:MOST_PANELS]


def named_panels(cells: list[Cell], options: Json) -> list[tuple[list[Cell], str]]:
    """Return the first panels, each with what tells it apart as the beginning of a sentence: "n=1025: "; one: "".

    What they share is named too where another panel of the figure, of which the sentence says nothing, differs.
    """
    groups = _by_name(cells, options)
    names = [name.split(", ") for name in groups]
    shared = set.intersection(*map(set, names)) if len(names) > 1 else set(*names)
    own = [", ".join(word for word in name if word not in shared) for name in names[:MOST_PANELS]]
    return [(group, f"{name}: " if name else "") for group, name in zip(groups.values(), own, strict=False)]


def _by_name(cells: list[Cell], options: Json) -> dict[str, list[Cell]]:
    """Return the contenders of each panel of a figure by its name, as "float64, 1 thread"."""
    return rates.group(rates.contenders(cells), lambda cell: rates.words(cell, options.get("panels", "problem")))
