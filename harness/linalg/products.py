"""Products of windows of matrices, by one backend: all that differs between two runs of an algorithm.

`harness.gemm` copies a result that may overlap an operand, and two windows of one matrix may seem to. Here the
algorithm vouches for it: operands share no memory with the result, so that products go straight into the window. A
product is added to its window in place where the backend can (`accumulates_in_place`).

Products on a device are remembered by layout (`harness.api.remembered.repeats`): an algorithm called again prepares
none.
Those of an algorithm whose windows depend on layouts alone are recorded whole (`tapes`).
On the host those of a backend that has shortcuts take them, as `gemm` does: they are neither planned nor prepared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from harness import arithmetic
from harness.api.arrays import Arrays
from harness.api.choice import check_backend, choose, limited_shortcut
from harness.api.limits import check_threads, enter, limited_to, machine_of
from harness.api.remembered import repeats
from harness.api.remembered.recent import Recent
from harness.api.remembered.shortcuts import shortcut_of
from harness.errors import ProblemError
from harness.interface import Backend, Prepared, Repeat, Shortcut, make_plan, prepare
from harness.linalg.stages import Stages
from harness.linalg.tapes import Tape
from harness.operands import Operands, broadcast
from harness.plan import Plan
from harness.problem import Problem


class _Remembered(NamedTuple):
    """A product on a device, and whether it adds to its output, rather than to a C beside it."""

    repeat: Repeat
    is_in_place: bool


# Most products that are remembered, a few KiB each: half of them do for the Hessenberg reduction of 10000 rows, which
# has about 12 for each panel of 32 columns.
MOST = 8192

# Most algorithms that are remembered whole, some ten KiB each.
MOST_TAPES = 256

_remembered = Recent[_Remembered](lambda: MOST)
_tapes = Recent[Tape](lambda: MOST_TAPES)


def forget() -> None:
    """Forget every product on a device."""
    _remembered.clear()
    _tapes.clear()


class Products:
    """Products over plus_times by one backend. A context: inside it the backend has its number of threads.

    Parameters
    ----------
    caller : str
        The call that errors about `threads` name.
    arrays : Arrays
    dtype : numpy dtype
        Of the sums and results.
    backend, threads
        As in `harness.gemm`.
    stages, stage : Stages and str, optional
        Where their time is entered, for the stage named `stage`.
    operand_dtype : numpy dtype, optional
        Of A and B in mixed products.

    Attributes
    ----------
    operations : int
        Of all products so far: two per pair.
    operand_dtype : numpy dtype or None
    """

    def __init__(
        self,
        caller: str,
        arrays: Arrays,
        dtype: np.dtype[Any],
        backend: str,
        threads: int | None,
        *,
        stages: Stages | None = None,
        stage: str = "products",
        operand_dtype: np.dtype[Any] | None = None,
    ) -> None:
        try:
            threads = check_threads(threads)
        except ProblemError as error:
            raise error.told_by(caller) from None
        check_backend(backend)
        self.arrays, self.dtype, self.operations = arrays, dtype, 0
        self._backend, self._threads, self.operand_dtype = backend, threads, operand_dtype
        self._stages, self._stage = Stages(arrays) if stages is None else stages, stage
        self._plans: dict[tuple[Any, ...], tuple[Backend, Plan] | None] = {}
        self._shortcuts: dict[bool, Shortcut] = {}
        self._tape: Tape | None = None  # that records products now
        self._context = contextlib.ExitStack()
        self._is_limited = False

    def __enter__(self) -> Self:
        enter(self._context, self.arrays.in_force())
        return self

    def __exit__(self, *error: object) -> None:
        self._context.close()
        self._is_limited = False

    def chosen(self) -> tuple[np.dtype[Any], str, int | None]:
        """Return dtype, backend and threads, by which another process makes the same products."""
        return self.dtype, self._backend, self._threads

    def multiply(self, a: Any, b: Any, out: Any = None) -> Any:
        """Compute ``out := a b`` and return `out`, a new array if there is none."""
        if out is None:
            batch = () if a.ndim == b.ndim == 2 else broadcast(a.shape[:-2], b.shape[:-2])
            out = self.arrays.empty((*batch, a.shape[-2], b.shape[-1]), self.dtype)
        self._compute(a, b, out, accumulate=False)
        return out

    def repeated(self, a: Any, b: Any, out: Any) -> Callable[[], Any]:
        """Return ``run()``, which computes ``out := a b`` of host matrices for the values that they then hold.

        It is prepared once where the backend reads its operands in every run.
        """
        (m, n), k = out.shape, a.shape[1]
        backend, plan = self._plan_of_one(m, n, k, False)
        if not backend.rereads_operands or out.size == 0:
            return functools.partial(self.multiply, a, b, out)
        prepared: list[Prepared] = []

        def run() -> None:
            with self._stages.during(self._stage):
                if prepared:
                    prepared[0].run_once()
                else:
                    prepared.append(self._run_first(backend, plan, a, b, out))
            self.operations += 2 * out.size * k

        return run

    def taped(self, what: Hashable, arrays: Mapping[str, Any], run: Callable[[], None]) -> None:
        """Call `run`, or where it is remembered compute what it computed, with less time on the host.

        Parameters
        ----------
        what : hashable
            With the layouts of the arrays it determines all that `run` does.
        arrays : mapping
            By name. `run` reads and writes windows of these alone, and does so by products of this object alone.
        run : callable
            Without arguments.
        """
        if not self.arrays.on_device or self._tape is not None:
            return run()
        given = list(arrays.values())
        key = what, self._options(), *map(repeats.layout, given)
        tape = _tapes.get(key)
        if tape is not None:
            with self._stages.during(self._stage):
                tape.repeat(given)
            self.operations += tape.operations
            return None
        self._tape, before = Tape(given), self.operations
        try:
            run()
            self._tape.operations = self.operations - before
            if self._tape.is_whole:
                _tapes.put(key, self._tape)
        finally:
            self._tape = None
        return None

    def add(self, a: Any, b: Any, c: Any) -> None:
        """Compute ``c := c + a b`` in place."""
        self._compute(a, b, c, accumulate=True)

    def subtract(self, a: Any, b: Any, c: Any) -> None:
        """Compute ``c := c - a b`` in place. The smaller operand is negated, since alpha scales A in many backends."""
        self.add(*((-a, b) if a.size < b.size else (a, -b)), c)

    def _compute(self, a: Any, b: Any, out: Any, *, accumulate: bool) -> None:
        """Compute each product of the batch."""
        (m, n), k, batch = out.shape[-2:], a.shape[-1], out.shape[:-2]
        if out.size == 0 or (accumulate and k == 0):
            return
        module = self.arrays.module
        if batch:
            a, b = (module.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
        is_one = not batch or (self.arrays.on_device and self._plan(m, n, k, accumulate, batch) is not None)
        matrices = [(a, b, out)] if is_one else ((a[i], b[i], out[i]) for i in np.ndindex(batch))
        with self._stages.during(self._stage):
            for operands in matrices:
                if self.arrays.on_device:
                    self._run_on_device(operands, accumulate=accumulate)
                elif not (self._shortcuts.get(accumulate) or self._shortcut(m, n, k, accumulate))(
                    *operands, *operands[2:] if accumulate else ()
                ):
                    self._run(*self._plan_of_one(m, n, k, accumulate), *operands)
        self.operations += 2 * out.size * k

    def _shortcut(self, m: int, n: int, k: int, accumulate: bool) -> Shortcut:
        """Return the shortcut of the backend, for this product and all that differ in sizes and strides alone."""
        backend, plan = self._plan_of_one(m, n, k, accumulate)
        shortcut = None
        if self.operand_dtype is None:
            shortcut = shortcut_of(backend, plan.problem, self._threads)
        if shortcut is None:
            shortcut = _no_shortcut
        else:
            shortcut = limited_shortcut(shortcut, backend, plan.problem, self._backend, self._threads)
        self._shortcuts[accumulate] = shortcut
        return shortcut

    def _run_on_device(self, operands: tuple[Any, Any, Any], *, accumulate: bool) -> None:
        """Compute one product, or a batch in one, as a remembered one if there is one, else remember it."""
        a, b, out = operands
        key = self._options(), accumulate, repeats.layout(a), repeats.layout(b), repeats.layout(out)
        known = _remembered.get(key)
        if known is None:
            (m, n), k, batch = out.shape[-2:], a.shape[-1], out.shape[:-2]
            backend, plan = self._plan(m, n, k, accumulate, batch) or self._plan_of_one(m, n, k, accumulate)
            repeat = self._run(backend, plan, a, b, out)
            if repeat is not None:
                known = _Remembered(repeat, backend.accumulates_in_place)
                _remembered.put(key, known)
        elif not accumulate:
            known.repeat(a, b, out)
        elif known.is_in_place:
            known.repeat(a, b, out, out)
        else:
            target = self.arrays.empty(out.shape, self.dtype)
            known.repeat(a, b, out, target)
            out[...] = target
        if self._tape is not None:
            is_direct = known is not None and (known.is_in_place or not accumulate)
            written = (out, out) if accumulate else (out,)
            self._tape.record(known.repeat if known and is_direct else None, (a, b, *written))

    def _options(self) -> Hashable:
        """Return all that products depend on beside layouts."""
        return self._backend, self._threads, self.operand_dtype, arithmetic.is_native()

    def _run(self, backend: Backend, plan: Plan, a: Any, b: Any, out: Any) -> Repeat | None:
        """Compute one product, and return what repeats it for other arrays of these layouts, if anything does."""
        is_in_place = backend.accumulates_in_place or not plan.problem.accumulate
        target = out if is_in_place else self.arrays.empty(out.shape, self.dtype)
        prepared = self._run_first(backend, plan, a, b, target, out if plan.problem.accumulate else None)
        if target is not out:
            out[...] = target
        return prepared.repeat()

    def _run_first(self, backend: Backend, plan: Plan, a: Any, b: Any, out: Any, c: Any = None) -> Prepared:
        """Prepare a product, compute it, and return it."""
        prepared = prepare(backend, plan, Operands(a, b, c, out))
        if not self._is_limited:  # only now: preparing may have loaded the library whose threads are meant
            enter(self._context, limited_to(self._threads, backend))
            self._is_limited = True
        prepared.run_once()
        return prepared

    def _plan_of_one(self, m: int, n: int, k: int, accumulate: bool) -> tuple[Backend, Plan]:
        """Return the backend and the plan of a product."""
        found = self._plan(m, n, k, accumulate)
        assert found is not None, "only of a batch there may be none"
        return found

    def _plan(
        self, m: int, n: int, k: int, accumulate: bool, batch: tuple[int, ...] = ()
    ) -> tuple[Backend, Plan] | None:
        """Return the backend and the plan of a product, or of a batch in one; None: the backend knows no batches."""
        key = m, n, k, accumulate, batch
        if key not in self._plans:
            problem = Problem(
                m, n, k, dtype=self.dtype, accumulate=accumulate, layout="AAA", operand_dtype=self.operand_dtype
            )
            backend = choose(problem, self._backend, self.arrays, batch)
            whole = dataclasses.replace(problem, batch=batch) if batch else problem
            is_taken = not batch or ("batch" in backend.takes and backend.refuses(whole) is None)
            self._plans[key] = (backend, make_plan(backend, whole, machine_of(self._threads))) if is_taken else None
        return self._plans[key]


def _no_shortcut(*arrays: Any) -> bool:
    """Take no product."""
    return False
