"""Tiles that `tune --gpu` found for an architecture, the products they are for, and plans with them."""

from __future__ import annotations

from collections.abc import Callable

from harness.errors import PlanError
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning import stored as tuning_stored
from harness.tuning.device import Device
from harness.tuning.gpu.sharing import sharing

# Elements of C from which on there are tiles enough for any GPU: 1536 x 1536. Tiles found for one such product suit
# another. Smaller products keep the table's tiles, chosen by their number of blocks.
LARGE = 1536 * 1536


def kind(problem: Problem) -> str:
    """Return the kind of large product that shares its tiles with `problem`: ``"32-bit fused"``, ``"64-bit int"``.

    A fused pair is one instruction: (plus, times) over floats, and sums of exponentials, computed as such products.
    """
    name, is_float = problem.semiring.name, problem.dtype.kind == "f"
    pair_kind = "fused" if is_float and name in ("plus_times", "logaddexp_plus") else "float" if is_float else "int"
    return f"{8 * problem.dtype.itemsize}-bit {pair_kind}"


def with_stored(plan: Plan, arch_of: Callable[[], str], device: Device) -> Plan:
    """Return `plan` with the numbers stored for its kind and architecture; unchanged if there are none, or it is empty.

    Which tiles are left over, and how many blocks share them, follows from these. Numbers that make no legal plan
    together are ignored, as a damaged file is.
    """
    problem = plan.problem
    if problem.m * problem.n < LARGE or plan.options.get("panels") or not (arch := arch_of()):  # those are no tiles
        return plan
    changed = tuning_stored.values(tuning_stored.Chip(arch)).get(kind(problem))
    if not changed:
        return plan
    try:
        tiled = plan.override(changed)
        launch, blocks = tiled.launch, tiled.options["blocks"]
        assert launch is not None
        assert isinstance(blocks, int)
        return tiled.override(sharing(problem, launch, blocks, device))
    except PlanError:
        return plan
