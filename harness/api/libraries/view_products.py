"""`gemm`, `gemm_argk` of arrays of other libraries: by address where a GPU has a product remembered, else by views."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from harness.api.libraries import Library
from harness.api.libraries.gpu import cupy
from harness.api.libraries.views import by_views
from harness.api.remembered import repeats
from harness.operands import broadcast
from harness.problem import CONJUGATES

ARGK = np.dtype(np.int32)  # of the second result of `gemm_argk`
NAMES = "out[0]", "out[1]"  # of the results of `gemm_argk`
_OPTIONS = "semiring", "alpha", "beta", "backend", "threads", "dtype", "triangle", "conjugate"


class _Known(NamedTuple):
    """A product that is computed by addresses: what is remembered, its GPU, and what makes new results, also quickly.

    The quick ones do where that GPU is the current one. Arrays that are complex may be conjugated lazily.
    """

    entry: repeats.Entry
    place: int
    makers: list[Callable[[], Any]]
    quick_makers: list[Callable[[], Any]]
    is_complex: bool


def gemm_of(library: Library, gemm: Callable[..., Any], a: Any, b: Any, c: Any, out: Any, rest: tuple[Any, ...]) -> Any:
    """Return ``gemm(a, b, c, out=out, ...)``, where a is an array of `library`.

    `rest` is what `repeats.options_of_gemm` takes, in its order.
    """
    uncompiled = library.uncompiled()
    if uncompiled is not None:
        return uncompiled(gemm, a, b, c, out=out, **dict(zip(_OPTIONS, rest, strict=True)))
    results = _recall(library, repeats.options_of_gemm(*rest), (a, b) if c is None else (a, b, c), out, rest)
    if results is not None:
        return results[0]
    options = dict(zip(_OPTIONS, rest, strict=True))
    lazily, asked = [library.is_conjugated(x) for x in (a, b)], options["conjugate"]
    if True in lazily and asked.__class__ is str and asked in CONJUGATES:
        a, b = (x.conj() if is_lazy else x for x, is_lazy in zip((a, b), lazily, strict=True))
        which = "".join(name for name, is_lazy in zip("ab", lazily, strict=True) if is_lazy != (name in asked))
        return gemm_of(library, gemm, a, b, c, out, (*rest[:-1], which))
    arrays = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    if out is not None:
        arrays["out"] = out
    return by_views(gemm, library, arrays, options, form=_form)


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
    results = _recall(library, repeats.options_of_argk(**options), (a, b), None, None)
    return by_views(gemm_argk, library, {"a": a, "b": b}, options) if results is None else results


def _recall(
    library: Library, key: Hashable, operands: tuple[Any, ...], out: Any, rest: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    """Return the results of a product that is remembered, computed without a view; None: it takes views.

    `rest` is that of `gemm_of`, where `gemm` has a new array of the library for its `out`; None: not so.
    """
    arrays = operands if out is None else (*operands, out)
    if not library.has_addresses or (found := library.layouts(arrays)) is None:
        return None
    layouts, pointers = found
    try:
        of_all = key, out is None, *layouts
        known = repeats.elsewhere.get(of_all)
        if known is None:
            known = _find(library, key, operands, out, rest)
            if known is None:
                return None
            repeats.elsewhere.put(of_all, known)
    except TypeError:  # an option is not hashable, which the checks report
        return None
    is_lazy = known.is_complex and any(map(library.is_conjugated, arrays))
    if is_lazy or (out is not None and repeats.overlaps(known.entry, pointers, pointers[-1])):
        return None
    stream = library.stream_in_force(known.place)
    if stream is not None:
        return _compute(library, known, pointers, len(operands), out, stream)
    with library.in_force(known.place) or contextlib.nullcontext():
        return _compute(library, known, pointers, len(operands), out, None)


def _compute(
    library: Library, known: _Known, pointers: list[int], count: int, out: Any, stream: int | None
) -> tuple[Any, ...]:
    """Compute in the current stream of CuPy, which is also the library's if `stream` is its handle."""
    entry = known.entry
    if entry.used < count:
        del pointers[entry.used : count]
    results: list[Any] = []
    if out is None:
        for make in known.makers if stream is None else known.quick_makers:
            results.append(x := make())
            pointers.append(library.pointer(x))
    entry.repeat.at(pointers, stream)  # type: ignore[union-attr]
    if out is None:
        return tuple(results)
    library.wrote(out)
    return (out,)


def _find(
    library: Library, key: Hashable, operands: tuple[Any, ...], out: Any, rest: tuple[Any, ...] | None
) -> _Known | None:
    """Return what is remembered of a product by addresses; None: it takes views."""
    quick = library.quick_place(operands if out is None else (*operands, out))
    if quick is None or (place := quick[0]) is None:
        return None
    addresses, cls = [library.address(x, place) for x in operands], cupy().ndarray
    is_complex = any(x.dtype.kind == "c" for x in addresses)
    if out is not None:
        entry = repeats.find_at(key, addresses, library.address(out, place), cls)
        return entry and _Known(entry, place, [], [], is_complex)
    views, described = dict(zip("abc", addresses, strict=False)), None
    if rest is not None:
        described = _form(views, dict(zip(_OPTIONS, rest, strict=True)))
    if described is None:
        entry = repeats.find_at(key, addresses, None, cls)
        forms = [(entry.shape, dtype) for dtype in entry.dtypes] if entry else []
    else:
        entry = repeats.find_at(key, addresses, library.address(library.maker(*described, place)(), place), cls)
        forms = [described]
    if entry is None:
        return None
    makers = [library.maker(*x, place, entry.fill) for x in forms]
    quick_makers = [library.quick_maker(*x) for x in forms] if entry.fill is None else []
    are_quick = quick_makers and None not in quick_makers
    return _Known(entry, place, makers, quick_makers if are_quick else makers, is_complex)  # type: ignore[arg-type]


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
        batch = () if all(len(x.shape) == 2 for x in operands) else broadcast(*[x.shape[:-2] for x in operands])
        return (*batch, views["a"].shape[-2], views["b"].shape[-1]), np.dtype(dtype)
    except (ValueError, TypeError, IndexError):
        return None
