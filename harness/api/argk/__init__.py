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

import functools
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from harness.api import libraries
from harness.api.argk.given import Pair, check_pair, is_computed_into, pair_of
from harness.api.argk.locator import Locator
from harness.api.arguments import Arguments, read_arguments
from harness.api.arrays import HOST, kind_of
from harness.api.choice import choose
from harness.api.gemm import as_batch, enough_memory
from harness.api.libraries import view_products
from harness.api.libraries.view_products import ARGK
from harness.api.limits import check_threads, limited_to
from harness.api.remembered import repeats, staged
from harness.errors import ProblemError
from harness.interface import Backend
from harness.operands import Operands
from harness.semiring import SEMIRINGS, Semiring, as_semiring


def gemm_argk(
    a: Any,
    b: Any,
    *,
    semiring: str | Semiring = "min_plus",
    backend: str = "auto",
    threads: int | None = None,
    out: tuple[Any, Any] | None = None,
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
    out : pair of (..., m, n) arrays, optional
        Where product and argk go, the second of int32. Each may overlap a or b, but not the other one.

    Returns
    -------
    product : (..., m, n) array
        What `harness.gemm` returns.
    argk : (..., m, n) array of int32
        A NaN term is absent and never named; -0.0 and 0.0 are equal. Both are arrays of the library of a and b, or
        those of `out`.

    Raises
    ------
    ProblemError
        As in `harness.gemm`; or if (+) does not select, or `out` is no pair of such arrays.
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
    if a.__class__ is not np.ndarray and (library := libraries.library_of(a) or libraries.library_of(b)) is not None:
        rest = {"semiring": semiring, "backend": backend, "threads": threads}
        if (uncompiled := library.uncompiled()) is not None:
            return uncompiled(gemm_argk, a, b, out=out, **rest)  # type: ignore[no-any-return]
        return view_products.argk_of(library, gemm_argk, a, b, pair_of(out), rest)  # type: ignore[no-any-return]
    if (pair := pair_of(out)) is not None:
        return _into(pair, a, b, semiring, backend, threads)
    options = repeats.options_of_argk(semiring=semiring, backend=backend, threads=threads)
    results = _recall(options, (a, b))
    if results is None:
        threads, arguments = _read(a, b, semiring, threads)
        results = _compute(arguments, backend, threads, options)
    product, argk = results
    return product, argk


def _into(out: Pair, a: Any, b: Any, semiring: str | Semiring, backend: str, threads: int | None) -> Pair:
    """Write the results to `out`, and return it."""
    options = repeats.options_of_argk(semiring=semiring, backend=backend, threads=threads)
    results = _recall(options, (a, b)) if a.__class__ is np.ndarray else None
    if results is not None:
        check_pair(HOST, out, results[0].shape, (results[0].dtype, ARGK))
        return _copied(results, out)
    threads, arguments = _read(a, b, semiring, threads)
    arrays = kind_of("gemm_argk", {"a": a, "b": b, **dict(zip(view_products.NAMES, out, strict=True))})
    plain = check_pair(arrays, out, arguments.shape, (arguments.problem.dtype, ARGK))
    with arrays.in_force():
        arrays.refuse_capture("it copies its results to out", "call it without out")
        results = _recall(options, (a, b))
        if results is not None:
            return _copied(results, out)
        if is_computed_into(arrays, plain, arguments.inputs.values()):
            _compute(arguments, backend, threads, options, plain)
            return out[0], out[1]
        return _copied(_compute(arguments, backend, threads, options), out)


def _read(a: Any, b: Any, semiring: str | Semiring, threads: int | None) -> tuple[int | None, Arguments]:
    """Return the number of threads, and the arguments of a product that selects."""
    try:
        count = check_threads(threads)
        return count, read_arguments("gemm_argk", {"a": a, "b": b}, _selecting(as_semiring(semiring)))
    except ProblemError as error:
        raise error.told_by("gemm_argk") from None


def _copied(results: Iterable[Any], out: tuple[Any, Any]) -> tuple[Any, Any]:
    for x, result in zip(out, results, strict=True):
        x[...] = result
    return out


def _recall(options: Hashable, operands: tuple[Any, Any]) -> tuple[Any, ...] | None:
    """Compute a remembered product, and return its results; None: it is not remembered, and nothing was done."""
    kind = operands[0].__class__
    if kind is np.ndarray:
        return staged.recall(options, operands, None)
    return repeats.recall(options, operands) if kind in repeats.classes else None


def _compute(
    arguments: Arguments, backend: str, threads: int | None, options: Hashable, out: tuple[Any, Any] | None = None
) -> tuple[Any, Any]:
    """Return product and argk of arguments that fit, in `out` if given, and remember the product by `options`."""
    arrays, problem, batch = arguments.arrays, arguments.problem, arguments.batch
    with arrays.in_force(), enough_memory("gemm_argk", arguments):
        chosen = choose(problem, backend, arrays, batch)
        arrays.refuse_capture("this product has not been computed before", "call it once before the capture begins")
        x, y = arguments.operands().values()
        product, argk = out or [arrays.empty(arguments.shape, dtype) for dtype in (problem.dtype, ARGK)]
        whole = as_batch(arguments, chosen)
        locator = Locator(whole or problem, chosen, arrays, threads)
        run = locator.by_itself(Operands(x, y, None, product), argk) if product.size and whole else None
        if run is not None:
            _run(run, chosen, threads)
        else:
            locator = Locator(problem, chosen, arrays, threads)
            for index in np.ndindex(batch) if product.size else ():
                _run(locator.locate(Operands(x[index], y[index], None, product[index]), argk[index]), chosen, threads)
        if run is not None or not batch:
            _remember(options, arguments, locator, (product, argk), threads)
    return product, argk


def _run(run: Any, backend: Backend, threads: int | None) -> None:
    with limited_to(threads, backend):
        run()


def _remember(
    options: Hashable, arguments: Arguments, locator: Locator, results: tuple[Any, Any], threads: int | None
) -> None:
    """Remember a product that was computed all at once."""
    arrays, backend, inputs = arguments.arrays, locator.backend, tuple(arguments.inputs.values())
    if not arrays.on_device and backend.rereads_operands:
        limited = functools.partial(limited_to, threads, backend)
        staged.remember(options, arguments, None, locator.again, limited, (ARGK,))
    elif arrays.on_device and locator.prepared is not None and not arguments.are_converted():
        repeats.remember(options, locator.prepared, arrays, inputs, results, None)


def _selecting(semiring: Semiring) -> Semiring:
    if not semiring.add.is_selective:
        raise ProblemError(
            f"gemm_argk: over {semiring.name!r} an element is no single term, so that no k attains it",
            expected=", ".join(name for name, known in SEMIRINGS.items() if known.add.is_selective),
            got=semiring.name,
            fix="Semiring.from_functions(..., is_selective=True) if add returns one of its operands",
        )
    return semiring
