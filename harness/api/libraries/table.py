"""The table of libraries, recognised by the package that defines the type of an array, or a base of that type."""

from __future__ import annotations

from typing import Any

from harness.api.libraries.base import Library, Place, type_name
from harness.api.libraries.jax import Jax
from harness.api.libraries.pytorch import PyTorch
from harness.errors import ProblemError

# None: computed with as they are.
_BY_PACKAGE: dict[str, Library | None] = {"numpy": None, "cupy": None, "torch": PyTorch()}
_BY_PACKAGE["jax"] = _BY_PACKAGE["jaxlib"] = Jax()

_by_class: dict[type, Library | None] = {}


def library_of(x: Any) -> Library | None:
    """Return the library of an array; None: NumPy, CuPy, or whatever `numpy.asarray` makes of it."""
    try:
        return _by_class[x.__class__]
    except KeyError:
        return _by_class.setdefault(x.__class__, _recognised(x.__class__))


def _recognised(cls: type) -> Library | None:
    packages = [base.__module__.partition(".")[0] for base in cls.__mro__]
    for package in packages:
        if package in _BY_PACKAGE:
            return _BY_PACKAGE[package]
    if not (hasattr(cls, "__dlpack__") and hasattr(cls, "__dlpack_device__")):
        return None
    return _BY_PACKAGE.setdefault(packages[0], Library(packages[0]))


def check_one_library(caller: str, arrays: dict[str, Any]) -> None:
    """Raise ProblemError unless `arrays`, by name, are all of one library, or all of NumPy and CuPy."""
    libraries = {name: library_of(x) for name, x in arrays.items()}
    first = next((name for name, library in libraries.items() if library is not None), None)
    for name, library in libraries.items():
        if first is not None and library is not libraries[first]:
            raise _mixture(caller, first, arrays[first], name, arrays[name])


def _mixture(caller: str, first: str, x: Any, name: str, y: Any) -> ProblemError:
    library = library_of(x)
    assert library is not None
    return ProblemError(
        f"{caller}: {first} is an array of {library.name}, {name} is not",
        expected="all arrays of one library",
        got=f"{first}: {type_name(x)}, {name}: {type_name(y)}",
        fix=library.converted(name, place_of(caller, library, first, x)),
    )


def place_of(caller: str, library: Library, name: str, x: Any) -> Place:
    """Return where the argument `name` of `caller` lies; raises ProblemError if nothing here can read it there."""
    try:
        return library.place(x)
    except Exception as error:  # noqa: BLE001 whatever the library raises
        raise unreadable(caller, library, name, error) from None


def unreadable(caller: str, library: Library, name: str, error: Exception) -> ProblemError:
    """Return the error that the argument `name` of `caller` cannot be read."""
    return ProblemError(
        f"{caller}: {name}, an array of {library.name}, cannot be read where it lies",
        expected="a dense array in the memory of the host or of one CUDA device",
        got=str(error).partition("\n")[0],
    )
