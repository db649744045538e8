"""The layouts in which a program's ranks may hold matrices, put together from the shapes of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.distributed.grid import Decomposition, Grid, Rectangle
from harness.distributed.redistribute import NOTHING, at_root, columns_of, rows_of
from harness.errors import ProblemError

LAYOUTS = ROWS, COLUMNS, ROOT, BLOCKS = "rows", "columns", "root", "blocks"

# Rows and columns of a rank's parts, by the name of the matrix.
Shapes = dict[str, tuple[int, int]]


class Whole(NamedTuple):
    """Sizes of a product, and which rectangle of A, B, C and D each rank holds.

    Parameters
    ----------
    m, n, k : int
    rectangles : dict
        By ``"a"``, ``"b"``, ``"d"``, and ``"c"`` if there is a C: one for each rank.
    """

    m: int
    n: int
    k: int
    rectangles: dict[str, list[Rectangle]]


def put_together(layout: str, shapes: Sequence[Shapes], grid: Grid | None) -> Whole:
    """Return the product that the parts of all ranks make.

    Parameters
    ----------
    layout : str
        One of `LAYOUTS`.
    shapes : sequence of dict
        Of each rank; in the layout ``"root"`` empty for all but rank 0.
    grid : Grid, optional
        Only the layout ``"blocks"`` needs it.

    Raises
    ------
    ProblemError
        If parts do not fit together.
    """
    if layout == BLOCKS:
        return _of_blocks(shapes, grid)
    matrices = {name: _joined(layout, name, [of_rank.get(name, (0, 0)) for of_rank in shapes]) for name in shapes[0]}
    (m, k), (k_of_b, n) = (_extents(matrices[name]) for name in "ab")
    if k != k_of_b:
        raise ProblemError(
            "the inner sizes of a and b differ",
            expected="as many columns of a as rows of b, over all ranks",
            got=f"a {m}x{k}, b {k_of_b}x{n}",
        )
    if "c" in matrices and _extents(matrices["c"]) != (m, n):
        got = "x".join(map(str, _extents(matrices["c"])))
        raise ProblemError("c does not have the shape of the product", expected=f"{m}x{n} over all ranks", got=got)
    if layout == ROOT:
        matrices["d"] = at_root(m, n, len(shapes))
    elif layout == ROWS:
        matrices["d"] = matrices.get("c") or rows_of([part.shape[0] for part in matrices["a"]], n)
    else:
        matrices["d"] = matrices.get("c") or columns_of(m, [part.shape[1] for part in matrices["b"]])
    return Whole(m, n, k, matrices)


def _joined(layout: str, name: str, shapes: Sequence[tuple[int, int]]) -> list[Rectangle]:
    """Return the rectangles of parts that lie one after the other."""
    if layout == ROOT:
        return at_root(*shapes[0], len(shapes))
    spread = 0 if layout == ROWS else 1
    for rank, shape in enumerate(shapes):
        if shape[1 - spread] != shapes[0][1 - spread]:
            raise ProblemError(
                f"parts of {name} do not fit together in the layout {layout!r}",
                expected=f"{shapes[0][1 - spread]} {'rows' if spread else 'columns'} on all ranks, as on rank 0",
                got=f"{shape[0]}x{shape[1]} on rank {rank}",
            )
    counts = [shape[spread] for shape in shapes]
    return columns_of(shapes[0][0], counts) if spread else rows_of(counts, shapes[0][1])


def _of_blocks(shapes: Sequence[Shapes], grid: Grid | None) -> Whole:
    """Return the product of the pieces that a grid computes with."""
    if grid is None:
        raise ProblemError(
            "the layout 'blocks' needs a grid: pieces are cut by it",
            expected="grid='2x2x1', say",
            got="grid='auto'",
            fix="choose it with harness.distributed.choose_grid, and cut with harness.distributed.pieces",
        )
    pm, pn, pk = grid.pm, grid.pn, grid.pk
    m = sum(shapes[grid.rank(i, 0, 0)]["a"][0] for i in range(pm))
    n = sum(shapes[grid.rank(0, j, 0)]["b"][1] for j in range(pn))
    k = sum(shapes[grid.rank(0, j, layer)]["a"][1] for j in range(pn) for layer in range(pk))
    sizes = Decomposition(m, n, k, grid)
    pieces = {"a": sizes.a, "b": sizes.b, "c": sizes.d, "d": sizes.d}
    idle = [NOTHING] * (len(shapes) - grid.size)
    rectangles = {name: [*map(pieces[name], range(grid.size)), *idle] for name in (*shapes[0], "d")}
    for name in shapes[0]:
        for rank, (of_rank, rectangle) in enumerate(zip(shapes, rectangles[name], strict=True)):
            if of_rank[name] != rectangle.shape:
                raise ProblemError(
                    f"rank {rank} does not hold its piece of {name}, of {m}x{n}x{k} on {grid}",
                    expected=f"{rectangle.shape[0]}x{rectangle.shape[1]}",
                    got=f"{of_rank[name][0]}x{of_rank[name][1]}",
                    fix="cut with harness.distributed.pieces",
                )
    return Whole(m, n, k, rectangles)


def _extents(rectangles: Sequence[Rectangle]) -> tuple[int, int]:
    """Return rows and columns of the whole matrix."""
    return max(part.row_end for part in rectangles), max(part.column_end for part in rectangles)
