"""The passes before residues: norms of rows of A and columns of B, and grades that balance A and B along k."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.program import Kernel, Matrix, Place, Program, ceil_div

_NORM_THREADS, _NORM_VECTORS = 512, 16  # norms.cu
_TRIAL_GROUPS, _TRIAL_PART = 4, 256  # trial.cuh
_TRIAL_BYTES, _TRIAL_SUMS = (32 + 4) * (_TRIAL_PART + 1) * 8, 8
_THREADS, _DOWN, _WARPS = 256, 64, 8  # grades.cu
_BLOCKS = 8  # of a multiprocessor
_BYTE, _INT, _UINT, _DOUBLE = (np.dtype(x) for x in (np.uint8, np.int32, np.uint32, np.float64))
_EXTENT = np.dtype(np.uint64)  # of look.cuh
_LOOK_WORDS = 4
_NOWHERE = np.uint64(0)


class Found(NamedTuple):
    """Places of what the passes find of each vector of an operand, and of its residues.

    Attributes
    ----------
    norms, means, large : Place
    extents : Place or null pointer
        Of products that are certified (look.cuh).
    residues : Place
    """

    norms: Place
    means: Place
    large: Place
    extents: Place | np.uint64
    residues: Place

    @classmethod
    def reserve(cls, program: Program, name: str, vectors: int, residue_bytes: int, *, is_certified: bool) -> Found:
        """Reserve them for the operand called `name`."""
        return cls(
            program.reserve(f"norms_{name}", vectors, _DOUBLE),
            program.reserve(f"means_{name}", vectors, _DOUBLE),
            program.reserve(f"large_{name}", vectors, _UINT, is_zeroed=True),
            program.reserve(f"extents_{name}", vectors, _EXTENT) if is_certified else _NOWHERE,
            program.reserve(f"residues_{name}", residue_bytes, _BYTE),
        )


class Operand(NamedTuple):
    """A or B as the passes see it: vectors of k elements, rows of A or columns of B.

    Attributes
    ----------
    matrix : Matrix
    vectors : int
    is_along : bool
        Whether the elements of a vector are neighbours; else the vectors are.
    found : Found
    layer : int
        Vectors of a layer of residues.
    """

    matrix: Matrix
    vectors: int
    is_along: bool
    found: Found
    layer: int

    @property
    def layout(self) -> tuple[Place, int, int, int]:
        """Arguments of a pass: place, leading dimension, whether vectors lie along it, and how many there are."""
        return self.matrix.place, self.matrix.ld, int(self.is_along), self.vectors


class Grades(NamedTuple):
    """Places of the grades of each p of k, of the peaks that they come from, and of a look that nobody reads."""

    of_k: Place | np.uint64
    peaks_a: Place
    peaks_b: Place
    look: Place

    @classmethod
    def reserve(cls, program: Program, k: int) -> Grades:
        """Reserve them."""
        return cls(
            program.reserve("grades", k, _INT),
            program.reserve("peaks_a", k, _INT, is_zeroed=True),
            program.reserve("peaks_b", k, _INT, is_zeroed=True),
            program.reserve("first_look", _LOOK_WORDS, _UINT),
        )

    @classmethod
    def absent(cls) -> Grades:
        """Return what stands for them where kernels read none."""
        return cls(_NOWHERE, Place(""), Place(""), Place(""))


class Trial(NamedTuple):
    """Places of what blocks of the trial find, and of the ticket that tells which block is the last."""

    parts: Place
    ticket: Place

    @classmethod
    def size(cls, k: int) -> int:
        """Return the numbers of `parts`."""
        return ceil_div(k, _TRIAL_PART) * _NORM_THREADS * _TRIAL_SUMS


def add_norms(
    program: Program,
    defines: Defines,
    operands: tuple[Operand, Operand],
    k: int,
    look: Place,
    grades: Grades,
    trial: Trial | None = None,
) -> None:
    """Add the pass that finds norms and spreads, with or without a trial."""
    blocks = sum(ceil_div(x.vectors, _NORM_VECTORS) for x in operands)
    tries = 0 if trial is None else _TRIAL_GROUPS * ceil_div(k, _TRIAL_PART)
    macros = as_defines({"TRIES": trial is not None})
    kernel = Kernel("norms", defines + macros, (_NORM_THREADS,), _TRIAL_BYTES if tries else 0, "norms", is_chained=True)
    layouts = [y for x in operands for y in x.layout]
    found = [getattr(x.found, name) for name in ("norms", "means", "extents") for x in operands]
    ends = look, grades.of_k, *(trial or (_NOWHERE, _NOWHERE))
    program.launch(kernel, blocks + tries, *layouts, k, *found, *ends)


def add_grades(program: Program, defines: Defines, operands: tuple[Operand, Operand], k: int, grades: Grades) -> None:
    """Add the passes that find grades: norms as they are, and the peaks of each p."""
    others = "PROVES", "CERTIFIES", "BALANCED"  # only norms are of use
    without = tuple(x for x in defines if x[0] not in others) + as_defines(dict.fromkeys(others, 0))
    add_norms(program, without, operands, k, grades.look, grades)
    for x, peaks in zip(operands, (grades.peaks_a, grades.peaks_b), strict=True):
        across = ceil_div(k, _THREADS) * ceil_div(x.vectors, _DOWN)
        blocks = across if x.is_along else ceil_div(k, _WARPS)
        kernel = Kernel("grades", without, (_THREADS,), function="peaks")
        program.launch(kernel, blocks, *x.layout, k, x.found.norms, peaks)
    kernel = Kernel("grades", without, (_THREADS,), function="grades")
    program.launch(
        kernel,
        min(ceil_div(k, _THREADS), _BLOCKS * planned().multiprocessors),
        grades.peaks_a,
        grades.peaks_b,
        k,
        grades.of_k,
    )
