"""`gemm`, `gemm_argk` of arrays of other libraries: by address where a GPU has a product remembered, else by views."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from harness.api.libraries import Library
from harness.api.libraries.base import Pointer
from harness.api.libraries.gpu import cupy
from harness.api.libraries.views import by_views
from harness.api.remembered import repeats
from harness.operands import broadcast
from harness.problem import CONJUGATES

ARGK = np.dtype(np.int32)  # of the second result of `gemm_argk`
NAMES = "out[0]", "out[1]"  # of the results of `gemm_argk`


def gemm_of(
    library: Library, gemm: Callable[..., Any], a: Any, b: Any, c: Any, out: Any, options: dict[str, Any]
) -> Any:
    """Return ``gemm(a, b, c, out=out, **options)``, where a is an array of `library`."""
    lazily, asked = [library.is_conjugated(x) for x in (a, b)], options["conjugate"]
    if True in lazily and asked.__class__ is str and asked in CONJUGATES:
        a, b = (x.conj() if is_lazy else x for x, is_lazy in zip((a, b), lazily, strict=True))
        which = "".join(name for name, is_lazy in zip("ab", lazily, strict=True) if is_lazy != (name in asked))
        options = {**options, "conjugate": which}
    operands = (a, b) if c is None else (a, b, c)
    quick = library.quick_place(operands if out is None else (*operands, out))
    if quick is not None and quick[0] is not None and library.has_addresses:
        makes_new = not options["triangle"] and options["dtype"] is None
        results = _recall(library, quick[0], repeats.options_of_gemm(**options), operands, out, 1 if makes_new else 0)
        if results is not None:
            return results[0]
    arrays = dict(zip("abc", operands, strict=False))
    if out is not None:
        arrays["out"] = out
    return by_views(gemm, library, arrays, options, form=_form, quick=quick)


def argk_of(
    library: Library,
    gemm_argk: Callable[..., Any],
    a: Any,
    b: Any,
    out: tuple[Any, Any] | None,
    options: dict[str, Any],
) -> Any:
    """Return ``gemm_argk(a, b, out=out, **options)``, where a or b is an array of `library`."""
    if out is not None:
        return _argk_into(library, gemm_argk, a, b, out, options)
    quick = library.quick_place((a, b))
    if quick is not None and quick[0] is not None and library.has_addresses:
        results = _recall(library, quick[0], repeats.options_of_argk(**options), (a, b), None, len(NAMES))
        if results is not None:
            return results
    return by_views(gemm_argk, library, {"a": a, "b": b}, options, quick=quick)


def _recall(
    library: Library, place: int, options: Hashable, operands: tuple[Any, ...], out: Any, count: int
) -> tuple[Any, ...] | None:
    """Return the results of a product that is remembered, computed without a view; None: it takes views.

    Without `out` they are `count` new arrays; 0: it takes views.
    """
    arrays = operands if out is None else (*operands, out)
    pointers = [library.pointer(x) for x in arrays]
    try:
        key = options, len(operands), count, place, *map(library.layout, arrays, pointers)
        known = repeats.elsewhere.get(key)
        if known is None:
            known = _find(library, place, options, operands, out, count)
            if known is None:
                return None
            repeats.elsewhere.put(key, known)
    except TypeError:  # an option is not hashable, which the checks report
        return None
    entry, makers = known
    if out is None:
        results = tuple([make() for make in makers])
        pointers += [library.pointer(x) for x in results]
    elif repeats.overlaps(entry, pointers[:-1], pointers[-1]):
        return None
    else:
        results = (out,)
    taken = [Pointer(x) for x in (*pointers[: entry.used], *pointers[len(operands) :])]
    context = library.in_force(place)
    if context is None:
        entry.repeat(*taken)
    else:
        with context:
            entry.repeat(*taken)
    if out is not None:
        library.wrote(out)
    return results


def _find(
    library: Library, place: int, options: Hashable, operands: tuple[Any, ...], out: Any, count: int
) -> tuple[Any, list[Callable[[], Any]]] | None:
    """Return what is remembered of a product by addresses, and what makes new results; None: it takes views."""
    addresses, cls, makers = [library.address(x, place) for x in operands], cupy().ndarray, []
    target = None if out is None else library.address(out, place)
    if out is None:
        (a, b), dtypes = addresses[:2], (addresses[0].dtype, ARGK)[:count]
        if not count or len(a.shape) != 2 or len(b.shape) != 2 or a.dtype != b.dtype:
            return None
        shape = a.shape[0], b.shape[1]
        makers = [library.maker(shape, dtype, place) for dtype in dtypes]
        if count == 1:  # `gemm` has a new array for its `out`
            target = library.address(makers[0](), place)
    entry = repeats.find_at(options, addresses, target, cls)
    if entry is None or (count > 1 and (entry.shape, *entry.dtypes) != (shape, *dtypes)):
        return None
    return entry, makers


def _argk_into(
    library: Library, gemm_argk: Callable[..., Any], a: Any, b: Any, out: tuple[Any, Any], options: dict[str, Any]
) -> tuple[Any, Any]:
    """Have `gemm_argk` write to views of `out`, and return that."""

    def write(a: Any, b: Any, **rest: Any) -> None:
        gemm_argk(a, b, out=tuple(rest.pop(name) for name in NAMES), **rest)

    write.__name__ = gemm_argk.__name__  # which messages name
    by_views(write, library, {"a": a, "b": b, **dict(zip(NAMES, out, strict=True))}, options)
    for x in out:
        library.wrote(x)
    return out


def _form(views: dict[str, Any], options: dict[str, Any]) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return shape and dtype of the result of arguments that fit; None if they do not, or all of it is to be filled."""
    if options["triangle"]:
        return None
    try:
        operands = views.values()
        dtype = options["dtype"] or np.result_type(*[x.dtype for x in operands])
        batch = () if all(x.ndim == 2 for x in operands) else broadcast(*[x.shape[:-2] for x in operands])
        return (*batch, views["a"].shape[-2], views["b"].shape[-1]), np.dtype(dtype)
    except (ValueError, TypeError, IndexError):
        return None
