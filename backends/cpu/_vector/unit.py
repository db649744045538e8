"""The vector units that kernels are generated for: width, register tile and LLVM features.

This is the only table of processors. Any other processor gets the portable unit: 16-byte vectors, which LLVM maps to
its own.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numba.core import registry

from harness.dtypes import is_complex, parts_dtype
from harness.errors import PlanError
from harness.plan import Blocking


class VectorUnit(NamedTuple):
    """A width of vectors and the register tile that suits its registers.

    Attributes
    ----------
    name : str
        A legal value of the plan's option ``unit``.
    features : tuple of str
        LLVM's names of the processor features it needs.
    size_bytes : int
        Width of a vector.
    chains : tuple of int
        Rows, and vectors side by side, of the loop that measures peaks: so many sums hide the latency of any (+), and
        leave registers for any term.
    mr, nv : int
        Rows, and vectors side by side, of the register tile. mr * nv accumulators, nv vectors of B and the temporaries
        of the operations must fit the registers.
    masked_bytes : tuple of int
        Sizes of elements for which it loads and stores part of a vector; others go through memory element by element.
    orders_nan : bool
        Whether min and max of floats are one instruction in two forms: one drops a NaN, and one returns it.
    """

    name: str
    features: tuple[str, ...]
    size_bytes: int
    chains: tuple[int, int]
    mr: int
    nv: int
    masked_bytes: tuple[int, ...] = ()
    orders_nan: bool = False

    def lanes(self, dtype: np.dtype[np.generic]) -> int:
        """Return the number of elements of `dtype` in a vector."""
        return self.size_bytes // dtype.itemsize

    def rows_of(self, dtype: np.dtype[np.generic]) -> int:
        """Return the rows of the register tile over `dtype`: of complex numbers half as many, of two parts each."""
        return self.mr // 2 if is_complex(dtype) else self.mr

    def masks(self, dtype: np.dtype[np.generic]) -> bool:
        """Return whether part of a vector of `dtype` can be loaded and stored."""
        return parts_dtype(dtype).itemsize in self.masked_bytes


# Widest first. 8 x 3 of 32 registers: 24 accumulators, 3 of B, a broadcast, and spare ones to hide its latency.
UNITS = (
    VectorUnit("avx512", ("avx512f", "avx512bw", "avx512vl", "avx512dq"), 64, (8, 3), 8, 3, (1, 2, 4, 8)),
    VectorUnit("avx2", ("avx2", "fma"), 32, (4, 2), 6, 2, (4, 8)),
    VectorUnit("neon", ("neon",), 16, (8, 3), 8, 3, orders_nan=True),
    VectorUnit("portable", (), 16, (4, 2), 4, 2),
)


# No unit has registers for a larger tile.
LARGEST_MR, LARGEST_NV = 16, 6


def check_tile(backend: str, blocking: Blocking, unit: VectorUnit, width: int) -> None:
    """Raise unless the register block is a tile of whole vectors, each of `width` elements.

    Raises
    ------
    PlanError
        If nr is no multiple of `width`, or the tile is too large for any unit.
    """
    if blocking.nr % width or blocking.mr > LARGEST_MR or blocking.nr > LARGEST_NV * width:
        raise PlanError(
            f"{backend}: no such register tile",
            expected=f"mr <= {LARGEST_MR}, nr a multiple of {width} and at most {LARGEST_NV * width}",
            got=str(blocking),
            fix=f"mr={unit.mr}, nr={unit.nv * width}",
        )


# What every processor of an architecture has, also where the system lists nothing.
_OF_EVERY = {"aarch64": {"neon"}, "arm64": {"neon"}}


@functools.cache
def features() -> frozenset[str]:
    """Return the features of the processor that Numba compiles for, as LLVM spells them.

    By feature, never by processor name; ``NUMBA_CPU_FEATURES`` and ``NUMBA_CPU_NAME`` are respected.
    """
    triple, _, listed = registry.cpu_target.target_context.codegen().magic_tuple()
    named = {name[1:] for name in listed.split(",") if name.startswith("+")}
    return frozenset(named | _OF_EVERY.get(triple.partition("-")[0], set()))


def usable_units() -> tuple[VectorUnit, ...]:
    """Return the units of this processor, the widest first."""
    return tuple(unit for unit in UNITS if features().issuperset(unit.features))


def find_unit(name: str) -> VectorUnit:
    """Return the unit of that name.

    Raises
    ------
    PlanError
        If this processor does not have it.
    """
    usable = {unit.name: unit for unit in usable_units()}
    if name not in usable:
        raise PlanError(
            f"this processor has no vector unit {name!r}", expected=f"unit in {tuple(usable)}", got=f"unit={name!r}"
        )
    return usable[name]
