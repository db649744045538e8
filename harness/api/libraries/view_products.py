"""`gemm`, `gemm_argk` of arrays of other libraries: by address where a GPU has a product remembered, else by views."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.api.libraries import Library
from harness.api.libraries.gpu import cupy
from harness.api.libraries.views import by_views
from harness.api.remembered import repeats
from harness.operands import broadcast

ARGK = np.dtype(np.int32)  # of the second result of `gemm_argk`
NAMES = "out[0]", "out[1]"  # of the results of `gemm_argk`


def gemm_of(
    library: Library, gemm: Callable[..., Any], a: Any, b: Any, c: Any, out: Any, options: dict[str, Any]
) -> Any:
    """Return ``gemm(a, b, c, out=out, **options)``, where a is an array of `library`."""
    operands = (a, b) if c is None else (a, b, c)
    arrays = dict(zip("abc", operands, strict=False))
    if out is not None:
        arrays["out"] = out
    quick = library.quick_place(arrays.values())
    if quick is not None and quick[0] is not None and library.has_addresses:
        result = _recall(library, quick[0], operands, out, options)
        if result is not None:
            return result
    return by_views(gemm, library, arrays, options, form=_form, quick=quick)


def _recall(library: Library, place: int, operands: tuple[Any, ...], out: Any, options: dict[str, Any]) -> Any:
    """Return the result of a product that is remembered, computed without a view; None: it takes views."""
    addresses = [library.address(x, place) for x in operands]
    result = out
    if out is None:
        result = _new(library, addresses, options, place)
        if result is None:
            return None
    key = repeats.options_of_gemm(**options)
    context, target, cls = library.in_force(place), library.address(result, place), cupy().ndarray
    try:
        if context is None:
            is_done = repeats.recall_at(key, addresses, target, cls)
        else:
            with context:
                is_done = repeats.recall_at(key, addresses, target, cls)
    except TypeError:  # an option is not hashable, which the checks report
        return None
    if is_done and out is not None:
        library.wrote(out)
    return result if is_done else None


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
        results = _recall_argk(library, quick[0], (a, b), options)
        if results is not None:
            return results
    return by_views(gemm_argk, library, {"a": a, "b": b}, options, quick=quick)


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


def _recall_argk(library: Library, place: int, operands: tuple[Any, Any], options: dict[str, Any]) -> Any:
    """Return both results of a product that is remembered, computed without a view; None: it takes views."""
    addresses = [library.address(x, place) for x in operands]
    product = _new(library, addresses, {"triangle": "", "dtype": None}, place)
    if product is None:
        return None
    results = product, library.empty_like_itself(product.shape, ARGK, place)
    targets, cls = [library.address(x, place) for x in results], cupy().ndarray
    key = repeats.options_of_argk(**options)
    context = library.in_force(place)
    try:
        with context or contextlib.nullcontext():
            is_done = repeats.recall_results_at(key, addresses, targets, cls)
    except TypeError:  # an option is not hashable, which the checks report
        return None
    return results if is_done else None


def _new(library: Library, addresses: list[Any], options: dict[str, Any], place: int) -> Any:
    """Return a new array for the product of matrices of one dtype; None: they are not, or it is more than that."""
    a, b = addresses[:2]
    if len(a.shape) != 2 or len(b.shape) != 2 or options["triangle"] or options["dtype"] is not None:
        return None
    return library.empty_like_itself((a.shape[0], b.shape[1]), a.dtype, place) if a.dtype == b.dtype else None


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
