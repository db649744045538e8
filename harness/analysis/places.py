"""The least and the most of many, with their places, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import conditions, rates
from harness.store.store import Cell


def ends_in_words(found: Sequence[tuple[float, Cell]], form: str) -> str:
    """Return "12 (10 x 10) to 98": the least with its place, and the most."""
    (least, where), (most, _) = min(found, key=lambda x: x[0]), max(found, key=lambda x: x[0])
    if f"{least:{form}}" == f"{most:{form}}":
        return f"{most:{form}}"
    return f"{least:{form}} ({place(where)}{conditions.weakness(where)}) to {most:{form}}"


def enumerated(parts: Sequence[str]) -> str:
    """Return "cpu-simd 1.2, LAPACK 3.5"; of names with commas of their own "blocks 1.2; blocks, corrected 3.5"."""
    return ("; " if any(", " in part for part in parts) else ", ").join(parts)


def verb(name: str, singular: str = "has", plural: str = "have") -> str:
    """Return the verb for a contender's name: "2 levels have", "blocks have", "cpu-blis has"."""
    noun = name.partition(", ")[0].partition(" of ")[0].split()[-1]
    return plural if noun.endswith("s") and "-" not in noun else singular


def place(cell: Cell) -> str:
    """Return the sizes of the matrix, or where on the axes of its case `cell` stands."""
    if "rows" in cell.axes and "columns" in cell.axes:
        return f"{cell.axes['rows']:,} x {cell.axes['columns']:,}"
    if "block" in cell.axes:
        return f"blocks of {cell.axes['block']}"
    return rates.size(cell)


def where_in_words(cell: Cell, among: Sequence[Cell] = ()) -> str:
    """Return semiring, dtype and size of `cell`, without the two first where all of `among` share them.

    Of operands narrower than the sums the dtype is said: it is the row of a figure.
    """
    shared = [name for name in ("semiring", "dtype") if among and rates.common(among, name)]
    kinds = {"semiring": rates.axis(cell, "semiring"), "dtype": cell.axes.get("operands", rates.axis(cell, "dtype"))}
    is_narrow = kinds["dtype"] != rates.axis(cell, "dtype")
    words = [str(kind) for name, kind in kinds.items() if name not in shared or (name == "dtype" and is_narrow)]
    threads = [rates.plural(cell.threads, "thread")] if among and not rates.common(among, "threads") else []
    return ", ".join([*words, rates.size(cell), *threads])
