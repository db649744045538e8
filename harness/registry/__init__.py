"""Find backends, by name or by what they can compute, among all that `harness.registry.sources` leads to.

A module that fails to import is listed with its exception. Of two backends of one name the one has it whose module is
called like it, else the first; the other is refused and listed. No other list of backends exists.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.errors import BackendUnavailable, Declined, check_imports
from harness.interface import Backend
from harness.problem import Problem
from harness.registry import sources
from harness.registry.sources import Place, Source
from harness.surroundings import (
    hold_across_forks,
    interrupts_held,
    is_main_interpreter,
    is_to_end,
)

# What a backend says of itself, by which backends are found, ordered and listed.
_ATTRIBUTES: dict[str, type] = {"name": str, "step": int, "idea": str, "source": str}
# A name stands in command lines, file names and stored results; "auto" leaves the choice to the harness.
_NAME, _RESERVED = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*"), {"auto"}


@dataclass(frozen=True)
class Entry:
    """A backend that discovery found, or the reason why it could not be loaded."""

    name: str  # of the backend, or its origin if it could not be loaded
    origin: str  # module, or entry point and distribution
    backend: Backend | None = None
    error: str | None = None  # why there is no backend

    def unavailable(self) -> str | None:
        """Return why this backend cannot run on this machine, or None."""
        return self.error if self.backend is None else missing(self.backend)


class _Discovery:
    """What has been found so far. Sources are loaded in their order, no further than somebody asks.

    So a process that computes on the host does not import the backends of GPUs and of ranks.
    """

    def __init__(self) -> None:
        self._places: deque[Place] | None = None  # not looked through yet; None: not known
        self._ahead: deque[Source] = deque()
        self.loaded: dict[str, Entry] = {}
        self._unloaded: list[Entry] = []
        self._faulty: list[Entry] = []
        self._disturbed: list[Source] = []
        self.lock = threading.RLock()  # a plug-in may call `gemm` while it is imported

    @property
    def failed(self) -> list[Entry]:
        """What could not be loaded, and what is no backend."""
        return self._unloaded + self._faulty

    def until(self, name: str | None) -> Entry | None:
        """Load sources until there is a backend of that name, and return its entry; None: load all."""
        with self.lock:
            if name not in self.loaded and not is_main_interpreter():
                raise BackendUnavailable(
                    "products cannot be computed in a subinterpreter: what Numba compiles would wait there for ever",
                    expected="the main interpreter of the process",
                    fix="threads or processes; under mod_wsgi WSGIApplicationGroup %{GLOBAL}",
                )
            while name not in self.loaded:
                check_imports("backends")
                with interrupts_held():  # or a source would be lost
                    source = self._next()
                    if source is None:
                        sources.check_modules(self.loaded)
                        return None
                    self._load(*source)
            return self.loaded[name]

    def again(self, name: str) -> Entry | None:
        """Load anew what failed, which a signal's handler or want of memory may have disturbed; as `until`."""
        with self.lock:
            disturbed, self._disturbed, self._unloaded = self._disturbed, [], []
            self._ahead.extendleft(reversed(disturbed))
            return self.until(name)

    def _next(self) -> Source | None:
        """Return the source that comes next; a signal's handler that calls `gemm` may take it meanwhile."""
        if self._places is None:
            self._found(deque([*sources.modules(), sources.entry_points]))
        while not self._ahead and self._places:
            place = self._places[0]
            there = list(place())
            if self._places and self._places[0] is place:  # no handler has looked through it
                self._places.popleft()
                self._ahead.extend(there)
        return self._ahead.popleft() if self._ahead else None

    def _found(self, places: deque[Place]) -> None:
        if self._places is None:  # no handler has found them meanwhile
            self._places = places

    def _load(self, origin: str, load: Callable[[], Iterator[type[Backend]]]) -> None:
        try:
            backends, error = sources.attempted(load)
        except BaseException:
            self._ahead.appendleft((origin, load))
            raise
        if error:
            self._disturbed.append((origin, load))
            self._unloaded.append(Entry(origin, origin, error=error))
            return
        for cls in backends:
            self._load_home(getattr(cls, "name", None), origin)
            entry = _instantiate(cls, origin, self.loaded)
            if entry.backend is None:
                self._faulty.append(entry)
            else:
                self.loaded[entry.name] = entry

    def _load_home(self, name: object, origin: str) -> None:
        """Load the modules beside `origin` that are called more like `name` than it is: the name is rather theirs.

        So a copy `my_simd.py` that somebody works on, and that forgot to change the name, does not replace `simd.py`.
        """
        if isinstance(name, str):
            nearness = sources.nearness(name, origin)
            for source in [source for source in self._ahead if sources.nearness(name, source[0]) > nearness]:
                if source in self._ahead:  # not loaded meanwhile, on behalf of another
                    self._ahead.remove(source)
                    self._load(*source)


def discover() -> tuple[Entry, ...]:
    """Return every backend, loaded once per process, by family and then by step, and last what could not be loaded."""
    _discovery.until(None)
    return (*sorted(_discovery.loaded.values(), key=_ladder_order), *_discovery.failed)


def look_up(name: str) -> Entry | None:
    """Return the entry of that name, or None. Modules are imported only until the backend is found."""
    found = _discovery.loaded.get(name) or _discovery.until(name) or _discovery.again(name)
    return found or next((entry for entry in discover() if entry.name == name), None)


def find(name: str) -> Backend:
    """Return the backend called `name`, ready to run on this machine.

    Raises
    ------
    BackendUnavailable
        If there is none of that name, it cannot be loaded, or this machine misses something.
    """
    if not isinstance(name, str):
        raise BackendUnavailable("backend is no name", expected="a name from `python -m harness list`", got=repr(name))
    entry = look_up(name)
    if entry is None:
        check_loaded(name)
        loaded = [entry.name for entry in discover() if entry.backend]
        raise BackendUnavailable.unknown("backend", name, [entry.name for entry in discover()], loaded)
    reason = entry.unavailable()
    if entry.backend is None or reason:
        raise BackendUnavailable(f"backend {name!r} cannot run here", got=str(reason))
    return entry.backend


def check_loaded(name: str) -> None:
    """Raise BackendUnavailable, with the reason, if the module of `backends` that is called like `name` fails to load.

    For a backend that nobody has found. One that this machine merely cannot run has been found, and says what it lacks.
    """
    family = name.partition("-")[0]
    for entry in _discovery.failed:
        if entry.origin.startswith(f"backends.{family}.") and sources.nearness(name, entry.origin) == 2:
            settings = ", ".join(sorted(variable for variable in os.environ if variable.startswith("NUMBA_")))
            raise BackendUnavailable(
                f"backend {name!r} cannot be loaded",
                expected=f"a module {entry.origin} that can be imported",
                got=str(entry.error),
                fix=f"correct or unset {settings}" if settings else f"see what `import {entry.origin}` says",
            )


def admit(name: str, problem: Problem) -> Backend:
    """Return the backend called `name`, which can compute `problem` here.

    Raises
    ------
    BackendUnavailable
        If there is none of that name.
    Declined
        If it misses something on this machine, or declines the problem.
    """
    entry = look_up(name)
    if entry is None:
        return find(name)  # raises, naming the closest
    absent = entry.unavailable()
    if entry.backend is None or absent:
        raise Declined("missing", str(absent))
    reason = refusal(entry.backend, problem)
    if reason:
        raise Declined("declined", reason)
    return entry.backend


def able(problem: Problem, *, on_device: bool | None = None) -> Iterator[Backend]:
    """Yield the backends that this machine can run and that do not decline `problem`, the highest step first.

    With `on_device` only backends that compute on a device, or only the others. The latter are then not asked for a
    device: to ask loads libraries, which a forked child must not.
    """
    backends = [entry.backend for entry in discover() if entry.backend]
    for backend in sorted(backends, key=lambda backend: -backend.step):
        is_meant = on_device is None or ("device arrays" in backend.takes) == on_device
        if is_meant and not missing(backend) and refusal(backend, problem) is None:
            yield backend


def automatic(problem: Problem, *, on_device: bool) -> Iterator[Backend]:
    """Yield those of `able` that may be chosen unnamed: they keep the ordinary bound, and start no processes."""
    for backend in able(problem, on_device=on_device):
        if may_be_chosen(backend, problem) and not backend.starts_processes:
            yield backend


def missing(backend: Backend) -> str | None:
    """Return why this machine cannot run `backend`, or None; that it cannot even say so is a reason too."""
    return _reason("missing", backend.missing)


def refusal(backend: Backend, problem: Problem) -> str | None:
    """Return why `problem` must not be passed to `backend`, or None; as `missing`."""
    return _reason("declines", backend.refuses, problem)


def may_be_chosen(backend: Backend, problem: Problem) -> bool:
    """Return whether ``backend="auto"`` may choose `backend`; not one that fails to say so."""
    try:
        return backend.may_be_chosen(problem)
    except BaseException as error:  # as in `sources.attempted`
        if is_to_end(error):
            raise
        return False


def _reason(name: str, question: Callable[..., Any], *arguments: Any) -> str | None:
    """Return the answer to a question whose answers are a reason and None: a plug-in may raise or return anything."""
    try:
        answer = question(*arguments)
    except BaseException as error:  # as in `sources.attempted`
        if is_to_end(error):
            raise
        return f"its {name}() failed: {type(error).__name__}: {error}"
    if answer is None or isinstance(answer, str):
        return answer
    return f"its {name}() returned {answer!r}, which is neither a reason nor None"


def _ladder_order(entry: Entry) -> tuple[str, int]:
    assert entry.backend is not None
    return entry.name.split("-")[0], entry.backend.step


def _instantiate(cls: type[Backend], origin: str, loaded: dict[str, Entry]) -> Entry:
    """Return an entry for `cls`, or one with the reason why it is refused."""
    for name, kind in _ATTRIBUTES.items():
        value = getattr(cls, name, None)
        if value is None:
            return Entry(origin, origin, error=f"{cls.__name__} lacks the attribute {name!r}")
        if not isinstance(value, kind):
            said = f"{cls.__name__}.{name} is {value!r}; expected {kind.__name__}"
            return Entry(origin, origin, error=said)
    if not _NAME.fullmatch(cls.name) or cls.name in _RESERVED:
        expected = "expected lower-case letters, digits and hyphens, as 'cpu-einsum'"
        return Entry(origin, origin, error=f"{cls.__name__}.name is {cls.name!r}; {expected}")
    if cls.name in loaded:
        return Entry(origin, origin, error=f"the name {cls.name!r} is taken by {loaded[cls.name].origin}: refused")
    try:
        return Entry(cls.name, origin, cls())
    except BaseException as error:  # as in `sources.attempted`
        if is_to_end(error):
            raise
        return Entry(cls.name, origin, error=f"{type(error).__name__}: {error}")


_discovery = _Discovery()
# A forked child must not find a source that another thread was loading: the fork waits for it.
hold_across_forks("discovery", _discovery.lock)
