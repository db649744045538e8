"""The communicators of a grid: all ranks, and the three fibres that a rank is part of. Made once for each grid."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.distributed.grid import Grid
from harness.distributed.stages import Stages
from harness.distributed.transport.mpi import Fibre


class Fibres(NamedTuple):
    """The ranks that a rank gathers A from, gathers B from, and reduces D with."""

    row: Fibre
    column: Fibre
    layer: Fibre


class Comms(NamedTuple):
    """Communicators that nobody else uses, so that no message meets one of the program's.

    Parameters
    ----------
    world : mpi4py.MPI.Comm
        All ranks, in their order.
    fibres : tuple of mpi4py.MPI.Comm
        Along n, along m, along k; empty on a rank that is idle.
    """

    world: Any
    fibres: tuple[Any, ...]

    @classmethod
    def split(cls, comm: Any, grid: Grid) -> Comms:
        """Split `comm`, whose first ranks are the grid; all its ranks must call it."""
        from mpi4py import MPI

        rank = comm.Get_rank()
        is_idle = rank >= grid.size
        i, j, layer = grid.position(0 if is_idle else rank)
        directions = ((layer * grid.pm + i, j), (layer * grid.pn + j, i), (i * grid.pn + j, layer))
        made = [comm.Split(MPI.UNDEFINED if is_idle else color, key) for color, key in directions]
        return cls(comm.Dup(), () if is_idle else tuple(made))

    @classmethod
    def cached(cls, comm: Any, grid: Grid) -> Comms:
        """Return those of an earlier call with `comm` and `grid`: MPI keeps them with `comm` itself."""
        kept = comm.Get_attr(_keyval())
        if kept is None:
            kept = {}
            comm.Set_attr(_keyval(), kept)
        if grid not in kept:
            kept[grid] = cls.split(comm, grid)
        return kept[grid]  # type: ignore[no-any-return]

    def everyone(self, stages: Stages, largest_message: int) -> Fibre:
        """Return all ranks, to redistribute among them."""
        return Fibre(self.world, "redistribute", stages, largest_message)

    def along(self, stages: Stages, largest_message: int) -> Fibres:
        """Return the three fibres of a rank that is not idle."""
        names = "gather A", "gather B", "reduce"
        made = (Fibre(comm, name, stages, largest_message) for comm, name in zip(self.fibres, names, strict=True))
        return Fibres(*made)

    def free(self) -> None:
        """Free them; all ranks must call it."""
        for comm in (*self.fibres, self.world):
            comm.Free()


_kept_keyval: list[int] = []


def _free_all(comm: Any, keyval: int, kept: dict[Grid, Comms]) -> None:
    """Free what was kept with a communicator; MPI calls it on all ranks when that is freed."""
    for comms in kept.values():
        comms.free()


def _keyval() -> int:
    """Return the key under which communicators are kept with a communicator."""
    from mpi4py import MPI

    if not _kept_keyval:
        _kept_keyval.append(MPI.Comm.Create_keyval(delete_fn=_free_all))
    return _kept_keyval[0]
