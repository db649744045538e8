"""Every experiment there is, by name: those of `experiments/`, and those that entry points of packages name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

from harness import registry
from harness.errors import ExperimentError
from harness.experiment import Experiment
from harness.surroundings import shadow_of


def load_all() -> dict[str, Experiment]:
    """Return every experiment of `experiments/` and of entry points, by name, in the order of the report.

    Of two of one name the first is taken. `not_loaded` tells of the others, and of those that cannot be imported.

    Raises
    ------
    ExperimentError
        If another module called `experiments` or `backends` is imported in place of the harness's.
    """
    return dict(_found()[0])


def not_loaded() -> tuple[registry.Entry, ...]:
    """Return an entry, with the reason, for each experiment that cannot be loaded or is refused."""
    try:
        return _found()[1]
    except ExperimentError as error:
        return (registry.Entry("experiments", "experiments", error=str(error)),)


@functools.cache
def _found() -> tuple[dict[str, Experiment], tuple[registry.Entry, ...]]:
    import backends
    import experiments

    for package in (backends, experiments):
        if parts := shadow_of(package):
            raise ExperimentError(f"another module called {package.__name__!r} hides that of the harness", **parts)
    places: list[tuple[str, Callable[[], Iterator[Experiment]]]] = [
        (info.name, functools.partial(_of_module, info.name))
        for info in pkgutil.iter_modules(experiments.__path__, "experiments.")
        if not info.name.rpartition(".")[2].startswith("_")
    ]
    places += registry.sources.announced("gemm_harness.experiments", _named)
    loaded, failed = dict[str, tuple[str, Experiment]](), list[registry.Entry]()
    for origin, load in places:
        found, error = registry.sources.attempted(load)
        for experiment in found:
            first, _ = loaded.setdefault(experiment.name, (origin, experiment))
            error = "" if first == origin else f"the name {experiment.name!r} is taken by {first}: refused"
        failed += [registry.Entry(origin, origin, error=error)] if error else []
    ordered = sorted((experiment for _, experiment in loaded.values()), key=lambda e: e.order)
    return {experiment.name: experiment for experiment in ordered}, tuple(failed)


def _of_module(name: str) -> Iterator[Experiment]:
    return _named(name, importlib.import_module(name))


def _named(name: str, loaded: Any) -> Iterator[Experiment]:
    """Yield the experiment that a module holds, or that an entry point names."""
    experiment = getattr(loaded, "EXPERIMENT", loaded)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"{name} is neither an Experiment nor a module with an EXPERIMENT")
    if not experiment.name.isidentifier() or experiment.name == "runs":  # names a file of the store
        raise ValueError(f"its name is {experiment.name!r}; expected letters, digits and underscores, and not 'runs'")
    yield experiment
