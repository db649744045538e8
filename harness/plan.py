"""The plan of a product: block sizes and options. Invariants only; numbers come from `harness.tuning`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import PlanError
from harness.problem import Problem
from harness.scalars import as_count


@dataclass(frozen=True)
class Blocking:
    """Block sizes of the loops around a CPU kernel, in elements.

    Parameters
    ----------
    mc, nc, kc : int
        Cache blocks of m, n and k (loops 3, 5 and 4 of Goto's algorithm).
    mr, nr : int
        Register block; mc must be a multiple of mr, and nc of nr.

    Raises
    ------
    PlanError
        If a size is not a positive integer, or a cache block is no multiple of its register block.
    """

    mc: int
    nc: int
    kc: int
    mr: int = 1
    nr: int = 1

    def __post_init__(self) -> None:
        _check_sizes(self, "block")
        for block, register in (("mc", "mr"), ("nc", "nr")):
            size, step = getattr(self, block), getattr(self, register)
            if size % step:
                down, up = size // step * step, -(-size // step) * step
                raise PlanError(
                    f"{block} is not a multiple of {register}",
                    expected=f"{block} % {register} == 0",
                    got=str(self),
                    fix=f"{block}={down} or {block}={up}" if down else f"{block}={up}",
                )

    def resized(self, **sizes: int) -> Blocking:
        """Return the same with other `sizes` that fit: nothing is checked, which takes ten times as long."""
        changed = object.__new__(Blocking)
        vars(changed).update(vars(self), **sizes)
        return changed


@dataclass(frozen=True)
class Launch:
    """Tiles of a GPU kernel, in elements. A tile is made of whole ones of the next smaller kind.

    Parameters
    ----------
    bm, bn, bk : int
        Tile of a block of threads: bm x bn of C, from bk steps of k at a time.
    wm, wn : int
        Tile of a warp of 32 threads; 0: threads are not grouped by warp.
    tm, tn : int
        Tile of a thread, in registers.
    stages : int
        Tiles along k that are loaded at once; 1: load, then compute.

    Raises
    ------
    PlanError
        If a size is no positive integer, a tile is not made of whole smaller ones, a warp has not 32 threads, or a
        block has more than 1024.
    """

    bm: int
    bn: int
    bk: int = 1
    wm: int = 0
    wn: int = 0
    tm: int = 1
    tn: int = 1
    stages: int = 1

    def __post_init__(self) -> None:
        _check_sizes(self, "tile", may_be_zero=("wm", "wn"))
        wm, wn = self.wm or self.tm, self.wn or self.tn
        parts = (
            ("bm", self.bm, "wm", wm),
            ("bn", self.bn, "wn", wn),
            ("wm", wm, "tm", self.tm),
            ("wn", wn, "tn", self.tn),
        )
        for outer, whole, inner, part in parts:
            if whole % part:
                raise PlanError(
                    f"{outer} is not a multiple of {inner}", expected=f"{outer} % {inner} == 0", got=str(self)
                )
        if (self.wm > 0) != (self.wn > 0) or (self.wm and (wm // self.tm) * (wn // self.tn) != WARP):
            raise PlanError(
                f"a warp has not {WARP} threads", expected=f"(wm / tm) * (wn / tn) == {WARP}", got=str(self)
            )
        if self.threads > LARGEST_BLOCK:
            raise PlanError(
                f"a block has {self.threads} threads",
                expected=f"(bm / tm) * (bn / tn) <= {LARGEST_BLOCK}",
                got=str(self),
            )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.bm // self.tm) * (self.bn // self.tn)


def _check_sizes(sizes: Blocking | Launch, noun: str, may_be_zero: tuple[str, ...] = ()) -> None:
    """Raise PlanError unless every field is an integer of at least 1, or of at least 0 where that is legal."""
    for name, size in vars(sizes).items():
        least = 0 if name in may_be_zero else 1
        count = as_count(size, least=least)
        if count is None:
            raise PlanError(
                f"{name} is not a {noun} size", expected=f"an integer {name} >= {least}", got=f"{name}={size!r}"
            )
        object.__setattr__(sizes, name, count)


# Of every CUDA device; CUDA C++ Programming Guide, "Compute Capabilities".
WARP, LARGEST_BLOCK = 32, 1024


@dataclass(frozen=True)
class Plan:
    """The decisions of a backend for a Problem.

    Parameters
    ----------
    problem : Problem
    threads : int
        How many threads the kernel may use.
    blocking : Blocking, optional
        None: the backend has no blocks.
    options : mapping
        Everything else that may be varied, by name: ``{"reuse": 2, "parallel_loop": "ic"}``.
    launch : Launch, optional
        Tiles of a GPU kernel. None: the backend has none.
    """

    problem: Problem
    threads: int = 1
    blocking: Blocking | None = None
    options: Mapping[str, int | str] = field(default_factory=dict)
    launch: Launch | None = None

    def override(self, parameters: Mapping[str, int | str]) -> Plan:
        """Return this plan with block sizes and options replaced by name.

        Raises
        ------
        PlanError
            If a name is neither a size of a block or tile nor an option of this plan, or a value breaks an invariant.
        """
        parts = {name: part for name in ("blocking", "launch") if (part := getattr(self, name)) is not None}
        fields = {name: dataclasses.asdict(part) for name, part in parts.items()}
        blocks = [size for sizes in fields.values() for size in sizes]
        unknown = [name for name in parameters if name not in blocks and name not in self.options]
        if unknown:
            raise PlanError(
                f"unknown parameter {unknown[0]!r}",
                expected=", ".join([*blocks, *self.options]) or "no parameter: this backend has none",
                got=", ".join(f"{name}={value}" for name, value in parameters.items()),
            )
        changed: dict[str, Any] = {
            name: dataclasses.replace(part, **{size: x for size, x in parameters.items() if size in fields[name]})
            for name, part in parts.items()
        }
        options = {name: parameters.get(name, value) for name, value in self.options.items()}
        return dataclasses.replace(self, **changed, options=options)

    def choice(self, option: str, legal: tuple[int | str, ...]) -> int | str:
        """Return the value of `option`.

        Raises
        ------
        PlanError
            If it is not one of `legal`.
        """
        value = self.options[option]
        if value not in legal:
            raise PlanError(f"{option} has no such value", expected=f"{option} in {legal}", got=f"{option}={value!r}")
        return value

    def to_json(self) -> dict[str, Any]:
        """Return threads, block sizes and options as one JSON object, for the record."""
        parts = (dataclasses.asdict(part) for part in (self.blocking, self.launch) if part is not None)
        return {"threads": self.threads, **{name: x for sizes in parts for name, x in sizes.items()}, **self.options}


def count_tiles(m: int, n: int, bm: int, bn: int, *, triangle: bool = False) -> int:
    """Return how many tiles of `bm` x `bn` cover an `m` x `n` matrix; of a triangle, those that reach its diagonal."""
    if not triangle:
        return -(-m // bm) * -(-n // bn)
    return sum(-(-min(last, m) // bn) for last in range(bm, m + bm, bm))
