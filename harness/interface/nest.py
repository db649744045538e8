"""The loops around a kernel as data: from them follows how often each element is loaded, from which memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Loop(NamedTuple):
    """One loop: it goes `over` one size by `step`.

    Attributes
    ----------
    over : str
        Its index: ``"i"``, ``"j"`` or ``"p"``, over m, n and k.
    step : int
        Elements that one iteration works on; of the last block what is left.
    into : str
        The memory that a program fills itself, and which holds what one iteration reads: ``"registers"``, ``"shared"``.
        Empty: no such memory. What a cache holds follows from its size.
    """

    over: str
    step: int
    into: str = ""


@dataclass(frozen=True)
class Nest:
    """The loops of a product, outermost first; below the last one lies a single pair of each remaining i, j and p.

    On a GPU the tiles of blocks, warps and threads are loops too. The innermost one says ``into="registers"``: one
    iteration is what a core, or a warp, loads before it computes.

    Parameters
    ----------
    loops : tuple of Loop
    order_a, order_b : str
        The two indices of an operand as the kernel reads it, the contiguous one last: ``"jp"`` for a transposed B.
    keeps_sums : bool
        Whether the sums of C stay in registers over all of k, so that C is written once, whatever the loops.
    scattered : str
        Operands of which each element that a warp loads lies in a line of its own: ``"a"``. None: empty.
    """

    loops: tuple[Loop, ...]
    order_a: str = "ip"
    order_b: str = "pj"
    keeps_sums: bool = False
    scattered: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object, for the record."""
        orders = {"a": self.order_a, "b": self.order_b}
        loops = [list(loop) for loop in self.loops]
        return {"loops": loops, "orders": orders, "keeps_sums": self.keeps_sums, "scattered": self.scattered}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Nest:
        """Return the nest that `to_json` described."""
        orders, loops = record["orders"], tuple(Loop(*loop) for loop in record["loops"])
        return cls(loops, orders["a"], orders["b"], record["keeps_sums"], record.get("scattered", ""))

    @classmethod
    def of(cls, *loops: Sequence[Any], order_b: str = "pj", keeps_sums: bool = False) -> Nest:
        """Return the nest of ``(over, step)`` or ``(over, step, into)``, outermost first."""
        return cls(tuple(Loop(*loop) for loop in loops), order_b=order_b, keeps_sums=keeps_sums)
