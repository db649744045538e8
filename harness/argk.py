"""A product that also says which k won: back-pointers of Viterbi, predecessors of paths, gradients of max and min.

A (+) that selects (min, max, or, and) makes every element one of its terms, ``c[i, j] = a[i, k] (x) b[k, j]``, and the
smallest such k is wanted. Asking for it in the innermost loop triples its work. Here any backend computes the product,
block of k by block of k, and two passes find k afterwards::

    for each column panel of C             its columns of B: a copy by rows, a copy by columns
        for each tile of the panel         terms, c and argk share L2
            for q over the blocks of k
                terms := A[tile rows, q] (x) B[q, tile columns]       the backend, on one buffer
                c     := c (+) terms,  argk := q where c changed      one compare a block, not one a term
            argk  := first p of block argk with a[i, p] (x) b[p, j] == c[i, j]

A later block replaces an earlier one only if it is strictly better, so of equal terms the first wins. The extra work is
about 1 / steps + steps / k of the product's, for blocks of `steps` terms. Every k returned has been seen to attain its
value: a backend whose products do not round as (x) does would be found out, not believed.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from harness import machine, tuning
from harness.arguments import as_array, convert, shapes
from harness.errors import ProblemError, VerificationError
from harness.interface import Backend, Execution
from harness.machine import Machine
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.product import check_threads, choose, limited_to
from harness.semiring import SEMIRINGS, Semiring, as_semiring

NO_K = -1

# Compiled passes over host arrays, which serve every backend; a part of the CPU family, loaded when it is needed.
_PASSES = "backends.cpu._argk"


def gemm_argk(
    a: Any,
    b: Any,
    *,
    semiring: str | Semiring = "min_plus",
    backend: str = "auto",
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute ``A (x) B`` over a semiring whose (+) selects, and which k each element comes from.

    ``argk[i, j]`` is the smallest k with ``a[i, k] (x) b[k, j] == product[i, j]``, and -1 where the product is the
    semiring's zero: there is no path, or no term that counts.

    Parameters
    ----------
    a : (..., m, k) array
    b : (..., k, n) array
        As in `harness.gemm`.
    semiring : str or Semiring
        ``"min_plus"``, ``"max_plus"``, ``"max_min"``, ``"min_max"``, ``"max_times"``, ``"min_times"``, ``"lor_land"``,
        or one of your own with ``is_selective=True``.
    backend, threads
        As in `harness.gemm`.

    Returns
    -------
    product : (..., m, n) array
        What `harness.gemm` returns.
    argk : (..., m, n) array of int32
        A NaN term is absent and never named; -0.0 and 0.0 are equal.

    Raises
    ------
    ProblemError
        As in `harness.gemm`; or if (+) does not select.
    BackendUnavailable
        As in `harness.gemm`.
    VerificationError
        If an element is none of its terms: a semiring of your own that says it selects, and does not.

    Examples
    --------
    >>> import numpy as np
    >>> product, argk = gemm_argk(np.array([[1.0, 5.0, np.inf]]), np.array([[7.0], [3.0], [0.0]]))
    >>> product, argk
    (array([[8.]]), array([[0]], dtype=int32))
    """
    semiring = _selecting(as_semiring(semiring))
    check_threads(threads)
    arrays = {"a": as_array("a", a), "b": as_array("b", b)}
    dtype = np.result_type(arrays["a"].dtype, arrays["b"].dtype).newbyteorder("=")
    batch, (m, n, k) = shapes(arrays)
    problem = Problem(m, n, k, semiring, dtype)
    chosen = choose(problem, backend)
    x, y = (convert(array, dtype, batch) for array in arrays.values())
    here = machine.detect()
    locate = _Locator(problem, chosen, here if threads is None else here.with_threads(threads), threads)
    product, argk = np.empty((*batch, m, n), dtype), np.empty((*batch, m, n), np.int32)
    if product.size:
        for index in np.ndindex(batch):
            locate(x[index], y[index], product[index], argk[index])
    return product, argk


def _selecting(semiring: Semiring) -> Semiring:
    if not semiring.add.is_selective:
        raise ProblemError(
            f"gemm_argk: over {semiring.name!r} an element is no single term, so that no k attains it",
            expected=", ".join(name for name, known in SEMIRINGS.items() if known.add.is_selective),
            got=semiring.name,
            fix="Semiring.from_functions(..., is_selective=True) if add returns one of its operands",
        )
    return semiring


class _Locator:
    """Computes products of one Problem, each with its argk.

    Parameters
    ----------
    problem : Problem
    backend : Backend
        Computes the terms.
    here : Machine
    threads : int, optional
        None: the settings of BLAS and Numba are left alone.
    """

    def __init__(self, problem: Problem, backend: Backend, here: Machine, threads: int | None) -> None:
        self._problem, self._backend, self._here, self._threads = problem, backend, here, threads
        height, width, self._steps = tuning.argk_blocks(problem, here, backend.name)
        self._tile = height, width
        self._plans: dict[int, Plan] = {}
        self._part = importlib.import_module(_PASSES)

    def __call__(self, a: np.ndarray, b: np.ndarray, product: np.ndarray, argk: np.ndarray) -> None:
        """Write ``a (x) b`` to `product`, and where it comes from to `argk`."""
        problem, dtype = self._problem, self._problem.dtype
        merge, search, transpose = self._part.passes(problem.semiring, dtype)
        zero, steps, (height, width) = problem.semiring.zero(dtype), self._steps, self._tile
        tiles = range(0, problem.m, height)
        copy_of_a = self._part.chunked_rows(len(tiles) * height, problem.k, dtype)
        copy_of_a[problem.m :] = 0
        copy_of_a[: problem.m, : problem.k] = a
        panel, columns_of_b = np.zeros((problem.k, width), dtype), self._part.chunked_rows(width, problem.k, dtype)
        terms, c = aligned_empty(self._tile, dtype), aligned_empty(self._tile, dtype)
        block = aligned_empty(self._tile, np.dtype(np.int32))
        executions = [self._prepare(copy_of_a[i : i + height], panel, terms) for i in tiles]
        missing = np.zeros(1, np.int64)
        with limited_to(self._threads):
            for j in range(0, problem.n, width):
                columns = slice(j, min(j + width, problem.n))
                panel[:, : columns.stop - j] = b[:, columns]
                transpose(panel, columns_of_b)
                for i, products in zip(tiles, executions, strict=True):
                    rows = slice(i, min(i + height, problem.m))
                    c.fill(zero)
                    block.fill(NO_K)
                    for q, terms_of_block in enumerate(products):
                        terms_of_block.run()
                        terms_of_block.wait()
                        merge(terms_of_block.result(), c, block, rows.stop - i, q)
                    at = rows, columns
                    search(copy_of_a[rows], columns_of_b, c, block, steps, product[at], argk[at], missing)
        if missing[0]:
            self._refuse()

    def _prepare(self, rows_of_a: np.ndarray, panel: np.ndarray, terms: np.ndarray) -> list[Execution]:
        """Return the products of `rows_of_a` and `panel`, one for each block of k, all into `terms`."""
        k, steps = self._problem.k, self._steps
        return [
            self._backend.prepare(
                self._plan(block.stop - block.start), Operands(rows_of_a[:, block], panel[block], None, terms)
            )
            for block in (slice(begin, min(begin + steps, k)) for begin in range(0, k, steps))
        ]

    def _plan(self, steps: int) -> Plan:
        """Return the plan for a block of `steps` terms; all blocks but the last have the same."""
        if steps not in self._plans:
            semiring, dtype = self._problem.semiring, self._problem.dtype
            part = Problem(*self._tile, steps, semiring, dtype, layout="ACC")
            self._plans[steps] = self._backend.plan(part, self._here)
        return self._plans[steps]

    def _refuse(self) -> None:
        name = self._problem.semiring.name
        raise VerificationError(
            f"gemm_argk: an element of the product by {self._backend.name} is none of its terms",
            expected="a[i, k] (x) b[k, j] == product[i, j] for some k",
            got=f"none, over {name} and {self._problem.dtype.name}",
            fix="is_selective=True only if add returns one of its operands" if name not in SEMIRINGS else "",
        )
