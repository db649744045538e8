"""The kernels that further sizes of a class of products need, since their rows begin elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from backends.gpu._cuda.kernel_files import Defines, Job
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.operators import TYPES
from backends.gpu._program.program import Matrix, Place
from backends.gpu._simt.copies import width_of_copies
from harness.dtypes import TABLE
from harness.plan import Launch

_ITEMSIZES = {type_in_c: TABLE[name].itemsize for name, type_in_c in TYPES.items()}
_SIDES = {"WIDTH_B": "BN", "WIDTH_A": "BM"}
# Whether rows of C are aligned, and those of A and B: all; only operands', as of parts of aligned arrays; none.
_ALIGNED = ((True, True), (False, True), (False, False))
_PANELS, _UNITS = ("row_panels", "warp_panels"), (4, 2, 1)  # elements of a row of A that one load of a panel takes


def of_other_rows(jobs: Iterable[Job]) -> list[Job]:
    """Return the kernels that differ from those of `jobs` only in which rows are aligned; the likeliest first.

    Parameters
    ----------
    jobs : iterable of (stem, defines, suffix)
        As in `compile_together`. Only the kernels of tuned.cu and of panels are looked at.
    """
    known = list(jobs)
    tuned, panels = ([job for job in known if job[0] in stems] for stems in (("tuned",), _PANELS))
    others = [(stem, _aligned(defines, *which), suffix) for which in _ALIGNED for stem, defines, suffix in tuned]
    others += [(stem, _of_unit(defines, unit), suffix) for unit in _UNITS for stem, defines, suffix in panels]
    return [job for job in dict.fromkeys(others) if job not in known]


def _of_unit(defines: Defines, unit: int) -> Defines:
    """Return the macros of panels whose loads take `unit` elements, or as many as a copy."""
    macros = dict(defines)
    macros["UNIT"] = str(min(unit, WIDE // _ITEMSIZES[macros["T"]]))
    return tuple(macros.items())


def _aligned(defines: Defines, c_is: bool, operands_are: bool) -> Defines:
    """Return the macros of tuned.cu for rows that are aligned, or not."""
    macros = dict(defines)
    macros["C_VECTORS"] = str(int(c_is))
    if macros["EDGE"] == "1" and "RESULT" not in macros:  # else A and B are copies, whose rows are aligned
        for name in _SIDES.keys() & macros.keys():
            macros[name] = str(_widest(macros, _SIDES[name]) if operands_are else 1)
    return tuple(macros.items())


def _widest(macros: dict[str, str], side: str) -> int:
    """Return the elements that a copy moves of aligned rows, along that side of a tile."""
    launch = Launch(**{name: int(macros[name.upper()]) for name in "bm bn bk wm wn tm tn stages".split()})
    aligned = Matrix(Place(""), int(macros[side]))
    return width_of_copies(aligned, int(macros[side]), launch, _ITEMSIZES[macros["T"]])
