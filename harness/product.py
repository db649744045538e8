"""The public call: validates once at the edge, chooses a backend, computes every product of a batch."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from harness import device_product, machine, registry, threads, tuning
from harness.arguments import as_array, check_out, convert, order, shapes
from harness.errors import BackendUnavailable
from harness.interface import Backend, Shortcut
from harness.operands import Operands
from harness.problem import Problem
from harness.promotion import choose_dtypes
from harness.semiring import Scalar, Semiring, as_semiring


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    semiring: str | Semiring = "plus_times",
    alpha: Scalar = None,
    beta: Scalar = None,
    out: Any = None,
    backend: str = "auto",
    threads: int | None = None,
    dtype: Any = None,
) -> Any:
    """Compute ``D = (alpha (x) A (x) B) (+) (beta (x) C)`` over a semiring.

    Parameters
    ----------
    a : (..., m, k) array
        Any strides: transposed, sliced, negative, Fortran order, read-only, zero-sized.
    b : (..., k, n) array
        Likewise. Leading dimensions of a, b and c broadcast as in `numpy.matmul`.
    c : (..., m, n) array, optional
        Without it the result is ``alpha (x) A (x) B``.
    semiring : str or Semiring
        ``"plus_times"``, ``"min_plus"``, ... or an object of your own.
    alpha, beta : scalar, optional
        None: the semiring's one. A beta that is the semiring's zero means that c is not read.
    out : (..., m, n) array, optional
        Where the result goes; may be c, or overlap any operand. Its dtype must be the result's.
    backend : str
        A name from ``python -m harness list``, or ``"auto"``.
    threads : int, optional
        For this call; None leaves the settings of BLAS and Numba alone.
    dtype : numpy dtype, optional
        Of the sums and of the result. None: ``numpy.result_type`` of a, b and c. ``float32`` for a and b of float16 or
        of bfloat16, and ``int32`` for a and b of int8, make a mixed product: they are multiplied as they are, and c
        must be of `dtype`.

    Returns
    -------
    (..., m, n) array of dtype
        `out` if given, else a new C-ordered array. For arrays of CuPy one of CuPy, on the GPU that all of them lie on:
        it is computed there, in the current stream, and the call does not wait for it.

    Raises
    ------
    ProblemError
        If shapes, dtypes, scalars or arrays do not fit, before any work. Arrays on the host and on a GPU, or on several
        GPUs, do not.
    BackendUnavailable
        If the backend is unknown, misses something here, or declines the problem.

    Notes
    -----
    The rules on NaN, infinities and integer overflow are in docs/semirings.md.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.array([[0.0, 1.0], [np.inf, 0.0]])
    >>> gemm(distances, distances, semiring="min_plus")
    array([[ 0.,  1.],
           [inf,  0.]])
    """
    is_plain = c is None and alpha is None and beta is None and threads is None and backend == "auto" and dtype is None
    if is_plain and semiring.__class__ is str and semiring in _shortcuts:
        result = _take_shortcut(_shortcuts[semiring], a, b, out)
        if result is not None:
            return result
    semiring = as_semiring(semiring)
    check_threads(threads)
    given = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    if any(map(device_product.is_device_array, (*given.values(), out))):
        request = device_product.Request("gemm", semiring, alpha, beta, backend, dtype)
        return device_product.gemm(given, out, request)
    arrays = {name: as_array(name, x) for name, x in given.items()}
    dtype, operand_dtype = choose_dtypes(arrays, dtype)
    batch, (m, n, k) = shapes(arrays)
    problem = Problem(m, n, k, semiring, dtype, alpha, beta, c is not None, operand_dtype=operand_dtype)
    dtype = problem.dtype
    check_out(out, (*batch, m, n), dtype)
    layout = order(arrays["a"]) + order(arrays["b"]) + ("C" if out is None else order(out))
    problem = dataclasses.replace(problem, layout=layout)
    chosen = choose(problem, backend)
    if is_plain:
        _offer_shortcut(chosen, semiring, dtype)
    operands = {name: convert(x, dtype if name == "c" else problem.input_dtype, batch) for name, x in arrays.items()}
    result = np.empty((*batch, m, n), dtype) if out is None else out
    overlaps = any(np.may_share_memory(result, x) for x in operands.values())
    target = np.empty((*batch, m, n), dtype) if overlaps else result
    quick = _shortcuts.get(semiring.name, {}).get(id(np.dtype(dtype.type))) if is_plain and batch else None
    _compute(problem, chosen, operands, target, batch, threads, quick)
    if target is not result:
        result[...] = target
    return result


# By name of the semiring, and the identity of a dtype that NumPy made (which lives as long as the process).
_shortcuts: dict[str, dict[int, Shortcut | None]] = {}


def _take_shortcut(by_dtype: dict[int, Shortcut | None], a: Any, b: Any, out: np.ndarray | None) -> np.ndarray | None:
    """Return the product if a, b and out are plain matrices that a shortcut takes, else None and nothing is done."""
    if a.__class__ is not np.ndarray or b.__class__ is not np.ndarray:
        return None
    dtype = a.dtype
    compute = by_dtype.get(id(dtype)) or by_dtype.get(_id_of_equal(dtype))
    if compute is None or not _is_same(b.dtype, dtype) or a.ndim != 2 or b.ndim != 2:
        return None
    if out is None:
        out = np.empty((a.shape[0], b.shape[1]), dtype)
    elif out.__class__ is not np.ndarray or not _is_same(out.dtype, dtype) or out.ndim != 2 or not out.flags.writeable:
        return None
    return out if compute(a, b, out) else None


def _is_same(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    return dtype is other or dtype == other


def _id_of_equal(dtype: np.dtype[Any]) -> int:
    """Return the identity of NumPy's own object for `dtype`: arrays that were pickled have another, equal one."""
    own = np.dtype(dtype.type)
    return id(own) if own == dtype else 0


def _offer_shortcut(backend: Backend, semiring: Semiring, dtype: np.dtype[Any]) -> None:
    """Keep the shortcut of the backend that was chosen, if there is one, for the next call."""
    if not semiring.is_named:
        return
    native = np.dtype(dtype.type)
    by_dtype = _shortcuts.setdefault(semiring.name, {})
    if id(native) not in by_dtype:
        by_dtype[id(native)] = backend.shortcut(semiring, native)


def check_threads(count: int | None) -> None:
    """Raise unless `count` is None or a number of threads."""
    if count is not None:
        threads.check(count)


def limited_to(count: int | None) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which BLAS and Numba have `count` threads; with None nothing changes."""
    return contextlib.nullcontext() if count is None else threads.limit(count)


def _compute(
    problem: Problem,
    backend: Backend,
    operands: dict[str, np.ndarray],
    out: np.ndarray,
    batch: tuple[int, ...],
    count: int | None,
    quick: Shortcut | None,
) -> None:
    """Run `backend` once for each product of the batch, with `count` threads, or `quick` for those that it takes."""
    here = machine.detect()
    plan = backend.plan(problem, here if count is None else here.with_threads(count))
    limited: contextlib.AbstractContextManager[Any] | None = None
    with contextlib.ExitStack() as stack:
        for index in np.ndindex(batch):
            a, b = operands["a"][index], operands["b"][index]
            if quick is not None and quick(a, b, out[index]):
                continue
            c = operands["c"][index] if problem.accumulate else None
            execution = backend.prepare(plan, Operands(a, b, c, out[index]))
            if limited is None:  # only now: preparing may have loaded the library whose threads are meant
                limited = limited_to(count)
                stack.enter_context(limited)
            execution.run()
            execution.wait()
            produced = execution.result()
            if not np.may_share_memory(produced, out[index]):
                out[index] = produced


def choose(problem: Problem, name: str) -> Backend:
    """Return the backend of that name, or for ``"auto"`` the best that can compute `problem` here.

    Raises
    ------
    BackendUnavailable
        If there is none, or it declines.
    """
    if name == "auto":
        return _choose_automatically(problem)
    backend = registry.find(name)
    reason = backend.refuses(problem)
    if reason:
        raise BackendUnavailable(
            f"backend {name!r} declines this product",
            got=f"{problem}: {reason}",
            fix="backend='auto', or another from `python -m harness list`",
        )
    return backend


def _choose_automatically(problem: Problem) -> Backend:
    candidates = list(registry.able(problem))
    for backend in candidates:
        if backend.name == tuning.AUTO_FIRST:
            return backend
    if not candidates:
        raise BackendUnavailable(f"no backend here computes {problem}")
    return candidates[0]
