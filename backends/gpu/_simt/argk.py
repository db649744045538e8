"""The product with the k that each element comes from, by `argk.cu`: the same kernel for every rung.

The arrays stay where they are: host arrays are uploaded and both results come back; arrays of CuPy are filled in place.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

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
    ARGK_SMALL_BLOCKS,
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
    is_resident, is_wide = before is not None and tiles_k <= ARGK_RESIDENT, tiles_k > MOST_TILES
    at_once = ARGK_BLOCKS
    if is_resident or is_wide:
        tiles, at_once = small, ARGK_SMALL_BLOCKS
    if is_resident:
        tiles = dataclasses.replace(tiles, stages=max(2, tiles_k))
    blocks = ceil_div(problem.m, tiles.bm) * ceil_div(problem.n, tiles.bn)
    strips = ceil_div(problem.n, WARP) * ceil_div(problem.m, ARGK_SEARCHED_ROWS)
    places, sizes = (a.place, b.place, out.place, which.place), (problem.m, problem.n, problem.k)
    along_batch, of_batch = (batch.grid, batch.arguments(a, b, out, which)) if batch else ((), ())
    of_paths: tuple[Any, ...] = ()
    shared = tiles.stages * tiles.bk * (tiles.bm + group_size(itemsize) + tiles.bn) * itemsize
    if before is not None:
        of_paths = before.place, *(map(np.int64, before.next) if batch else ())
        queue = INT.itemsize * tiles.bm * tiles.bn
        shared = shared + queue if is_resident else max(shared, queue)
    arguments = *places, *sizes, a.ld, b.ld, out.ld, extremes, *of_batch, *of_paths
    kind = {"IMPROVES": before is not None, "IS_RESIDENT": is_resident, "BITS_OF_PLACE": 32 if is_wide else 16}
    macros = _macros(tiles, a, b, itemsize, at_once) + batch_defines(batch) + as_defines(kind)
    for form in forms:
        defines = semiring_defines(problem.semiring, problem.dtype, form=form) + macros
        kernel = Kernel("argk", defines, (tiles.threads,), shared, function="argk")
        program.launch(kernel, (blocks, *along_batch), *arguments)
        if before is None:
            search = Kernel("argk", defines, (ARGK_SEARCHERS,), function="search")
            program.launch(search, (strips, *along_batch), *arguments)
    return program


def _macros(tiles: Launch, a: Matrix, b: Matrix, itemsize: int, blocks: int) -> Defines:
    """Return the macros of argk.cu beside those of the semiring."""
    sizes = {name.upper(): getattr(tiles, name) for name in "bm bn bk wm wn tm tn stages".split()}
    copies = {
        "LANES_K": LANES_K,
        "WIDTH_B": width_of_copies(b, tiles.bn, tiles, itemsize),
        "OFFSET": offset_type(tiles, a, b),
    }
    order = {"ORDER": 0, "GROUP": ARGK_GROUP, "C_VECTORS": False, "BLOCKS": blocks}
    return as_defines({**sizes, **copies, **order, "SEARCHERS": ARGK_SEARCHERS, "SEARCHED_ROWS": ARGK_SEARCHED_ROWS})
