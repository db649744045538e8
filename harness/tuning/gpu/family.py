"""Families of kernels: what each would launch for a product, and how long that takes; the plan is what takes least."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from harness.plan import Launch
from harness.problem import Problem
from harness.tuning.device import Device

# Rows of tiles by wgmma that are computed as they are: one or two instructions.
WGMMA_ROWS = (64, 128)

# Most shares, and bytes between rows of B, for which tiles begin at different steps of k
# (docs/lab/2026-11-24-stagger.md).
SHARES, LINES = 2, 1024


class Tile(NamedTuple):
    """A tile and its measured rate.

    Attributes
    ----------
    launch : Launch
    rate : float
        Pairs that a GPU full of such tiles combines in a second.
    warps : float
        Warps of a multiprocessor that reach this rate. Blocks share k until there are so many, if that pays.
    blocks : int
        Blocks that fit on a multiprocessor at once.
    slices : int
        Warps that take turns along k for the same part of the tile.
    """

    launch: Launch
    rate: float
    warps: float
    blocks: int
    slices: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.launch.threads * self.slices

    @property
    def is_transposed(self) -> bool:
        """Whether C is computed transposed: by wgmma, where rows of a tile are none of its instruction."""
        return not self.launch.wm and self.launch.bm not in WGMMA_ROWS


class Choice(NamedTuple):
    """A tile, the number of shares of k, and the blocks of a cluster that each of these is divided among.

    Tiles begin at `stagger` steps of k (``stagger.cuh``). The blocks of a `cluster` share what they fetch instead.
    """

    tile: Tile
    shares: int
    together: int = 1
    stagger: int = 1
    cluster: int = 1


class Family(Protocol):
    """Launches of one kind of kernel."""

    def fastest(self, problem: Problem, device: Device, most_s: float) -> tuple[float, Choice] | None:
        """Return the least time of a product on a GPU [s], and the launch that takes it; None: all take longer."""
        ...


def fastest(families: Mapping[str, Family], problem: Problem, device: Device) -> tuple[str, Choice]:
    """Return the launch of least time, and the name of its family; of equal ones the first."""
    least_s, found = math.inf, None
    for name, family in families.items():
        timed = family.fastest(problem, device, least_s)
        if timed and (found is None or timed[0] < least_s):
            least_s, found = timed[0], (name, timed[1])
    assert found is not None
    return found


class Costs(NamedTuple):
    """What the products of a kind of kernel take beside their pairs.

    Attributes
    ----------
    launch_s, wave_s : float
        Time of a launch [s], and what each wave of blocks takes longer.
    read, write : float
        Bytes of A and B, and of C, that memory moves in a second.
    near : float
        Bytes of A and B in a second where all operands fit into L2 (`IN_L2`); 0: as from memory.
    fetch : float
        Bytes of tiles of A and B that multiprocessors fetch in a second, most of them from L2.
    crossing : float
        How much longer fetches take of tiles whose rows do not begin at lines of memory.
    asked_s : float
        Time of one request for a sector that all blocks ask for at once [s].
    ends : float
        Steps of k that a block could do in the time of its first loads and of its stores.
    ragged_a, ragged_b, ragged_c : float
        How much longer pairs take where rows of A, or of B, are not aligned, and stores of C where its rows are not.
    fold_s, fold_byte_s : float
        Time to add up sums of shares [s], and that for each byte of them.
    together_s, cluster_s : float
        Time in which the blocks of a cluster that share k add up their sums; what clusters take longer that share what
        they fetch.
    copy_s, copy_byte_s : float
        Time of copies of operands whose rows are not aligned, where the kernel needs them, and that for each byte.
    norm : float
        Pairs, memory and fetches overlap: the time of all is the norm of this order of the time of each.
    speed : str
        The rate of a `Device` by which the rates of tiles are scaled for chips that were not measured.
    """

    launch_s: float = 1.8e-6
    wave_s: float = 0.6e-6
    read: float = 4.1e12
    write: float = 2.9e12
    near: float = 0
    fetch: float = math.inf
    crossing: float = 1
    asked_s: float = 0
    ends: float = 6
    ragged_a: float = 1
    ragged_b: float = 1
    ragged_c: float = 1.5
    fold_s: float = 2.6e-6
    fold_byte_s: float = 0.4e-12
    together_s: float = 0
    cluster_s: float = 0
    copy_s: float = 0
    copy_byte_s: float = 0
    norm: float = 2.5
    speed: str = "single"


class Stagger(NamedTuple):
    """At how many steps of k tiles begin that all read the same rows of one operand, with little else to wait for.

    Those are the tiles of a C that is one tile high, or wide, with at most `SHARES` shares of k.

    Attributes
    ----------
    flat : int
        Of a C that is one tile high. If rows of B are a multiple of `LINES` bytes apart, all begin at the same step.
    tall : int
        Of a C that is one tile wide.
    columns : int
        Most columns of such a C.
    """

    flat: int = 1
    tall: int = 1
    columns: int = 1 << 31

    def of(self, problem: Problem, choice: Choice) -> int:
        """Return the number for a choice."""
        launch = choice.tile.launch
        tiles_m, tiles_n = -(-problem.m // launch.bm), -(-problem.n // launch.bn)
        if min(tiles_m, tiles_n) > 1 or choice.shares * choice.together > SHARES:
            return 1
        if tiles_n >= tiles_m:
            return 1 if problem.n * problem.input_dtype.itemsize % LINES == 0 else self.flat
        return self.tall if problem.n <= self.columns else 1


NO_STAGGER = Stagger()
