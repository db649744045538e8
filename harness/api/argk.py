"""`gemm_argk`: a product and, for each element, the smallest k that attains it. Back-pointers, predecessors, gradients.

A (+) that selects (min, max, or, and) makes every element one of its terms, ``c[i, j] = a[i, k] (x) b[k, j]``. The
smallest such k is returned. Searching for it in the innermost loop triples the work. Instead a product says which
block of k each element comes from, and one pass over the blocks named finds k::

    argk, c   :=  the backend itself, if it can (`Backend.prepare_argk`: on a GPU); else
                  any backend, of integers that leave room for k beside them; else
    block, c  :=  the backend itself, if it can (`Backend.prepare_blocks`): one compare an element and block
              or  c by the backend, and block beside it by one that can
              or  tile by tile of C, for q over the blocks of k:
                      terms := A[rows, q] (x) B[q, columns]                   by any backend
                      c     := c (+) terms,  block := q where c changed
    argk      :=  first p of the block with a[i, p] (x) b[p, j] == c[i, j]    rows of A, rows of B transposed

A later block replaces an earlier one only if it is strictly better, so the first of equal terms wins. Every k returned
was compared with its value, or came with it. A backend whose products do not round as (x) does is thus detected.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any

import numpy as np

from harness import registry
from harness.api import repeats, views
from harness.api.arguments import read_arguments
from harness.api.arrays import Arrays
from harness.api.choice import choose
from harness.api.gemm import as_batch, check_threads, enough_memory, limited_to, machine_of
from harness.errors import BackendUnavailable, ProblemError, VerificationError
from harness.interface import Backend, Prepared, prepare
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import HALF, SEMIRINGS, Semiring, as_semiring
from harness.tuning import argk as tuning_argk

NO_K = -1

# Compiled passes over host arrays, which serve every backend; a part of the CPU family, loaded when needed. And the
# backend that numbers the blocks of k for those that do not.
_PASSES, _NUMBERS = "backends.cpu._argk.passes", "cpu-simd"


@views.any_library("a", "b")
def gemm_argk(
    a: Any,
    b: Any,
    *,
    semiring: str | Semiring = "min_plus",
    backend: str = "auto",
    threads: int | None = None,
) -> tuple[Any, Any]:
    """Compute ``A (x) B`` over a semiring whose (+) selects, and which k each element comes from.

    ``argk[i, j]`` is the smallest k with ``a[i, k] (x) b[k, j] == product[i, j]``. It is -1 where the product is the
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
        A NaN term is absent and never named; -0.0 and 0.0 are equal. Both are arrays of the library of a and b.

    Raises
    ------
    ProblemError
        As in `harness.gemm`; or if (+) does not select.
    BackendUnavailable
        As in `harness.gemm`.
    VerificationError
        If an element is none of its terms: a semiring of your own is declared selective, and is not.

    Examples
    --------
    >>> import numpy as np
    >>> product, argk = gemm_argk(np.array([[1.0, 5.0, np.inf]]), np.array([[7.0], [3.0], [0.0]]))
    >>> product, argk
    (array([[8.]]), array([[0]], dtype=int32))
    """
    options = repeats.options_of("gemm_argk", (semiring, backend, threads, threads.__class__))
    if a.__class__ in repeats.classes:
        results = repeats.recall(options, (a, b))
        if results is not None:
            product, argk = results
            return product, argk
    check_threads(threads)
    arguments = read_arguments("gemm_argk", {"a": a, "b": b}, _selecting(as_semiring(semiring)))
    arrays, problem, batch = arguments.arrays, arguments.problem, arguments.batch
    with arrays.in_force(), enough_memory(arguments):
        chosen = choose(problem, backend, arrays, batch)
        arrays.refuse_capture("this product has not been computed before", "call it once before the capture begins")
        x, y = arguments.operands().values()
        product, argk = (arrays.empty(arguments.shape, dtype) for dtype in (problem.dtype, np.dtype(np.int32)))
        whole = as_batch(arguments, chosen)
        locate = _Locator(whole or problem, chosen, arrays, threads)
        is_at_once = whole is not None and product.size > 0 and locate.at_once(Operands(x, y, None, product), argk)
        if not is_at_once:
            locate = _Locator(problem, chosen, arrays, threads)
            for index in np.ndindex(batch) if product.size else ():
                locate(Operands(x[index], y[index], None, product[index]), argk[index])
        is_converted = any(z.dtype != problem.dtype for z in (arguments.inputs["a"], arguments.inputs["b"]))
        is_all = is_at_once or not batch
        if locate.prepared is not None and arrays.on_device and is_all and not is_converted:
            repeats.remember(options, locate.prepared, arrays, (a, b), (product, argk), None)
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
    """Compute products of one Problem, each with its argk; `arrays` is the kind of the operands."""

    def __init__(self, problem: Problem, backend: Backend, arrays: Arrays, threads: int | None) -> None:
        self._problem, self._backend, self._arrays, self._threads = problem, backend, arrays, threads
        self._here = machine_of(threads)
        self._plan = backend.plan(problem, self._here)
        self.prepared: Prepared | None = None  # the last product by a backend that itself says which k it was

    def at_once(self, operands: Operands, argk: Any) -> bool:
        """Have the backend itself write ``a (x) b``, and where it comes from; return whether it can."""
        execution = self._backend.prepare_argk(self._plan, operands, argk)
        if execution is None:
            return False
        self.prepared = Prepared(self._plan, operands, execution)
        with limited_to(self._threads, self._backend):
            self.prepared.run_once()
        return True

    def __call__(self, operands: Operands, argk: Any) -> None:
        """Write ``a (x) b`` to `operands.out`, and where it comes from to `argk`."""
        if self.at_once(operands, argk):
            return
        if self._arrays.on_device:
            name, fix = self._backend.name, f"backend='auto', or {self._arrays.other_way}"
            raise BackendUnavailable(f"backend {name!r} does not say which k it was", fix=fix)
        if self._problem.dtype == HALF:
            raise BackendUnavailable(
                f"gemm_argk: backend {self._backend.name!r} does not say which k it was; no float16 is searched",
                got=str(self._problem),
                fix="convert a and b with astype('float32'); or arrays on a GPU",
            )
        if not self._problem.k:
            operands.out.fill(self._problem.semiring.zero(self._problem.dtype))
            argk.fill(NO_K)
        else:
            with limited_to(self._threads, self._backend):
                self._search(operands, argk)

    def _search(self, operands: Operands, argk: np.ndarray) -> None:
        """Write product and argk by a backend that does not say which k it was: number blocks of k, and search them."""
        problem, part, (a, b, product) = self._problem, self._part, (operands.a, operands.b, operands.out)
        ranges = part.ranges_of(problem.semiring, a, b)
        if self._pack(operands, argk, ranges):
            return
        block = part.blocks_of(problem.m, problem.n)
        steps = (
            self._number_at_once(self._backend, self._plan, operands, block)
            or self._number_beside(operands, block)
            or self._number_tiles(operands, block)
        )
        search = part.passes(problem.semiring, problem.dtype, steps).search
        if not search(a, b, product, block, argk, ranges, *tuning_argk.argk_searched(problem, self._here)):
            self._refuse()

    @functools.cached_property
    def _part(self) -> Any:
        return importlib.import_module(_PASSES)

    def _pack(self, operands: Operands, argk: np.ndarray, ranges: Any) -> bool:
        """Have the product carry k beside its values, in parts of k if need be; return whether there is room for it."""
        problem, product = self._problem, operands.out
        packing = self._part.packing(problem.semiring, problem.dtype, problem.k, ranges, tuning_argk.ARGK_PACKED_STEPS)
        if packing is None:
            return False
        for begin in range(0, problem.k, packing.steps):
            part = slice(begin, begin + packing.steps)
            terms = aligned_empty(product.shape, product.dtype) if begin else product
            x, y = packing.operands(operands.a[:, part], operands.b[part])
            packing.unpack(self._prepare(Operands(x, y, None, terms)).run_once(), product, argk, begin)
        return True

    def _number_at_once(self, backend: Backend, plan: Plan, operands: Operands, block: np.ndarray) -> int:
        """Have a backend write the product, and the numbers of blocks to `block`; return the steps of a block, or 0."""
        steps = tuning_argk.argk_steps(self._problem)
        execution = backend.prepare_blocks(plan, operands, block, steps)
        if execution is None:
            return 0
        Prepared(plan, operands, execution).run_once()
        return steps

    def _number_beside(self, operands: Operands, block: np.ndarray) -> int:
        """Have `_NUMBERS` number blocks beside the product of the backend asked for; return the steps of one, or 0."""
        able = (other for other in registry.able(self._problem, on_device=False) if other.name == _NUMBERS)
        beside = next(able, self._backend)
        if beside is self._backend:
            return 0
        apart = dataclasses.replace(operands, out=aligned_empty(operands.out.shape, operands.out.dtype))
        steps = self._number_at_once(beside, beside.plan(self._problem, self._here), apart, block)
        if steps:
            prepare(self._backend, self._plan, operands).run_once()
        return steps

    def _number_tiles(self, operands: Operands, block: np.ndarray) -> int:
        """Write the product and the numbers of blocks by any backend, tile by tile of C; return the steps of each."""
        problem, dtype, (a, b, product) = self._problem, self._problem.dtype, (operands.a, operands.b, operands.out)
        height, width, steps = tuning_argk.argk_blocks(problem, self._here)
        merge = self._part.passes(problem.semiring, dtype, steps).merge
        product.fill(problem.semiring.zero(dtype))
        block.fill(NO_K)
        panel, terms = np.zeros((problem.k, width), dtype), aligned_empty((height, width), dtype)
        tiles = [slice(i, min(i + height, problem.m)) for i in range(0, problem.m, height)]
        parts = [slice(begin, begin + steps) for begin in range(0, problem.k, steps)]
        prepared = [
            [self._prepare(Operands(a[rows, p], panel[p], None, terms[: rows.stop - rows.start])) for p in parts]
            for rows in tiles
        ]
        for j in range(0, problem.n, width):
            columns = slice(j, min(j + width, problem.n))
            panel[:, : columns.stop - j] = b[:, columns]
            for rows, products in zip(tiles, prepared, strict=True):
                for q, part in enumerate(products):
                    merge(part.run_once(), product[rows, columns], block[rows, columns], q)
        return steps

    def _prepare(self, operands: Operands) -> Prepared:
        """Prepare a part of the product by the backend asked for."""
        (m, n), problem = operands.out.shape, self._problem
        part = Problem(m, n, len(operands.b), problem.semiring, problem.dtype)
        return prepare(self._backend, self._backend.plan(part, self._here), operands)

    def _refuse(self) -> None:
        name = self._problem.semiring.name
        raise VerificationError(
            f"gemm_argk: an element of the product by {self._backend.name} is none of its terms",
            expected="a[i, k] (x) b[k, j] == product[i, j] for some k",
            got=f"none, over {name} and {self._problem.dtype.name}",
            fix="is_selective=True only if add returns one of its operands" if name not in SEMIRINGS else "",
        )
