"""Products of windows of a few arrays on a device, recorded when they are computed, then repeated by addresses alone.

To cut windows out of arrays of CuPy and to look products up takes the host several times as long as to launch them. An
algorithm whose windows depend on layouts alone is recorded once: for every product what repeats it, and for each of
its operands the array and the byte that it begins at. With other arrays of these layouts each product then costs its
launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness.api.arrays import addresses
from harness.interface import ALIGNMENT, Repeat


class Tape:
    """The products of one algorithm.

    Parameters
    ----------
    arrays : sequence of array
        Of the device. Operands are windows of these.

    Attributes
    ----------
    is_whole : bool
        Whether all products so far can be repeated by addresses.
    operations : int
        Of all of them, two per pair; whoever records them enters it.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._ranges, self._begins = [addresses(x) for x in arrays], [x.data.ptr for x in arrays]
        self._steps: list[tuple[Callable[[list[int]], None], list[tuple[int, int]]]] = []
        # then windows of other such arrays are as much aligned as those recorded
        self.is_whole = all(begin % ALIGNMENT == 0 for begin in self._begins)
        self.operations = 0

    def record(self, repeat: Repeat | None, operands: Iterable[Any]) -> None:
        """Add a product of these operands, the output last; None: nothing repeats it."""
        places = [self._place(x.data.ptr) for x in operands]
        if getattr(repeat, "takes_addresses", False) and None not in places:
            self._steps.append((repeat.at, places))  # type: ignore[arg-type,union-attr]
        else:
            self.is_whole = False

    def repeat(self, arrays: Sequence[Any]) -> None:
        """Compute all products of other arrays of the same layouts, on the current device."""
        begins = [x.data.ptr for x in arrays]
        for repeat_at, places in self._steps:
            repeat_at([begins[number] + offset for number, offset in places])

    def _place(self, address: int) -> tuple[int, int] | None:
        """Return the number of the array that holds an address, and the byte counted from its first element."""
        for number, (first, end) in enumerate(self._ranges):
            if first <= address < end:
                return number, address - self._begins[number]
        return None
