"""The local product of a rank: any backend of this machine, prepared once for each set of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.api.arguments import read_arguments
from harness.api.arrays import HOST, Arrays, kind_of
from harness.api.choice import choose
from harness.api.limits import limited_to, machine_of
from harness.interface import Prepared, make_plan, prepare
from harness.operands import Operands
from harness.problem import Problem


class LocalProduct:
    """``out := alpha (x) A (x) B (+) beta (x) C`` over a problem's semiring and dtype by one backend.

    What does not depend on values is done when arrays are seen for the first time. A rank multiplies the same few.

    Parameters
    ----------
    problem : Problem
        The whole product.
    backend : str
        A name, or ``"auto"``.
    threads : int or None
        None: settings of libraries are left alone.
    arrays : Arrays
        The kind that it is called with.

    Attributes
    ----------
    accumulates_in_place : bool
        Whether C may be `out`.
    """

    def __init__(self, problem: Problem, backend: str, threads: int | None, arrays: Arrays = HOST) -> None:
        self._problem, self._threads, self._on_device = problem, threads, arrays.on_device
        self._backend = choose(problem, backend, arrays)
        self.accumulates_in_place = self._backend.accumulates_in_place
        self._prepared: dict[Any, Prepared] = {}

    def ready(self, a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> Callable[[], Any]:
        """Return what computes once. On a GPU it is enqueued in the current stream, and nobody waits for it."""
        key = alpha is None, beta is None, *map(_place, (a, b, c, out))
        is_new = key not in self._prepared
        if is_new:
            self._prepared[key] = self._prepare(a, b, c, alpha, beta, out)
        prepared, reads_anew = self._prepared[key], not (is_new or self._on_device)

        def compute() -> Any:
            if reads_anew:
                prepared.upload()  # a GPU keeps copies of arrays on the host, whose values are others by now
            with limited_to(self._threads, self._backend):
                return prepared.run_once()

        return compute

    def _prepare(self, a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> Prepared:
        whole, given = self._problem, {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
        arguments = read_arguments(
            "gemm", given, whole.semiring, alpha=alpha, beta=beta, out=out, dtype=whole.dtype
        )  # checks that panels fit together, and finds their layout
        plan = make_plan(self._backend, arguments.problem, machine_of(self._threads))
        return prepare(self._backend, plan, Operands(a, b, c, out))


def host_local(problem: Problem, backend: str, threads: int | None) -> LocalProduct:
    """Return the local product of `problem` on processors."""
    return LocalProduct(problem, backend, threads)


def device_local(problem: Problem, backend: str) -> LocalProduct:
    """Return the local product of `problem` on the current GPU."""
    import cupy

    return LocalProduct(problem, backend, None, kind_of("gemm", {"a": cupy.empty(1)}))


def _place(x: Any) -> Any:
    """Return what tells arrays in memory apart."""
    if x is None:
        return None
    interface = getattr(x, "__cuda_array_interface__", None) or x.__array_interface__
    return interface["data"][0], x.shape, x.strides
