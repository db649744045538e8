"""How `gemm_argk` finds the k of each element: by the backend itself, or by a product and what comes after it.

A `Locator` prepares that as one function, which can be called any number of times. Work memory is the thread's scratch.
A function that is kept has memory of its own, since another thread may call it.

Any byte of a bool but 0 is true, and the passes compare bytes. So they read copies of the operands, whose bytes are 0
and 1.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from harness.api.argk.numbering import Numbered, number_blocks, passes, prepare_part
from harness.api.argk.slices import NO_K, Slices
from harness.api.arrays import Arrays
from harness.api.limits import machine_of
from harness.dtypes import is_bool
from harness.errors import BackendUnavailable, VerificationError
from harness.interface import Backend, Prepared, make_plan
from harness.machine import Machine
from harness.operands import Operands, distinct
from harness.problem import Problem
from harness.semiring import HALF, SEMIRINGS
from harness.tuning import argk as tuning_argk

Run = Callable[[], Any]


class Locator:
    """Prepare products of one Problem, each with its argk.

    Parameters
    ----------
    problem : Problem
    backend : Backend
    arrays : Arrays
        The kind of the operands.
    threads : int or None

    Attributes
    ----------
    prepared : Prepared or None
        The last product by a backend that itself says which k it was.
    """

    def __init__(self, problem: Problem, backend: Backend, arrays: Arrays, threads: int | None) -> None:
        self.backend, self._problem, self._arrays = backend, problem, arrays
        self._here = machine_of(threads)
        self._plan = make_plan(backend, problem, self._here)
        self.prepared: Prepared | None = None

    def by_itself(self, operands: Operands, argk: Any) -> Run | None:
        """Have the backend itself prepare ``a (x) b`` with where it comes from; None: it cannot."""
        return self._of_truth(operands, lambda read: self._by_itself(read, argk))

    def _of_truth(self, operands: Operands, prepare: Callable[[Operands], Run | None]) -> Run | None:
        """Prepare a product; of bools on the host, one of copies whose bytes are 0 and 1, made anew in every run."""
        if self._arrays.on_device or not is_bool(self._problem.dtype):
            return prepare(operands)
        given = [distinct(x) for x in (operands.a, operands.b)]
        copies = [np.empty(x.shape, x.dtype) for x in given]
        a, b = (np.broadcast_to(copy, x.shape) for copy, x in zip(copies, (operands.a, operands.b), strict=True))
        run = prepare(Operands(a, b, None, operands.out))
        if run is None:
            return None
        pairs = [(copy, x.view(np.uint8)) for copy, x in zip(copies, given, strict=True)]

        def run_of_truth() -> None:
            for copy, x in pairs:
                copy[...] = x
            run()

        return run_of_truth

    def _by_itself(self, operands: Operands, argk: Any) -> Run | None:
        execution = self.backend.prepare_argk(self._plan, operands, argk)
        if execution is None:
            return None
        self.prepared = Prepared(self._plan, operands, execution)
        return self.prepared.run_once

    def locate(self, operands: Operands, argk: Any, *, is_kept: bool = False) -> Run:
        """Return ``run()``, which writes ``a (x) b`` to `operands.out`, and where it comes from to `argk`.

        Raises
        ------
        BackendUnavailable
            If nobody says where it comes from.
        """
        run = self._of_truth(operands, lambda read: self._locate(read, argk, is_kept))
        assert run is not None
        return run

    def _locate(self, operands: Operands, argk: Any, is_kept: bool) -> Run:
        run = self._by_itself(operands, argk)
        if run is not None:
            return run
        if self._arrays.on_device:
            name, fix = self.backend.name, f"backend='auto', or {self._arrays.other_way}"
            raise BackendUnavailable(f"backend {name!r} does not say which k it was", fix=fix)
        if self._problem.dtype == HALF:
            raise BackendUnavailable(
                f"gemm_argk: backend {self.backend.name!r} does not say which k it was; no float16 is searched",
                got=str(self._problem),
                fix="convert a and b with astype('float32'); or arrays on a GPU",
            )
        if not self._problem.k:
            return functools.partial(self._fill, operands, argk)
        return _prepare(self.backend, self._problem, self._here, operands, argk, is_kept=is_kept).run

    def again(self, operands: Operands, argk: Any) -> Run:
        """Return `locate` of arrays that are kept, with work memory of its own."""
        return self.locate(operands, argk, is_kept=True)

    def _fill(self, operands: Operands, argk: Any) -> None:
        operands.out.fill(self._problem.semiring.zero(self._problem.dtype))
        argk.fill(NO_K)


def _prepare(
    backend: Backend, problem: Problem, here: Machine, operands: Operands, argk: np.ndarray, *, is_kept: bool = False
) -> _Search | Slices:
    """Return a product by a backend that does not say which k it was; slices of a long k are made anew in every run."""
    if problem.k <= tuning_argk.ARGK_LONGEST:
        return _Search(backend, problem, here, operands, argk, is_kept=is_kept)

    def search(problem: Problem, operands: Operands, argk: np.ndarray) -> None:
        _prepare(backend, problem, here, operands, argk).run()

    return Slices(backend, problem, here, operands, argk, search)


class _Own(threading.local):
    """A lock of each thread: held while a search uses the memory that the thread keeps.

    Then a signal handler, or a finalizer, that searches meanwhile has memory of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()


_own = _Own()


class _Search:
    """A product by a backend that does not say which k it was: k carried beside the values, or blocks searched."""

    def __init__(
        self, backend: Backend, problem: Problem, here: Machine, operands: Operands, argk: np.ndarray, *, is_kept: bool
    ) -> None:
        self._backend, self._problem, self._here = backend, problem, here
        self._operands, self._argk = operands, argk
        self._part, self._is_kept, self._shares = passes(), is_kept, not is_kept and not _own.lock.locked()
        self._work = self._part.scratch_of_thread if self._shares else self._part.memory_of_its_own
        self._carrying: dict[int, list[Any]] = {}  # products that carry k, by the terms in a part of k
        # Made by the first run that needs them. No cached_property: before Python 3.12 all instances share its lock,
        # which a forked child inherits as another thread holds it.
        self._blocks: tuple[Numbered, Any] | None = None

    def run(self) -> None:
        """Write product and argk; the values of A and B decide how."""
        if self._shares:
            with _own.lock:
                self._run()
        else:
            self._run()

    def _run(self) -> None:
        problem, operands = self._problem, self._operands
        ranges = self._part.ranges_of(problem.semiring, operands.a, operands.b)
        fewest = tuning_argk.ARGK_PACKED_STEPS
        packing = self._part.packing(problem.semiring, problem.dtype, problem.k, ranges, fewest)
        if packing is not None:
            for product in self._carrying_products(packing.steps):
                product.run(packing)
            return
        if self._blocks is None:
            self._blocks = self._prepare_blocks()
        numbered, search = self._blocks
        numbered.run()
        if not search.run(ranges):
            self._refuse()

    def _carrying_products(self, steps: int) -> Iterable[Any]:
        """Return the products of all parts of k, of so many terms each.

        Those of kept arrays are kept. Others, which may be large, are made one after the other.
        """
        products = (
            self._part.CarryingProduct(self._operands, self._argk, begin, steps, self._prepare, self._work)
            for begin in range(0, self._problem.k, steps)
        )
        if self._is_kept and steps not in self._carrying:
            self._carrying[steps] = list(products)
        return self._carrying[steps] if self._is_kept else products

    def _prepare(self, operands: Operands) -> Prepared:
        """Prepare a part of the product by the backend asked for."""
        return prepare_part(self._backend, self._problem, self._here, operands)

    def _prepare_blocks(self) -> tuple[Numbered, Any]:
        """Return the product with the number of each element's block, and the search of the blocks.

        The `run` of the search returns whether each element was found.
        """
        problem, operands = self._problem, self._operands
        block = self._part.blocks_of(problem.m, problem.n, self._work)
        numbered = number_blocks(self._backend, problem, self._here, operands, block)
        how = problem.semiring, numbered.steps, tuning_argk.argk_searched(problem, self._here), self._work
        return numbered, self._part.BlockSearch(*how, operands, block, self._argk)

    def _refuse(self) -> None:
        name = self._problem.semiring.name
        raise VerificationError(
            f"gemm_argk: an element of the product by {self._backend.name} is none of its terms",
            expected="a[i, k] (x) b[k, j] == product[i, j] for some k",
            got=f"none, over {name} and {self._problem.dtype.name}",
            fix="is_selective=True only if add returns one of its operands" if name not in SEMIRINGS else "",
        )
