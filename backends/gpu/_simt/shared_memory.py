"""The check that the tiles of a block fit into shared memory."""

from __future__ import annotations

from backends.gpu._cuda import device
from harness.errors import PlanError
from harness.plan import Launch


def fitting(needed: int, launch: Launch) -> int:
    """Return `needed`, the bytes that a block takes with these tiles.

    Raises
    ------
    PlanError
        If a block may not have so many here.
    """
    limit = device.shared_limit()
    if needed > limit:
        raise PlanError(
            "gpu-tensor-core: the tiles do not fit into shared memory",
            expected=f"{limit} bytes",
            got=f"{needed} bytes for {launch}",
            fix="smaller tiles, or fewer stages",
        )
    return needed
