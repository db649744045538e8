"""Choose among the presets of a machine: each point of an experiment from the largest preset that has it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.experiment import PRESETS, content_hash
from harness.store.store import Cell, Store


def cells_of_machine(stores: Sequence[Store]) -> list[Cell]:
    """Return the cells to show of a machine: each point on an experiment's axes from the largest preset that has it.

    A point whose cells have no time anywhere is taken from the largest preset too. Preset smoke is no evidence: its
    cells stand where an experiment has no others.

    Parameters
    ----------
    stores : sequence of Store
        Of one machine, the smallest preset first.
    """
    cells = []
    for name in sorted({name for records in stores for name in records.experiments()}):
        recorded = [records for records in stores if name in records.experiments()]
        evidence = [records for records in recorded if records.folder.name != PRESETS[0]] or recorded
        by_point: dict[str, list[Cell]] = {}
        for records in reversed(evidence):
            points = dict[str, list[Cell]]()
            for cell in records.cells(name):
                points.setdefault(content_hash(cell.axes), []).append(cell)
            for point, own in points.items():
                if not any(cell.is_ok for cell in by_point.get(point, ())):
                    by_point[point] = own if any(cell.is_ok for cell in own) else by_point.get(point, own)
        cells += [cell for own in by_point.values() for cell in own]
    return cells
