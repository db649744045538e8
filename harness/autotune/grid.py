"""The products that `tune --auto` races: every class at sizes a factor of two to four apart, the most used first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from harness.dtypes import MIXED, mixed_dtypes
from harness.problem import Problem

Shape = tuple[int, int, int]

# Squares, with rows at multiples of 16 bytes and without.
WHOLE = (32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384)
RAGGED = (33, 77, 129, 257, 501, 777, 1025, 1531, 2049, 3001, 4097, 8191)
# Sides of all other shapes: each of m, n and k is one of these. Ragged ones are one larger.
SIDES = (16, 64, 256, 1024, 4096, 16384)
# Depths of updates of a large C beyond those, and sides of that C.
DEPTHS, UPDATED = (1, 4), (1024, 4096)
# Sides of matrices that are multiplied by vectors.
OF_VECTORS = (64, 512, 4096, 16384)
# Sides of the products of a batch, and how many there are.
BATCHES = ((8, 512), (16, 4096), (32, 512), (64, 512), (128, 64), (256, 16))

# Semirings and dtypes, by how many shapes of theirs are raced: all, or squares and a few others.
ALL = tuple(("plus_times", dtype) for dtype in ("float64", "float32", "bfloat16", "int8 to int32"))
FEW = (
    ("min_plus", "float32"),
    ("min_plus", "float64"),
    ("lor_land", "bool"),
    ("plus_times", "int32"),
    ("plus_times", "int64"),
    ("min_plus", "int32"),
    ("logaddexp_plus", "float32"),
    ("logaddexp_plus", "float64"),
    ("min_plus", "int16"),
    ("min_plus", "float16"),
    ("min_plus", "int64"),
    ("plus_times", "int16"),
    ("plus_times", "int8"),
    ("lxor_land", "bool"),
    ("plus_times", "float8_e4m3fn to float32"),
)
FEW_SQUARES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 33, 65, 129, 257, 513, 1025, 2049, 4097)
FEW_SHAPES = (
    (64, 64, 1024), (64, 64, 16384), (1024, 1024, 16), (4096, 4096, 16), (4096, 4096, 256), (16, 1024, 1024),
    (16, 4096, 4096), (256, 4096, 4096), (1024, 16, 1024), (4096, 16, 4096), (4096, 256, 4096),
)  # fmt: skip

# Most operations of a product, and most elements of all its matrices: on a GPU, and for each thread of the host.
MOST_OPERATIONS, MOST_ELEMENTS = (2.5e12, 4e9), (6e8, 6e7)


def problems(threads: int | None) -> Iterator[Problem]:
    """Yield the products to race, those first that are most used, small ones before large ones of the same form.

    `threads` is the number that the host computes with; None: on a GPU.
    """
    where, times = (0, 1) if threads is None else (1, threads)
    for problem in itertools.chain(_squares(), _vectors(), _batches(), _few(), _triangles(), _shapes()):
        elements = problem.products * (problem.m * problem.k + problem.k * problem.n + problem.m * problem.n)
        if problem.operations <= times * MOST_OPERATIONS[where] and elements <= times * MOST_ELEMENTS[where]:
            yield problem


def problem_of(semiring: str, dtype: str, shape: Shape, *, products: int = 0, triangle: str = "") -> Problem | None:
    """Return a product of operands of that dtype, mixed if it says so; None where bfloat16 is not installed."""
    narrow = dtype.partition(" ")[0]
    wide = MIXED[narrow] if narrow == "bfloat16" or " to " in dtype else narrow
    operands = next((pair[0] for pair in mixed_dtypes() if pair[0].name == narrow), None) if wide != narrow else None
    if wide != narrow and operands is None:
        return None
    batch = (products,) if products else ()
    return Problem(*shape, semiring, np.dtype(wide), operand_dtype=operands, triangle=triangle, batch=batch)  # type: ignore[arg-type]


def _each(kinds: Sequence[tuple[str, str]], shapes: Sequence[Shape]) -> Iterator[Problem]:
    for (semiring, dtype), shape in itertools.product(kinds, shapes):
        if (problem := problem_of(semiring, dtype, shape)) is not None:
            yield problem


def _squares() -> Iterator[Problem]:
    yield from _each(ALL, [(n, n, n) for n in (*WHOLE, *RAGGED)])


def _vectors() -> Iterator[Problem]:
    shapes = [
        shape
        for x, k in itertools.product(OF_VECTORS, OF_VECTORS)
        for extra in (0, 1)
        for shape in ((1, x + extra, k + extra), (x + extra, 1, k + extra))
    ]
    yield from _each((*ALL, ("min_plus", "float32")), shapes)


def _batches() -> Iterator[Problem]:
    for (semiring, dtype), (n, products), extra in itertools.product(
        (*ALL[:3], ("min_plus", "float32")), BATCHES, (0, 1)
    ):
        side = n + extra
        if (problem := problem_of(semiring, dtype, (side, side, side), products=products)) is not None:
            yield problem


def _few() -> Iterator[Problem]:
    yield from _each(FEW, [*((n, n, n) for n in FEW_SQUARES), *FEW_SHAPES])


def _triangles() -> Iterator[Problem]:
    for (semiring, dtype), n, k in itertools.product(ALL[:2], (256, 1024, 4096), (64, 0)):
        problem = problem_of(semiring, dtype, (n, n, k or n), triangle="d")
        assert problem is not None
        yield problem


def _shapes() -> Iterator[Problem]:
    sides = [(m, n, k) for m, n, k in itertools.product(SIDES, SIDES, SIDES) if len({m, n, k}) > 1]
    updates = [(n, n, k) for n, k in itertools.product(UPDATED, DEPTHS)]
    shapes = sorted((*sides, *updates), key=lambda shape: shape[0] * shape[1] * shape[2])
    for m, n, k in shapes:
        for extra in (0, 1):
            yield from _each(ALL, [(m + extra, n + extra, k + (extra if k > 1 else 0))])
