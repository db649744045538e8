"""Where backends come from: every module of `backends/`, and every entry point in the group ``gemm_harness.backends``.

Nothing is imported before its loader is called. Experiments are found in the same way (`harness.catalogue`).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import BackendUnavailable
from harness.interface import Backend
from harness.surroundings import is_to_end, shadow_of, working_directory

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Found = TypeVar("Found")
Source = tuple[str, Callable[[], Iterator[type[Backend]]]]  # origin of backends, and a loader of them
Place = Callable[[], Iterable[Source]]


def modules() -> Iterator[Place]:
    """Yield for each module and each family in `backends` a function that yields its modules, with their loaders."""
    import backends

    for info in pkgutil.iter_modules(getattr(backends, "__path__", ()), "backends."):
        yield functools.partial(_modules_of, info)


def nearness(name: str, origin: str) -> int:
    """Return how much a module of `backends` is called like a backend: 2 exactly, 1 in part, 0 not.

    ``"cpu-simd"`` is exactly `backends.cpu.simd`, ``"cpu-numpy"`` in part `backends.cpu.numpy_blas`, and
    ``"gpu-mv-tuned"`` in part `backends.gpu.matrix_vector.tuned`.
    """
    words = name.partition("-")[2]  # without its family
    module = origin.rpartition(".")[2].replace("_", "-")
    if module == words:
        return 2
    return int(module.startswith(f"{words}-") or words.startswith(f"{module}-") or words.endswith(f"-{module}"))


def check_modules(loaded: Collection[str]) -> None:
    """Raise BackendUnavailable if no backend is `loaded`, since the program that calls has a package `backends` too."""
    import backends

    if not loaded and (parts := shadow_of(backends)):
        raise BackendUnavailable("another module called 'backends' hides that of the harness", **parts)


def entry_points() -> Iterator[Source]:
    """Yield the entry points of installed packages that name backends, with their loaders."""
    return announced("gemm_harness.backends", _backends_named)


def announced(
    group: str, named: Callable[[str, Any], Iterator[Found]]
) -> Iterator[tuple[str, Callable[[], Iterator[Found]]]]:
    """Yield the entry points of `group`, with their loaders: `named` yields what is meant by what one of them names."""
    import importlib.metadata

    for point in importlib.metadata.entry_points(group=group):
        yield f"{point.value} (entry point {point.name})", functools.partial(_named, named, point)


def _named(named: Callable[[str, Any], Iterator[Found]], point: EntryPoint) -> Iterator[Found]:
    return named(point.value, point.load())


def attempted(load: Callable[[], Iterator[Found]]) -> tuple[list[Found], str]:
    """Return what `load` finds, and why it failed or "": a plug-in may raise anything, and the listing goes on."""
    try:
        with working_directory():
            return list(load()), ""
    except BaseException as error:
        if is_to_end(error):
            raise
        return [], f"import failed: {type(error).__name__}: {error}"


def _modules_of(info: pkgutil.ModuleInfo) -> Iterator[Source]:
    """Yield the module, or each one below the package, that no underscore marks as a part, with its loader."""
    if any(part.startswith("_") for part in info.name.split(".")):
        return
    if not info.ispkg:
        yield info.name, functools.partial(_backends_of_module, info.name)
        return
    spec = info.module_finder.find_spec(info.name, None)
    assert spec is not None, "it has been found"
    for below in pkgutil.iter_modules(spec.submodule_search_locations, f"{info.name}."):
        yield from _modules_of(below)


def _backends_of_module(name: str) -> Iterator[type[Backend]]:
    module = importlib.import_module(name)
    classes = {cls for _, cls in inspect.getmembers(module, inspect.isclass) if issubclass(cls, Backend)}
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if cls in classes and cls.__module__ == name and not inspect.isabstract(cls):
            is_base = any(other is not cls and issubclass(other, cls) for other in classes)
            if hasattr(cls, "name") or not is_base:  # a base without a name is what backends of the module share
                yield cls


def _backends_named(name: str, loaded: Any) -> Iterator[type[Backend]]:
    if inspect.ismodule(loaded):
        yield from _backends_of_module(loaded.__name__)
    elif inspect.isclass(loaded) and issubclass(loaded, Backend):
        yield loaded
    else:
        raise TypeError(f"{name} is neither a Backend class nor a module")
