"""The launch that makes a symmetric matrix of its lower triangle, in place or beside it."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.operators import unsigned
from backends.gpu._program.program import Batch, Kernel, Matrix, Program, ceil_div

# Of mirror.cu: the side of a tile, and threads of a block.
_SIDE, _THREADS = 32, 256


def add_mirror(program: Program, triangle: Matrix, whole: Matrix, size: int, itemsize: int, count: int = 1) -> None:
    """Add the launch that writes the symmetric matrix of `size` rows whose lower triangle is that of `triangle`.

    `whole` lies by rows. If it is `triangle`, only what is above the diagonal is written. `count` such matrices lie one
    after the other.
    """
    is_in_place = triangle.place == whole.place
    macros = {"T": unsigned(itemsize), "BY_COLUMNS": triangle.by_columns, "IN_PLACE": is_in_place}
    kernel = Kernel("mirror", as_defines(macros), (_THREADS,), function="mirror")
    steps = map(np.int64, triangle.steps)
    grid, of_batch = (ceil_div(size, _SIDE) ** 2, *Batch(count, count).grid), (count, np.int64(size * whole.ld))
    program.launch(kernel, grid, triangle.place, *steps, size, whole.place, np.int64(whole.ld), *of_batch)
