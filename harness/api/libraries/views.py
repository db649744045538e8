"""Calls with arrays of other libraries: the same function, called with views of NumPy or of CuPy.

    check     all arrays of one library and at one place         `harness.api.libraries`
    view      each array, without a copy
    compute   on the GPU that holds them, in the library's current stream
    give      the results as arrays of that library

So whatever a call with arrays of NumPy or CuPy keeps and remembers serves those of any library.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from harness.api.libraries import Library, Place, check_one_library, library_of, place_of, spoken, unreadable
from harness.errors import HarnessError, ProblemError, check_imports

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Shape and dtype of a result, of views and options; None: the function is left to make it.
Form = Callable[[dict[str, Any], dict[str, Any]], tuple[tuple[int, ...], np.dtype[Any]] | None]


def any_library(*names: str, is_of_products: bool = False) -> Callable[[_Function], _Function]:
    """Let a function that takes arrays of NumPy and CuPy as the arguments `names` take those of any library.

    With `is_of_products` it does no more with them than to index them and to give them to `gemm`. So it takes arrays on
    a GPU as they are, if `gemm` takes them by address: a view of each would take as long as the call. And those that
    are conjugated when they are read, which `gemm` takes without a copy.
    """

    def decorate(function: _Function) -> _Function:
        parameters = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if arguments and arguments[0].__class__ is np.ndarray:
                try:
                    return function(*arguments, **options)
                except Exception as error:
                    if isinstance(error, ImportError):
                        check_imports(f"what {function.__name__} needs")
                    check_one_library(function.__name__, _arrays(arguments, options))
                    raise
            arrays = _arrays(arguments, options)
            library = next(filter(None, map(library_of, arrays.values())), None)
            if library is None:
                return function(*arguments, **options)
            if (uncompiled := library.uncompiled()) is not None:
                return uncompiled(call, *arguments, **options)
            if is_of_products and _are_for_gemm(library, arrays):
                with contextlib.suppress(HarnessError):  # which is raised again below, in the words of `function`
                    return function(*arguments, **options)
            named = {**dict(zip(parameters, arguments, strict=False)), **options}
            rest = {name: value for name, value in named.items() if name not in arrays}
            return by_views(function, library, arrays, rest)

        def _arrays(arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
            named = {**dict(zip(parameters, arguments, strict=False)), **options}
            return {name: named[name] for name in names if named.get(name) is not None}

        return call  # type: ignore[return-value]

    return decorate


def _are_for_gemm(library: Library, arrays: dict[str, Any]) -> bool:
    if any(map(library.is_conjugated, arrays.values())):
        return True
    quick = library.quick_place(arrays.values()) if library.has_addresses else None
    return quick is not None and quick[0] is not None


def by_views(
    function: Callable[..., Any],
    library: Library,
    arrays: dict[str, Any],
    options: dict[str, Any],
    *,
    form: Form | None = None,
    quick: tuple[Place] | None = None,
) -> Any:
    """Return what `function` returns for `arrays`, by name, of which one is of `library`, and other arguments.

    With `form` results are written to memory of the library where that spares a copy. `quick` is `Library.quick_place`
    of the arrays, if it is known.

    Raises
    ------
    ProblemError
        If they are not all of that library and on one device, or one cannot be viewed; and as `function`.
    """
    if options.get("dtype") is not None:
        options = {**options, "dtype": library.dtype(options["dtype"])}
    quick = quick or library.quick_place(arrays.values())
    place = _common_place(function.__name__, library, arrays) if quick is None else quick[0]
    context = library.in_force(place)
    if context is None:
        return _compute(function, library, place, arrays, options, form)
    with context:
        return _compute(function, library, place, arrays, options, form)


def _common_place(caller: str, library: Library, arrays: dict[str, Any]) -> Place:
    """Check every array, and return where all of them lie."""
    check_one_library(caller, arrays)
    places = {}
    for name, x in arrays.items():
        library.check(caller, name, x)
        places[name] = place_of(caller, library, name, x)
    first, place = next(iter(places.items()))
    for name, other in places.items():
        if other != place:
            raise ProblemError(
                f"{caller}: {first} and {name} lie on different devices",
                expected="all arrays on one device",
                got=f"{first} on {spoken(place)}, {name} on {spoken(other)}",
                fix=library.moved(name, place),
            )
    return place


def _compute(
    function: Callable[..., Any],
    library: Library,
    place: Place,
    arrays: dict[str, Any],
    options: dict[str, Any],
    form: Form | None,
) -> Any:
    views, out = _views(function.__name__, library, place, arrays), arrays.get("out")
    if out is None and form is not None and library.makes_results(place):
        described = form(views, options)
        if described is not None:
            views["out"] = library.empty(*described, place)
    try:
        result = function(**views, **options)
    except HarnessError as error:
        fix = library.respelled(error.fix)
        raise type(error)(error.what, expected=error.expected, got=error.got, fix=fix) from error.__cause__
    if place is not None:
        library.launched(list(views.values()))
    if out is None:
        return Giver(library, place, library.namespace(next(iter(arrays.values()))))(result)
    library.wrote(out)
    return out


def _views(caller: str, library: Library, place: Place, arrays: dict[str, Any]) -> dict[str, Any]:
    views = {}
    for name, x in arrays.items():
        try:
            views[name] = library.view(x, place)
        except HarnessError:
            raise
        except Exception as error:  # noqa: BLE001 whatever the library raises
            library.check(caller, name, x)
            raise unreadable(caller, library, name, error) from None
    return views


class Giver(NamedTuple):
    """Gives results to a library, at the place where its arrays lie; `namespace` is that of `Library.namespace`."""

    library: Library
    place: Place
    namespace: Any

    def __call__(self, result: Any) -> Any:
        """Return `result` with its arrays, also those of a tuple or of an object that knows how, as the library's."""
        if isinstance(result, tuple):
            given = [self(x) for x in result]
            return type(result)(*given) if hasattr(result, "_fields") else tuple(given)
        if hasattr(result, "given"):
            return result.given(self)
        return self.library.give(result, self.place, self.namespace) if hasattr(result, "strides") else result

    def in_force(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which a GPU computes in the order that the library expects."""
        return self.library.in_force(self.place) or contextlib.nullcontext()
