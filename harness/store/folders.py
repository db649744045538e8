"""Find the folder of a machine's results, also one that was named before family and model were part of its name."""

from __future__ import annotations

from pathlib import Path

from harness.machine import Machine
from harness.store.store import Store, presets


def slug_of(results_root: Path | str, machine: Machine) -> str:
    """Return the name of the folder of `machine` below `results_root`, which need not exist.

    It is the shorter name, without the processor's family and model, where a folder of that name holds results of this
    very hardware. A machine that only shares its processor's name gets a folder of its own.
    """
    root, old = Path(results_root), machine.short_slug
    recorded = [Store(root / old / preset).machine() for preset in presets(root, old)]
    if recorded and all(machine.has_hardware_of(other) for other in recorded):
        return old
    return machine.slug
