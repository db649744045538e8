"""The passes before residues: norms of rows of A and columns of B, and grades that balance A and B along k."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.program import Kernel, Matrix, Place, Program, ceil_div

_NORM_THREADS, _NORM_ROWS, _NORM_COLUMNS = 1024, 32, 32  # norms.cu
_THREADS, _DOWN, _WARPS = 256, 64, 8  # grades.cu
_BLOCKS = 132 * 8
_INT, _UINT = np.dtype(np.int32), np.dtype(np.uint32)
_LOOK_WORDS = 4


class Operand(NamedTuple):
    """A or B as the passes see it: vectors of k elements, rows of A or columns of B.

    Attributes
    ----------
    matrix : Matrix
    vectors : int
    is_along : bool
        Whether the elements of a vector are neighbours; else the vectors are.
    norms, large, residues : Place
        What the passes find of each vector, and its residues.
    layer : int
        Vectors of a layer of residues.
    """

    matrix: Matrix
    vectors: int
    is_along: bool
    norms: Place
    large: Place
    residues: Place
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
        return cls(np.uint64(0), Place(""), Place(""), Place(""))


def add_norms(program: Program, defines: Defines, a: Operand, b: Operand, k: int, look: Place, grades: Grades) -> None:
    """Add the pass that finds norms and spreads."""
    blocks = [ceil_div(x.vectors, _NORM_ROWS if x.is_along else _NORM_COLUMNS) for x in (a, b)]
    kernel = Kernel("norms", defines, (_NORM_THREADS,), function="norms")
    program.launch(kernel, sum(blocks), *a.layout, *b.layout, k, a.norms, b.norms, look, blocks[0], grades.of_k)


def add_grades(program: Program, defines: Defines, a: Operand, b: Operand, k: int, grades: Grades) -> None:
    """Add the passes that find grades: norms as they are, and the peaks of each p."""
    without = defines + as_defines({"BALANCED": 0})
    add_norms(program, without, a, b, k, grades.look, grades)
    for x, peaks in ((a, grades.peaks_a), (b, grades.peaks_b)):
        across = ceil_div(k, _THREADS) * ceil_div(x.vectors, _DOWN)
        blocks = across if x.is_along else ceil_div(k, _WARPS)
        kernel = Kernel("grades", without, (_THREADS,), function="peaks")
        program.launch(kernel, blocks, *x.layout, k, x.norms, peaks)
    kernel = Kernel("grades", without, (_THREADS,), function="grades")
    program.launch(kernel, min(ceil_div(k, _THREADS), _BLOCKS), grades.peaks_a, grades.peaks_b, k, grades.of_k)
