"""A batch of products by the generated loops, ready to run: arguments of one product, and the strides of the batch.

Small products are computed by the threads one each, in one compiled loop (`_batch.loop`). Large ones are computed one
after the other, each by all threads, as a single product is. `harness.tuning.batches` decides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._batch.loop import FACTS, FACTS_OF_DIMENSION, build_products, build_shared
from backends.cpu._batch.tiles import TileTable, tile_of
from backends.cpu._compile.scratch import scratch
from backends.cpu._simd.argument_table import Loops, Run, Shape
from backends.cpu._simd.run_parts import OPERANDS, SCRATCH
from harness.operands import collapsed, data_address
from harness.tuning import batches as tuning_batches

# loops_of(shape, threads): the choices of the loops for one product that so many threads share.
LoopsOf = Callable[[Shape, int], Loops]

# Bytes that the operands of a batch span, relative to the address of each: (first, end).
Ranges = tuple[tuple[int, int], ...]


class BatchTable:
    """A batch, complete except for the addresses of its operands.

    Parameters
    ----------
    loops_of : callable
    shape : Shape
        Of one product.
    batch : tuple of int
        Sizes of 1 or more.
    strides : tuple of tuples of int
        Of each of `OPERANDS` along the batch, in bytes.
    threads : int
    accumulate : bool

    Attributes
    ----------
    run : callable
    addresses : (5,) array of int64
        As of `LoopTable`.
    """

    run: Run

    def __init__(
        self,
        loops_of: LoopsOf,
        shape: Shape,
        batch: tuple[int, ...],
        strides: tuple[tuple[int, ...], ...],
        threads: int,
        accumulate: bool,
    ) -> None:
        self.addresses = np.zeros(len(OPERANDS) + 1, np.int64)
        dimensions = collapsed(batch, *strides) or [(1, *[0] * len(OPERANDS))]
        products = math.prod(size for size, *_ in dimensions)
        share = tuning_batches.sharing(products, shape.m * shape.n * shape.k, threads)
        loops = loops_of(shape, share.inside)
        stages = loops.stages(shape, accumulate)
        is_one_part = len(stages) == 1 and len(stages[0].parts) == 1
        if share.inside > 1 or not is_one_part:
            self._table = loops.table(shape, accumulate)
            self.run = functools.partial(_one_after_the_other, self._table, self.addresses, _offsets(dimensions))
            return
        stage = stages[0]
        row = stage.rows(self.addresses)
        tiles = TileTable(loops, shape, accumulate, _prefetched(shape, loops, dimensions))
        places = tiles.address, *sum(dimensions, ())
        facts = np.array([products, share.at_once, len(dimensions), *places], np.int64)
        assert facts.size == FACTS + FACTS_OF_DIMENSION * len(dimensions)
        run = _run_of(row, facts, self.addresses, share.threads, sum(loops.scratch_bytes(shape.m, shape.n, shape.k)))
        run.refers_to = stage, row, facts, tiles, self.addresses  # type: ignore[attr-defined] # it knows them by address
        self.run = run


def _run_of(row: np.ndarray, facts: np.ndarray, addresses: np.ndarray, threads: int, size: int) -> Run:
    """Return the call that computes the batch, with `size` bytes of scratch for each thread."""
    places = data_address(row), data_address(facts), data_address(addresses)
    if threads == 1:
        compute = functools.partial(build_products(), *places, 0, int(facts[0]), 0)
    else:
        compute = functools.partial(build_shared(), *places, threads, size)
    if size == 0:
        return compute
    scratch(size * threads)  # now, so that the first run need not wait for new pages

    def run() -> None:
        memory = scratch(size * threads)
        addresses[SCRATCH] = memory.address
        compute()

    return run


def _prefetched(shape: Shape, loops: Loops, dimensions: list[tuple[int, ...]]) -> tuple[bool, ...]:
    """Return of A, B and C whether they are prefetched for the next product: not if that has the same one."""
    products, (_, *steps) = math.prod(size for size, *_ in dimensions), dimensions[-1]
    size = (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) * loops.key.itemsize
    is_in_order = tile_of(loops.key, shape) is not loops.key  # which the processor fetches ahead by itself
    is_ahead = tuning_batches.prefetches(size, products) and not is_in_order
    return tuple(is_ahead and step != 0 for step in steps[:3])


def _one_after_the_other(table: Any, addresses: np.ndarray, offsets: np.ndarray) -> None:
    begins = addresses[:SCRATCH]
    for offset in offsets:
        np.add(begins, offset, out=table.addresses[:SCRATCH])
        table.run()


def _offsets(dimensions: list[tuple[int, ...]]) -> np.ndarray:
    """Return where the operands of each product begin, relative to those of the first: a row for each product."""
    sizes = [size for size, *_ in dimensions]
    return np.indices(sizes).reshape(len(sizes), -1).T @ np.array([steps for _, *steps in dimensions], np.int64)
