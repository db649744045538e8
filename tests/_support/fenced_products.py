"""Products of which every operand ends, or begins, where memory that may not be touched does. One read too far crashes.

``python -m tests._support.fenced_products [bug]``: prints how many products were right. A process of its own runs it.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import resource
import sys
from typing import Any

import numpy as np

from backends.cpu._vector import vectors
from harness import Operands
from harness.proof.verify import verify
from tests._support.simd_products import BACKEND, KERNELS, PACKS, Kernel

NO_ACCESS = 0
_LIBC = ctypes.CDLL(None, use_errno=True)


def fenced(shape: tuple[int, int], dtype: np.dtype[Any], order: str, at_end: bool, gap: int = 0) -> np.ndarray:
    """Return a matrix whose last, or first, byte has an unreadable page for its neighbour.

    Parameters
    ----------
    shape, dtype, order
        Order ``"F"``: columns contiguous.
    at_end : bool
        Whether the unreadable page comes after it; else before.
    gap : int
        Elements between rows, or columns; none after the last.
    """
    if order == "F":
        return fenced(shape[::-1], dtype, "C", at_end, gap).T
    distance = (shape[1] + gap) * dtype.itemsize
    size = (shape[0] - 1) * distance + shape[1] * dtype.itemsize
    page = mmap.PAGESIZE
    room = -(-size // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in (begin, begin + page + room):
        assert _LIBC.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(page), NO_ACCESS) == 0
    return np.ndarray(shape, dtype, memory, page + (room - size if at_end else 0), (distance, dtype.itemsize))


def run(kernel: Kernel, sizes: tuple[int, int, int], at_end: bool, number: int) -> None:
    """Compute one product between fences and prove it right."""
    problem = kernel.problem(*sizes)
    drawn = Operands.generate(problem, number)
    orders = "CCC" if number % 2 else ("FCC", "CFC", "CCF", "FFF")[number // 2 % 4]
    placed = []
    for x, order in zip((drawn.a, drawn.b, drawn.out), orders, strict=True):
        placed.append(fenced(x.shape, problem.dtype, order, at_end, gap=number % 3))
        placed[-1][...] = x
    a, b, out = placed
    BACKEND.prepare(kernel.plan(problem, **PACKS[number % 4]), Operands(a, b, None, out)).run()
    verify(problem, drawn, out, seed=1)


def main(bug: str) -> None:
    """Run products around every edge, by a kernel with a bug if one is named."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernels = KERNELS
    if bug:
        kernels = [Kernel("plus_times", "float64", KERNELS[0].unit, 1, 1)]
        load, store = vectors.VectorCode.load, vectors.VectorCode.store
        if bug == "reads whole vectors":
            vectors.VectorCode.load = lambda code, b, place, edge=None: load(code, b, place)  # type: ignore[method-assign]
        if bug == "writes whole vectors":
            vectors.VectorCode.store = lambda code, b, x, place, edge=None: store(code, b, x, place)  # type: ignore[method-assign]
    numbers = itertools.count()
    for kernel, at_end in itertools.product(kernels, (True, False)):
        mr, nr, lanes = kernel.mr, kernel.nr, kernel.lanes
        for m, n, k in itertools.product((1, mr + 1, 3 * mr), (1, lanes - 1, nr + 1, 2 * nr), (1, 7, 100)):
            run(kernel, (m, max(n, 1), k), at_end, next(numbers))
    print(next(numbers))  # noqa: T201 (for the test that started this)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
