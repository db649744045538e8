"""What an experiment has found: who, how much, and where not. Pure.

Each function takes the cells that a figure shows, and its options; it returns a `Finding`, or None where nothing can be
said. The option ``finding`` of a figure names one of `FINDINGS`, the measures that several experiments share, or is a
function of an experiment's own module.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.analysis.findings import parts, ratios, sizes
from harness.analysis.findings.sentences import Finding
from harness.experiment import Figure, Json
from harness.store.store import Cell

FINDINGS: dict[str, Callable[[list[Cell], Json], Finding | None]] = {
    **ratios.FINDINGS,
    **parts.FINDINGS,
    **sizes.FINDINGS,
}


def of(figure: Figure, cells: list[Cell]) -> Finding | None:
    """Return what `cells` have found that a figure shows; None if its finding does not exist (`answers.faults`)."""
    finding = figure.options.get("finding")
    find = FINDINGS.get(finding) if isinstance(finding, str) else finding
    return find(cells, figure.options) if find else None
