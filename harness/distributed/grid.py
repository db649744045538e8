"""Grids of ranks: who holds which block of A, B and D, and how many words that moves.

    grid      P = pm x pn x pk ranks; rank (i, j, l) computes  A[rows i, part l of k] (x) B[part l of k, columns j]
    gather    pieces of that A along pn, of that B along pm
    reduce    partial D along pk, a piece of rows for each rank

`BLOCKS` spreads the pieces evenly: one copy of each matrix over all ranks. `FACES` leaves whole blocks on a face of the
grid: gathering is a broadcast along a fibre, and reducing ends on a face. Programs that scatter from one rank do that.
Everything here is exact integer arithmetic on sizes; nothing is sent.

Source: Agarwal et al., "A three-dimensional approach to parallel matrix multiplication" (1995).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from harness.errors import PlanError
from harness.scalars import as_count

Cuts = tuple[int, ...]  # where a range is cut: the first is 0, the last its length


@functools.lru_cache(maxsize=256)  # a model of thousands of ranks asks for the same cuts of each of them
def even(length: int, parts: int) -> Cuts:
    """Cut `length` into `parts` ranges that differ by one at most, the longer ones first."""
    size, longer = divmod(length, parts)
    return tuple(part * size + min(part, longer) for part in range(parts + 1))


def first(length: int, parts: int) -> Cuts:
    """Cut `length` so that the first of `parts` ranges has all of it."""
    return (0, *(length for _ in range(parts)))


class Rectangle(NamedTuple):
    """Rows and columns of a matrix that a rank holds, the ends excluded."""

    row: int
    row_end: int
    column: int
    column_end: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.row_end - self.row, self.column_end - self.column

    @property
    def words(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, slice]:
        """The index of this part in the whole matrix."""
        return slice(self.row, self.row_end), slice(self.column, self.column_end)

    def common(self, other: Rectangle) -> Rectangle:
        """Return what both hold; without a common element its shape has a zero."""
        row, column = max(self.row, other.row), max(self.column, other.column)
        return Rectangle(
            row, max(row, min(self.row_end, other.row_end)), column, max(column, min(self.column_end, other.column_end))
        )

    def within(self, other: Rectangle) -> tuple[slice, slice]:
        """Return the index of this rectangle in an array that holds `other`."""
        rows = slice(self.row - other.row, self.row_end - other.row)
        return rows, slice(self.column - other.column, self.column_end - other.column)


@dataclass(frozen=True)
class Grid:
    """Ranks in three dimensions, of m, of n and of k.

    Ranks are numbered with j fastest, then i, then l: those that share rows of A are neighbours.
    """

    pm: int
    pn: int
    pk: int

    def __post_init__(self) -> None:
        for name, side in vars(self).items():
            count = as_count(side)
            if count is None:
                raise PlanError("a grid has no side of that size", expected="integers, 1 or more", got=str(self))
            object.__setattr__(self, name, count)

    @classmethod
    def of(cls, grid: str | Grid) -> Grid:
        """Return a grid that may be written as for `parse`."""
        return grid if isinstance(grid, cls) else cls.parse(grid)  # type: ignore[arg-type] # mypy does not see it: a str

    @classmethod
    def parse(cls, text: str) -> Grid:
        """Return the grid that is written ``"2x2x1"``: pm x pn x pk.

        Raises
        ------
        PlanError
            If it is not written so.
        """
        sides = str(text).split("x")
        if len(sides) != 3 or not all(side.isdecimal() for side in sides):
            raise PlanError("the grid is not understood", expected="pm x pn x pk, as 2x2x1", got=repr(text))
        return cls(*map(int, sides))

    def __str__(self) -> str:
        return f"{self.pm}x{self.pn}x{self.pk}"

    @property
    def size(self) -> int:
        """How many ranks it has."""
        return self.pm * self.pn * self.pk

    def position(self, rank: int) -> tuple[int, int, int]:
        """Return (i, j, l) of a rank."""
        rest, j = divmod(rank, self.pn)
        layer, i = divmod(rest, self.pm)
        return i, j, layer

    def rank(self, i: int, j: int, layer: int) -> int:
        """Return the rank at (i, j, l)."""
        return (layer * self.pm + i) * self.pn + j

    def fibre(self, rank: int, name: str) -> list[int]:
        """Return the ranks that use a block of A ``"a"``, of B ``"b"``, or partial sums of D ``"d"`` with `rank`."""
        i, j, layer = self.position(rank)
        if name == "a":
            return [self.rank(i, other, layer) for other in range(self.pn)]
        if name == "b":
            return [self.rank(other, j, layer) for other in range(self.pm)]
        return [self.rank(i, j, other) for other in range(self.pk)]


class Layout(NamedTuple):
    """How the ranks of a fibre share the block that they use together."""

    name: str
    cut: Callable[[int, int], Cuts]


BLOCKS, FACES = Layout("blocks", even), Layout("faces", first)


@dataclass(frozen=True)
class Decomposition:
    """A product of sizes m, n, k on a grid: the blocks that are computed with, and the pieces that are held.

    Parameters
    ----------
    m, n, k : int
    grid : Grid
    layout : Layout
    hosts : tuple of int
        On which host each rank runs; those of one host share memory. Empty: none do.
    """

    m: int
    n: int
    k: int
    grid: Grid
    layout: Layout = BLOCKS
    hosts: tuple[int, ...] = ()

    def k_range(self, rank: int) -> tuple[int, int]:
        """Return the part of k that a rank computes with."""
        layer = self.grid.position(rank)[2]
        cuts = even(self.k, self.grid.pk)
        return cuts[layer], cuts[layer + 1]

    def rows(self, rank: int) -> tuple[int, int]:
        """Return the rows of A and D that a rank computes with."""
        return _part(even(self.m, self.grid.pm), self.grid.position(rank)[0])

    def columns(self, rank: int) -> tuple[int, int]:
        """Return the columns of B and D that a rank computes with."""
        return _part(even(self.n, self.grid.pn), self.grid.position(rank)[1])

    def a_cuts(self, rank: int) -> Cuts:
        """Return where the rank's part of k is cut among the ranks of its row, each of which holds a piece of A."""
        return self.layout.cut(_length(self.k_range(rank)), self.grid.pn)

    def b_cuts(self, rank: int) -> Cuts:
        """Return where the rank's part of k is cut among the ranks of its column, each of which holds a piece of B."""
        return self.layout.cut(_length(self.k_range(rank)), self.grid.pm)

    def d_cuts(self, rank: int) -> Cuts:
        """Return where the rank's rows of D are cut among the ranks along k, each of which ends with a piece."""
        return self.layout.cut(_length(self.rows(rank)), self.grid.pk)

    def a(self, rank: int) -> Rectangle:
        """Return the piece of A that a rank holds."""
        k, (begin, end) = self.k_range(rank)[0], _part(self.a_cuts(rank), self.grid.position(rank)[1])
        return Rectangle(*self.rows(rank), k + begin, k + end)

    def b(self, rank: int) -> Rectangle:
        """Return the piece of B that a rank holds."""
        k, (begin, end) = self.k_range(rank)[0], _part(self.b_cuts(rank), self.grid.position(rank)[0])
        return Rectangle(k + begin, k + end, *self.columns(rank))

    def d(self, rank: int) -> Rectangle:
        """Return the piece of C and D that a rank holds."""
        row, (begin, end) = self.rows(rank)[0], _part(self.d_cuts(rank), self.grid.position(rank)[2])
        return Rectangle(row + begin, row + end, *self.columns(rank))

    def shared(self, rank: int) -> frozenset[str]:
        """Return of which of ``"a"``, ``"b"`` and ``"d"`` the rank shares memory with all others of its fibre."""
        if not self.hosts:
            return frozenset()
        fibres = {name: self.grid.fibre(rank, name) for name in "abd"}
        return frozenset(
            name for name, ranks in fibres.items() if len(ranks) > 1 and len({self.hosts[r] for r in ranks}) == 1
        )

    def words(self, rank: int) -> dict[str, int]:
        """Return how many words a rank receives: of A, of B, and of partial D."""
        a = _length(self.rows(rank)) * _length(self.k_range(rank)) - self.a(rank).words
        b = _length(self.columns(rank)) * _length(self.k_range(rank)) - self.b(rank).words
        return {"a": a, "b": b, "d": (self.grid.pk - 1) * self.d(rank).words}

    def panels(self, rank: int, panel: int = 0, *, at_pieces: bool = False) -> list[tuple[int, int]]:
        """Return begin and end of each panel of the rank's part of k, counted from its begin: one at least.

        Where nothing is gathered there is one panel: more would only read and write D more often.

        Parameters
        ----------
        rank : int
        panel : int
            Elements of k gathered at a time; 0: all.
        at_pieces : bool
            Whether a panel also ends where a piece of A or B ends, so that each side of it has one owner, as on GPUs.
        """
        k = _length(self.k_range(rank))
        is_gathered = self.grid.pm * self.grid.pn > 1
        step = min(panel if is_gathered else 0, k) or max(k, 1)
        ends = {0, k, *(self.a_cuts(rank) + self.b_cuts(rank) if at_pieces else ())}
        pieces = itertools.pairwise(sorted(ends))
        return [(at, min(at + step, end)) for begin, end in pieces for at in range(begin, end, step)] or [(0, 0)]

    def input_words(self, rank: int, panel: int = 0, in_flight: int = 1, *, at_pieces: bool = False) -> int:
        """Return how many words of A and B a rank has room for: its pieces, and the panels that it gathers.

        Parameters
        ----------
        rank, panel, at_pieces
            As in `panels`.
        in_flight : int
            Panels that are in memory at once.
        """
        panels, shared = self.panels(rank, panel, at_pieces=at_pieces), self.shared(rank)
        # along a side of one, and in shared memory, all is here already
        gathered_rows = _length(self.rows(rank)) if self.grid.pn > 1 and "a" not in shared else 0
        gathered_columns = _length(self.columns(rank)) if self.grid.pm > 1 and "b" not in shared else 0
        buffers = min(in_flight, len(panels)) * max(map(_length, panels))
        return self.a(rank).words + self.b(rank).words + (gathered_rows + gathered_columns) * buffers

    def sum_words(
        self, rank: int, panel: int = 0, *, accumulate: bool = False, in_place: bool = False, at_pieces: bool = False
    ) -> int:
        """Return how many words of C, D and partial D a rank has room for.

        Parameters
        ----------
        rank, panel, at_pieces
            As in `panels`.
        accumulate : bool
            Whether there is a C. Where k is cut it is scaled apart.
        in_place : bool
            Whether panels accumulate in one array, and not from one into another.
        """
        is_cut, piece = self.grid.pk > 1, self.d(rank).words
        arriving = 0 if "d" in self.shared(rank) else self.grid.pk - 1
        partial = _length(self.rows(rank)) * _length(self.columns(rank))
        with_c = accumulate * (1 + is_cut)
        has_spare = len(self.panels(rank, panel, at_pieces=at_pieces)) > 1 and not in_place
        return piece * (1 + arriving + with_c) + partial * (has_spare + is_cut)

    def most(self, count: Callable[[int], int]) -> int:
        """Return the largest of `count` over the ranks of the grid."""
        return max(count(rank) for rank in range(self.grid.size))


def _part(cuts: Cuts, index: int) -> tuple[int, int]:
    return cuts[index], cuts[index + 1]


def _length(ends: tuple[int, int]) -> int:
    return ends[1] - ends[0]
