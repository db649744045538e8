"""The product with the k that each element comes from, by `argk.cu`: the same kernel for every rung.

The arrays stay where they are: host arrays are uploaded and both results come back; arrays of CuPy are filled in place.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.passes import add_extremes
from backends.gpu._program.operators import Form, batch_defines, has_fast_form, semiring_defines
from backends.gpu._program.program import Batch, Kernel, Matrix, Program, ceil_div
from backends.gpu._simt.copies import group_size, offset_type, width_of_copies
from harness.plan import Launch
from harness.problem import Problem
from harness.tuning.gpu.rungs import (
    ARGK_BLOCKS,
    ARGK_GROUP,
    ARGK_RESIDENT,
    ARGK_SEARCHED_ROWS,
    ARGK_SEARCHERS,
    ARGK_SMALL_TILES,
    ARGK_TILES,
    LANES_K,
    MOST_TILES,
    is_scanned,
)

WARP, INT = 32, np.dtype(np.int32)


def argk_program(
    problem: Problem, a: Matrix, b: Matrix, out: Matrix, which: Matrix, before: Matrix | None = None
) -> Program:
    """Return the launches of ``out := a (x) b``, which write the k of each element to `which`.

    With `before`, the predecessors of the rows of B, it is ``out := out (+) a (x) b``, and `which` holds predecessors:
    those of elements that become better are written.
    """
    program, itemsize = Program(), problem.dtype.itemsize
    tiles, small = (table.get(itemsize, table[4]) for table in (ARGK_TILES, ARGK_SMALL_TILES))
    if problem.products * problem.m * problem.n == 0:
        return program
    batch = Batch.of(problem.batch)
    forms, extremes = [Form.ANY], a.place
    if has_fast_form(problem.semiring, problem.dtype) and problem.pairs and not batch and is_scanned(problem):
        forms, extremes = [Form.FAST, Form.CAREFUL], add_extremes(program, problem, a, b)
    tiles_k = ceil_div(problem.k, tiles.bk)
    resident = dataclasses.replace(small, stages=max(2, tiles_k))
    is_resident = before is not None and tiles_k <= ARGK_RESIDENT and _fits(resident, itemsize)
    is_wide = tiles_k > MOST_TILES
    tiles = resident if is_resident else small if is_wide else tiles
    blocks = ceil_div(problem.m, tiles.bm) * ceil_div(problem.n, tiles.bn)
    strips = ceil_div(problem.n, WARP) * ceil_div(problem.m, ARGK_SEARCHED_ROWS)
    places, sizes = (a.place, b.place, out.place, which.place), (problem.m, problem.n, problem.k)
    along_batch, of_batch = (batch.grid, batch.arguments(a, b, out, which)) if batch else ((), ())
    of_paths: tuple[Any, ...] = ()
    shared, queue = _shared_bytes(tiles, itemsize)
    if before is not None:
        of_paths = before.place, *(map(np.int64, before.next) if batch else ())
        shared = shared + queue if is_resident else max(shared, queue)
    arguments = *places, *sizes, a.ld, b.ld, out.ld, extremes, *of_batch, *of_paths
    kind = {"IMPROVES": before is not None, "IS_RESIDENT": is_resident, "BITS_OF_PLACE": 32 if is_wide else 16}
    macros = _macros(tiles, a, b, itemsize) + batch_defines(batch) + as_defines(kind)
    for form in forms:
        defines = semiring_defines(problem.semiring, problem.dtype, form=form) + macros
        kernel = Kernel("argk", defines, (tiles.threads,), shared, function="argk")
        program.launch(kernel, (blocks, *along_batch), *arguments)
        if before is None:
            search = Kernel("argk", defines, (ARGK_SEARCHERS,), function="search")
            program.launch(search, (strips, *along_batch), *arguments)
    return program


def _shared_bytes(tiles: Launch, itemsize: int) -> tuple[int, int]:
    """Return the bytes of shared memory of all stages, and of a queue of elements."""
    stages = tiles.stages * tiles.bk * (tiles.bm + group_size(itemsize) + tiles.bn) * itemsize
    return stages, INT.itemsize * tiles.bm * tiles.bn


def _fits(tiles: Launch, itemsize: int) -> bool:
    return sum(_shared_bytes(tiles, itemsize)) <= device.planned().shared_memory


def _macros(tiles: Launch, a: Matrix, b: Matrix, itemsize: int) -> Defines:
    """Return the macros of argk.cu beside those of the semiring."""
    sizes = {name.upper(): getattr(tiles, name) for name in "bm bn bk wm wn tm tn stages".split()}
    copies = {
        "LANES_K": LANES_K,
        "WIDTH_B": width_of_copies(b, tiles.bn, tiles, itemsize),
        "OFFSET": offset_type(tiles, a, b),
    }
    order = {"ORDER": 0, "GROUP": ARGK_GROUP, "C_VECTORS": False, "BLOCKS": ARGK_BLOCKS}
    return as_defines({**sizes, **copies, **order, "SEARCHERS": ARGK_SEARCHERS, "SEARCHED_ROWS": ARGK_SEARCHED_ROWS})
