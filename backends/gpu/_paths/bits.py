"""Reachability on tensor cores, 32 edges a word from beginning to end.

    pack once
    for each panel K of pivots
        D[K, K] := D[K, K] | D[K, K] (x) D[K, K]     until nothing changes
        D[:, K] := D[:, K] | D[:, K] (x) D[K, K]
        D       := D       | D[:, K] (x) D[K, :]
    unpack once

A product reads the rows of its right operand by columns, which a pass turns before it, and its left operand as it lies
in D, while D is written. That is right: a bit that has just been set is a path too. Squares double the edges of paths,
so their number is known before; where nothing has changed, those that are left return at once, and no host waits.

Source: Warshall (1962), by blocks, see `harness.elimination`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.operators import Form
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Kernel, Matrix, Place, Product, Program, ceil_div
from backends.gpu._program.repeat import launch_with_scratch
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.bit_product import BITS_BY_TMA, pack_defines
from backends.gpu._tensor.tma import add_tma
from harness.interface import BitClosure
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.paths import PASS_BLOCKS, PASS_THREADS, bits_panel_of
from harness.tuning.gpu.tensor_cores import HOPPER_TILES, TILE_ROWS

_BITS, _WORD = 32, np.dtype(np.uint32)
_SQUARE, _HAS_CHANGED = 4, 3  # words of Square (square.cuh), and which of them says so
_SIDE = 256  # of a square that `turn` turns, and columns of a tile
_STEP = BITS_BY_TMA.bk * _BITS  # pivots of a stage of tiles; rows of D are a multiple of so many bits
_NOWHERE = np.uint64(0)
_OCTETS = np.dtype(np.uint8)


class BitsProgram:
    """The launches that close one graph of bools, of buffer "edges", into "best", which may be the same.

    Parameters
    ----------
    problem : Problem
        Of the graph by itself.
    plan : callable
        Plans products of bools.
    is_packed : bool
        Whether elements are bytes of eight edges.

    Attributes
    ----------
    program : Program
    itemsize : int
        Bytes of an element of "best": those of a word, where it is D itself, else 1.
    """

    def __init__(self, problem: Problem, plan: Callable[[Problem], Plan], *, is_packed: bool) -> None:
        self._n, self._plan, self._problem, self.program = problem.n, plan, problem, Program()
        n, octets, panel = problem.n, ceil_div(problem.n, 8), bits_panel_of(problem.n)
        self._ld = ceil_div(n, _STEP) * _STEP // _BITS
        self._pitch = min(panel // _BITS, self._ld)
        is_direct = is_packed and n % _STEP == 0
        self.itemsize = _WORD.itemsize if is_direct else 1
        self._d = Place("best") if is_direct else self.program.reserve("bits", n * self._ld, _WORD)
        self._turned = self.program.reserve("turned", self._width(n) * self._pitch, _WORD)
        self.program.reserve("squares", panel.bit_length() * _SQUARE, _WORD)
        if is_packed:
            self._launch("take_octets", min(n, PASS_BLOCKS), Place("edges"), octets, n, self._d, self._ld)
        else:
            self._pack("pack_rows", Place("edges"), n, n, n, self._d, self._ld)
        self._launch("put_one", ceil_div(n, PASS_THREADS), self._d, self._ld, n)
        for first in range(0, n, panel):
            self._add_panel(first, min(panel, n - first))
        if not is_packed:
            self._pack("unpack", self._d, self._ld, Place("best"), n, n, n, 0)
        elif not is_direct:
            self._launch("give_octets", min(n, PASS_BLOCKS), self._d, self._ld, n, Place("best"), octets)

    def _pack(self, function: str, *arguments: object) -> None:
        kernel = Kernel("pack_bits", pack_defines(is_aligned=self._n % 16 == 0), (PASS_THREADS,), function=function)
        self.program.launch(kernel, min(self._n, PASS_BLOCKS), *arguments)

    def _launch(self, function: str, blocks: int | tuple[int, ...], *arguments: object) -> None:
        kernel = Kernel("close_bits", (), (PASS_THREADS,), function=function, is_chained=True)
        self.program.launch(kernel, blocks, *arguments)

    def _add_panel(self, first: int, size: int) -> None:
        n, pivots, width = self._n, slice(first, first + size), self._width(size)
        here, count = slice(first, first + width), max(size - 2, 0).bit_length()
        gate: Any = _NOWHERE
        if count:
            self._turn(pivots, here, count)
        for square in range(count):
            said = Place("squares", square * _SQUARE)
            self._multiply(pivots, pivots, here, said, gate)
            gate = said._replace(offset=said.offset + _HAS_CHANGED)
        if size < n:
            everywhere = slice(0, self._width(n))
            self._turn(pivots, everywhere, 0)
            self._multiply(pivots, slice(0, n), here)
            self._multiply(pivots, slice(0, n), everywhere)

    def _width(self, columns: int) -> int:
        """Return the columns of whole tiles."""
        return ceil_div(columns, _SIDE) * _SIDE

    def _words(self, pivots: slice) -> int:
        return ceil_div(pivots.stop - pivots.start, _STEP) * _STEP // _BITS

    def _turn(self, pivots: slice, columns: slice, count: int) -> None:
        """Turn these columns of the rows of the pivots, of which so many squares are to be computed."""
        size, words = columns.stop - columns.start, self._words(pivots)
        rows = self._d, self._ld, self._n, pivots.start, columns.start
        grid = size // _SIDE, words * _BITS // _SIDE
        self._launch("turn", grid, *rows, self._turned, self._pitch, Place("squares"), count)

    def _multiply(
        self, pivots: slice, rows: slice, columns: slice, square: Any = _NOWHERE, gate: Any = _NOWHERE
    ) -> None:
        """Improve rows and columns of D, which are whole tiles, by the pivots, whose rows have been turned.

        A square does so only if `gate` is not the place of a 0.
        """
        m, n, words = rows.stop - rows.start, columns.stop - columns.start, self._words(pivots)
        product = dataclasses.replace(self._problem, m=m, n=n, k=words * _BITS)
        plan = self._plan(product).override({**vars(HOPPER_TILES["bool"]), "unit": "wgmma"})
        a, out = (
            Matrix(self._d._replace(offset=rows.start * self._ld + at // _BITS), self._ld)
            for at in (pivots.start, columns.start)
        )
        b = Matrix(Place("turned", columns.start * self._pitch), self._pitch)
        map_a = TensorMap(a.place, m, words, a.ld, TILE_ROWS, BITS_BY_TMA.bk, _WORD.name)
        rows_of_b = plan.launch.bn // int(plan.options["cluster"])
        map_b = TensorMap(b.place, n, words, b.ld, rows_of_b, BITS_BY_TMA.bk, _WORD.name)
        of_elements = out._replace(ld=self._ld // 2)  # of 64 bits
        of_words = Product(a, b, of_elements, m, n, words, Form.ANY, accumulate=True, extremes=gate)
        takes_turns = words <= plan.launch.stages * BITS_BY_TMA.bk  # else one waits for stages that the other holds
        macros = {"IS_XOR": 0, "IS_PACKED": 1, "IS_SQUARE": square is not _NOWHERE, "TAKES_TURNS": takes_turns}
        add_tma(self.program, plan, BITS_BY_TMA, as_defines(macros), (map_a, map_b), of_words, square, width=1)


class GpuBitClosure(BitClosure):
    """Close graphs of bools, or of bits, on the GPU on which this is made, in the current stream, by any thread.

    Parameters
    ----------
    problem : Problem
        Of one graph by itself.
    count : int
    plan : callable
        Plans products.
    """

    def __init__(self, problem: Problem, count: int, plan: Callable[[Problem], Plan]) -> None:
        self._count = count

        @functools.cache
        def packed(is_packed: bool) -> PackedProgram:
            program = BitsProgram(problem, plan, is_packed=is_packed)
            return PackedProgram.of(program.program, {"edges": 1, "best": program.itemsize})

        self._packed = packed

    def close(self, edges: Any, best: Any) -> None:
        """Write the closure of `edges` to `best`, as `BitClosure.close`, without waiting for it."""
        addresses, each = [edges.data.ptr, best.data.ptr], best.nbytes // self._count
        shifts = [(i * each, i * each) for i in range(self._count)]
        launch_with_scratch(self._packed(best.dtype == _OCTETS), addresses, device.current_stream(), shifts)
