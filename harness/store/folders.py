"""Find the folder of a machine's results. Two machines of one model have two.

So has a machine whose folder was named before family and model were part of the name.
"""

from __future__ import annotations

from pathlib import Path

from harness.machine import Machine
from harness.store.store import Store

# Of the host's hash behind a name that another host has taken.
DIGITS = 4


def slug_of(results_root: Path | str, machine: Machine) -> str:
    """Return the name of the folder of `machine` below `results_root`, which need not exist.

    It is the shorter name, without the processor's family and model, where a folder of that name holds results of this
    very hardware. A machine that only shares its processor's name gets a folder of its own. So does another machine of
    the same model: digits of its host stand behind the name.
    """
    root, old = Path(results_root), machine.short_slug
    recorded = _recorded(root / old)
    if recorded and all(machine.has_hardware_of(other) and machine.may_be(other) for other in recorded):
        return old
    is_taken = not all(map(machine.may_be, _recorded(root / machine.slug)))
    return f"{machine.slug}-{machine.host[:DIGITS]}" if is_taken else machine.slug


def _recorded(folder: Path) -> list[Machine]:
    """Return the machines that have begun a run in `folder`: of a preset, a comparison, a calibration."""
    stores = {path.parent for path in folder.glob("*/*.jsonl")}
    return [machine for store in stores for machine in Store(store).machines()]
