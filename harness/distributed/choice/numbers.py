"""Numbers that callers of the public functions give: sizes, ranks, bytes; with a message that names the argument."""

from __future__ import annotations

from harness.errors import PlanError
from harness.scalars import as_count

_ADVICE = {"ranks": "comm.Get_size(), in a program under MPI", "rank": "comm.Get_rank(), in a program under MPI"}


def count_of(caller: str, name: str, value: object, least: int = 1) -> int:
    """Return the argument `name` of `caller` as an int, or raise PlanError unless it is one of `least` or more."""
    count = as_count(value, least=least)
    if count is None:
        raise PlanError(
            f"{caller}: {name} is no such number",
            expected=f"an integer, {least} or more",
            got=repr(value),
            fix=_ADVICE.get(name, ""),
        )
    return count


def sizes_of(caller: str, m: object, n: object, k: object) -> tuple[int, int, int]:
    """Return the sizes of a product as ints, or raise PlanError."""
    return count_of(caller, "m", m, 0), count_of(caller, "n", n, 0), count_of(caller, "k", k, 0)
