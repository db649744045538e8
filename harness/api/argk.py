"""A product that also says which k won: back-pointers of Viterbi, predecessors of paths, gradients of max and min.

A (+) that selects (min, max, or, and) makes every element one of its terms, ``c[i, j] = a[i, k] (x) b[k, j]``, and the
smallest such k is wanted. Asking for it in the innermost loop triples its work. Here a product says which block of k
each element comes from, and one pass over the blocks named finds k::

    argk, c   :=  the backend itself, if it can (`Backend.prepare_argk`: on a GPU); else
                  any backend, of integers that leave room for k beside them; else
    block, c  :=  the backend itself, if it can (`Backend.prepare_blocks`): one compare an element and block
              or  c by the backend, and block beside it by one that can
              or  tile by tile of C, for q over the blocks of k:
                      terms := A[rows, q] (x) B[q, columns]                   by any backend
                      c     := c (+) terms,  block := q where c changed
    argk      :=  first p of the block with a[i, p] (x) b[p, j] == c[i, j]    rows of A, rows of B transposed

A later block replaces an earlier one only if it is strictly better, so of equal terms the first wins. Every k returned
has been seen to attain its value, or came with it: a backend whose products do not round as (x) does would be found
out, not believed.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np

from harness import machine, registry
from harness.api import device_product
from harness.api.arguments import as_array, convert, shapes
from harness.api.gemm import check_threads, choose, limited_to
from harness.errors import BackendUnavailable, ProblemError, VerificationError
from harness.interface import Backend, Execution
from harness.machine import Machine
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import HALF, SEMIRINGS, Semiring, as_semiring
from harness.tuning import argk as tuning_argk

NO_K = -1

# Compiled passes over host arrays, which serve every backend; a part of the CPU family, loaded when it is needed. And
# the backend whose kernels number the blocks of k for those that do not.
_PASSES, _NUMBERS = "backends.cpu._argk.passes", "cpu-simd"


def gemm_argk(
    a: Any,
    b: Any,
    *,
    semiring: str | Semiring = "min_plus",
    backend: str = "auto",
    threads: int | None = None,
) -> tuple[Any, Any]:
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
        A NaN term is absent and never named; -0.0 and 0.0 are equal. For arrays of CuPy both are arrays of CuPy.

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
    if any(map(device_product.is_device_array, (a, b))):
        request = device_product.Request("gemm_argk", semiring, backend=backend)
        return device_product.gemm_argk({"a": a, "b": b}, request)
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
            operands = Operands(x[index], y[index], None, product[index])
            execution = chosen.prepare_argk(locate.plan, operands, argk[index])
            if execution is None:
                locate(x[index], y[index], product[index], argk[index])
            else:
                execution.run()
                execution.wait()
                product[index] = execution.result()
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
    here : Machine
    threads : int, optional
        None: the settings of BLAS and Numba are left alone.
    """

    def __init__(self, problem: Problem, backend: Backend, here: Machine, threads: int | None) -> None:
        self._problem, self._backend, self._here, self._threads = problem, backend, here, threads
        self._part = importlib.import_module(_PASSES)
        self._plan: Plan | None = None

    @property
    def plan(self) -> Plan:
        """The backend's plan of one product; made once."""
        if self._plan is None:
            self._plan = self._backend.plan(self._problem, self._here)
        return self._plan

    def __call__(self, a: np.ndarray, b: np.ndarray, product: np.ndarray, argk: np.ndarray) -> None:
        """Write ``a (x) b`` to `product`, and where it comes from to `argk`."""
        problem = self._problem
        if problem.dtype == HALF:
            raise BackendUnavailable(
                f"gemm_argk: backend {self._backend.name!r} does not say which k it was; no float16 is searched",
                got=str(problem),
                fix="convert a and b with astype('float32'); or arrays on a GPU",
            )
        if not problem.k:
            product.fill(problem.semiring.zero(problem.dtype))
            argk.fill(NO_K)
            return
        with limited_to(self._threads, self._backend):
            ranges = self._part.ranges_of(problem.semiring, a, b)
            if self._pack(a, b, product, argk, ranges):
                return
            block = self._part.blocks_of(problem.m, problem.n)
            steps = (
                self._number_at_once(self._backend, self.plan, a, b, product, block)
                or self._number_beside(a, b, product, block)
                or self._number_tiles(a, b, product, block)
            )
            search = self._part.passes(problem.semiring, problem.dtype, steps).search
            is_whole = search(a, b, product, block, argk, ranges, *tuning_argk.argk_searched(problem, self._here))
        if not is_whole:
            self._refuse()

    def _pack(self, a: np.ndarray, b: np.ndarray, product: np.ndarray, argk: np.ndarray, ranges: Any) -> bool:
        """Have the product carry k beside its values, in parts of k if need be; return whether there is room for it."""
        problem = self._problem
        packing = self._part.packing(problem.semiring, problem.dtype, problem.k, ranges, tuning_argk.ARGK_PACKED_STEPS)
        if packing is None:
            return False
        for begin in range(0, problem.k, packing.steps):
            part = slice(begin, begin + packing.steps)
            x, y = packing.operands(a[:, part], b[part])
            plan = self._backend.plan(dataclasses.replace(problem, k=x.shape[1]), self._here)
            terms = aligned_empty(product.shape, product.dtype) if begin else product
            execution = self._backend.prepare(plan, Operands(x, y, None, terms))
            execution.run()
            execution.wait()
            packing.unpack(execution.result(), product, argk, begin)
        return True

    def _number_at_once(
        self, backend: Backend, plan: Plan, a: np.ndarray, b: np.ndarray, product: np.ndarray, block: np.ndarray
    ) -> int:
        """Have a backend write `product`, and to `block` the numbers of blocks; return their steps, or 0."""
        steps = tuning_argk.argk_steps(self._problem)
        execution = backend.prepare_blocks(plan, Operands(a, b, None, product), block, steps)
        if execution is None:
            return 0
        execution.run()
        execution.wait()
        return steps

    def _number_beside(self, a: np.ndarray, b: np.ndarray, product: np.ndarray, block: np.ndarray) -> int:
        """Have a backend that can number blocks, and the one asked for write `product`: the search compares the two."""
        problem = self._problem
        able = (
            own for own in registry.able(problem, on_device=False) if own.name == _NUMBERS and own is not self._backend
        )
        beside = next(able, None)
        if beside is None:
            return 0
        plan = beside.plan(problem, self._here)
        steps = self._number_at_once(beside, plan, a, b, aligned_empty(product.shape, product.dtype), block)
        if steps:
            execution = self._backend.prepare(self.plan, Operands(a, b, None, product))
            execution.run()
            execution.wait()
            if (produced := execution.result()) is not product:
                product[...] = produced
        return steps

    def _number_tiles(self, a: np.ndarray, b: np.ndarray, product: np.ndarray, block: np.ndarray) -> int:
        """Do the same with any backend, tile by tile of C."""
        problem, dtype = self._problem, self._problem.dtype
        height, width, steps = tuning_argk.argk_blocks(problem, self._here)
        merge = self._part.passes(problem.semiring, dtype, steps).merge
        product.fill(problem.semiring.zero(dtype))
        block.fill(NO_K)
        panel, terms = np.zeros((problem.k, width), dtype), aligned_empty((height, width), dtype)
        tiles = [slice(i, min(i + height, problem.m)) for i in range(0, problem.m, height)]
        executions = [self._prepare(a[rows], panel, terms[: rows.stop - rows.start], steps) for rows in tiles]
        for j in range(0, problem.n, width):
            columns = slice(j, min(j + width, problem.n))
            panel[:, : columns.stop - j] = b[:, columns]
            for rows, products in zip(tiles, executions, strict=True):
                for q, execution in enumerate(products):
                    execution.run()
                    execution.wait()
                    merge(execution.result(), product[rows, columns], block[rows, columns], q)
        return steps

    def _prepare(self, a: np.ndarray, panel: np.ndarray, terms: np.ndarray, steps: int) -> list[Execution]:
        """Return the products of `a` and `panel`, one for each block of k, all into `terms`."""
        executions = []
        for begin in range(0, self._problem.k, steps):
            block = slice(begin, begin + steps)
            operands = Operands(a[:, block], panel[block], None, terms)
            (m, n), problem = terms.shape, self._problem
            part = Problem(m, n, len(operands.b), problem.semiring, problem.dtype)
            executions.append(self._backend.prepare(self._backend.plan(part, self._here), operands))
        return executions

    def _refuse(self) -> None:
        name = self._problem.semiring.name
        raise VerificationError(
            f"gemm_argk: an element of the product by {self._backend.name} is none of its terms",
            expected="a[i, k] (x) b[k, j] == product[i, j] for some k",
            got=f"none, over {name} and {self._problem.dtype.name}",
            fix="is_selective=True only if add returns one of its operands" if name not in SEMIRINGS else "",
        )
