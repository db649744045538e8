"""The registry imports sources of backends in their order, and no further than somebody asks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from harness import registry
from harness.errors import BackendUnavailable
from harness.interface import Backend
from harness.plan import Plan
from harness.problem import Problem
from harness.registry.sources import Source, nearness


def backend_called(name: str) -> type[Backend]:
    class Planted(Backend):
        step = 1
        idea = source = "a test"

        def plan(self, problem, machine):
            return Plan(problem, machine.threads)

        def prepare(self, plan, operands):
            raise NotImplementedError

    Planted.name = name
    return Planted


class Sources:
    """Sources of one backend each, and which of them were loaded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.while_loading: dict[str, Callable[[], object]] = {}
        self.while_looking: Callable[[], object] = lambda: None

    def modules(self) -> Iterator[Callable[[], Iterator[Source]]]:
        yield self._all

    def _all(self) -> Iterator[Source]:
        self.while_looking()
        for origin, name in (("one", "cpu-one"), ("two", "cpu-two"), ("broken", ""), ("again", "cpu-one")):
            yield origin, lambda origin=origin, name=name: self._load(origin, name)

    def _load(self, origin: str, name: str) -> Iterator[type[Backend]]:
        self.loaded.append(origin)
        self.while_loading.get(origin, lambda: None)()
        if not name:
            raise ImportError("no such library")
        yield backend_called(name)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Sources:
    planted = Sources()
    monkeypatch.setattr(registry.sources, "modules", planted.modules)
    monkeypatch.setattr(registry.sources, "entry_points", lambda: iter(()))
    monkeypatch.setattr(registry, "_discovery", registry._Discovery())
    return planted


def test_nothing_behind_the_backend_asked_for_is_imported(sources: Sources) -> None:
    assert registry.find("cpu-one").name == "cpu-one"
    assert sources.loaded == ["one"]
    assert registry.find("cpu-two").name == "cpu-two"
    assert registry.find("cpu-one").name == "cpu-one"
    assert sources.loaded == ["one", "two"]


def test_a_list_of_all_has_the_ones_found_before_and_says_what_failed(sources: Sources) -> None:
    one = registry.find("cpu-one")
    entries = registry.discover()
    assert sources.loaded == ["one", "two", "broken", "again"]
    assert [entry.name for entry in entries] == ["cpu-one", "cpu-two", "broken", "again"]
    assert entries[0].backend is one
    assert entries[2].error == "import failed: ImportError: no such library"
    assert entries[3].error == "the name 'cpu-one' is taken by one: refused"


@pytest.mark.parametrize(
    ("name", "origins"),
    [
        ("cpu-simd", ["cpu.a_copy", "cpu.my_simd", "cpu.simd", "cpu.simd_2"]),
        ("cpu-numpy", ["cpu.my_numpy", "cpu.numpy_blas"]),
        ("gpu-mv-tuned", ["gpu.copy", "gpu.matrix_vector.tuned"]),
        ("cpu-one", ["cpu.first", "cpu.second"]),
    ],
)
def test_a_name_is_that_of_the_module_which_is_called_like_it(
    name: str, origins: list[str], sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = {"cpu-simd": "cpu.simd", "cpu-one": "cpu.first"}.get(name, origins[-1])
    found = [(origin, lambda: iter([backend_called(name)])) for origin in origins]
    monkeypatch.setattr(registry.sources, "modules", lambda: [lambda: found])
    registry.find(name)
    first, *refused = registry.discover()
    assert (first.name, first.origin) == (name, owner)
    assert {entry.origin for entry in refused} == {*origins} - {owner}
    assert {entry.error for entry in refused} == {f"the name {name!r} is taken by {owner}: refused"}


def test_a_module_that_is_called_like_the_name_and_cannot_be_loaded_leaves_it_to_another(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Iterator[type[Backend]]:
        raise ImportError("no such library")

    found = [("cpu.my_simd", lambda: iter([backend_called("cpu-simd")])), ("cpu.simd", fail)]
    monkeypatch.setattr(registry.sources, "modules", lambda: [lambda: found])
    assert registry.look_up("cpu-simd").origin == "cpu.my_simd"


def test_modules_of_our_own_kernels_are_called_like_them() -> None:
    entries = registry.discover()
    own = [entry for entry in entries if entry.backend and not entry.backend.project]
    named = [e.name for e in own if not e.backend.starts_processes and e.origin.startswith("backends.")]
    assert {"cpu-simd", "gpu-tuned"} <= set(named)
    assert [e.name for e in own if e.name in named and not nearness(e.name, e.origin)] == []


def test_who_failed_and_who_is_not_there_is_told(sources: Sources) -> None:
    with pytest.raises(BackendUnavailable, match="no such library"):
        registry.find("broken")
    with pytest.raises(BackendUnavailable, match="did you mean 'cpu-one'"):
        registry.find("cpu-onee")


def test_what_could_not_be_loaded_is_tried_again_when_it_is_asked_for(sources: Sources) -> None:
    handlers = [_interrupt]  # of a signal, which raises once
    sources.while_loading["two"] = lambda: handlers.pop()() if handlers else None
    assert registry.find("cpu-two").name == "cpu-two"
    assert [entry.name for entry in registry.discover()] == ["cpu-one", "cpu-two", "broken", "again"]


def _interrupt() -> None:
    raise RuntimeError("of a signal's handler")


@pytest.mark.parametrize("error", [SystemExit(0), BaseException("skipped")], ids=repr)
@pytest.mark.parametrize("where", ["import", "__init__", "missing", "declines", "pays"])
def test_a_plug_in_that_raises_what_ends_a_program_is_no_end_of_it(
    where: str, error: BaseException, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    bad = backend_called("cpu-bad")
    if where == "import":
        sources.while_loading["one"] = fail
    else:
        setattr(bad, where, fail)
        monkeypatch.setattr(
            sources, "_load", lambda origin, name: iter([bad if origin == "one" else backend_called(name)])
        )
    problem = Problem(2, 2, 2)
    chosen = [backend.name for backend in registry.automatic(problem, on_device=False)]
    assert "cpu-two" in chosen
    assert "cpu-bad" not in chosen
    said = [entry.unavailable() for entry in registry.discover()]
    if where in ("import", "__init__", "missing"):
        assert any(text and f"{type(error).__name__}: {error}" in text for text in said), said


@pytest.mark.parametrize("where", ["import", "missing"])
def test_a_handler_of_a_signal_that_ends_the_program_ends_it_and_loses_no_module(
    where: str, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_: object) -> None:
        raise SystemExit(3)

    handlers = [lambda *_: signal.raise_signal(signal.SIGTERM)]
    before = signal.signal(signal.SIGTERM, leave)
    try:
        if where == "import":
            sources.while_loading["two"] = lambda: handlers.pop()() if handlers else None
        else:
            monkeypatch.setattr(registry.find("cpu-one"), "missing", lambda: handlers.pop()() if handlers else None)
        with pytest.raises(SystemExit):
            list(registry.able(Problem(2, 2, 2)))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [entry.name for entry in registry.discover()] == ["cpu-one", "cpu-two", "broken", "again"]


def test_a_module_may_ask_for_another_backend_while_it_is_imported(sources: Sources) -> None:
    sources.while_loading["one"] = lambda: registry.look_up("cpu-two")
    assert registry.find("cpu-one").name == "cpu-one"
    assert {entry.name for entry in registry.discover()} == {"cpu-one", "cpu-two", "broken", "again"}
    assert sources.loaded == ["one", "two", "broken", "again"]


def test_a_handler_of_a_signal_may_ask_for_a_backend_while_modules_are_looked_for(sources: Sources) -> None:
    nested: list[str] = []

    def handle() -> None:
        sources.while_looking = lambda: None
        nested.append(registry.find("cpu-two").name)

    sources.while_looking = handle
    assert registry.find("cpu-one").name == "cpu-one"
    assert nested == ["cpu-two"]
    assert [entry.name for entry in registry.discover()] == ["cpu-one", "cpu-two", "broken", "again"]
    assert sources.loaded == ["one", "two", "broken", "again"]


def test_a_handler_that_raises_while_modules_are_looked_for_loses_none(sources: Sources) -> None:
    sources.while_looking = _interrupt
    with pytest.raises(RuntimeError, match="of a signal's handler"):
        registry.find("cpu-one")
    sources.while_looking = lambda: None
    assert [entry.name for entry in registry.discover()] == ["cpu-one", "cpu-two", "broken", "again"]


def test_a_thread_that_asks_while_another_loads_the_source_finds_it(sources: Sources) -> None:
    has_begun, may_end, found = threading.Event(), threading.Event(), []

    def wait() -> None:
        has_begun.set()
        may_end.wait(60)

    sources.while_loading["one"] = wait
    threads = [threading.Thread(target=lambda: found.append(registry.find("cpu-one").name)) for _ in range(2)]
    threads[0].start()
    assert has_begun.wait(60)
    threads[1].start()
    threads[1].join(0.05)  # it waits
    may_end.set()
    for thread in threads:
        thread.join()
    assert found == ["cpu-one"] * 2
    assert sources.loaded == ["one"]


@pytest.mark.parametrize("name", ["", "My Backend", "CPU-X", "auto", "cpu-\u00e9", "a/b", "cpu-x\n", "-x"])
def test_a_name_that_no_command_or_file_could_have_is_refused(
    name: str, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.sources, "modules", lambda: [lambda: [("one", lambda: iter([backend_called(name)]))]])
    monkeypatch.setattr(registry, "_discovery", registry._Discovery())
    (entry,) = registry.discover()
    assert entry.backend is None
    assert entry.error == (
        f"Planted.name is {name!r}; expected lower-case letters, digits and hyphens, as 'cpu-einsum'"
    )


def test_ctrl_c_while_a_module_is_imported_loses_none(sources: Sources) -> None:
    sources.while_loading["one"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        registry.find("cpu-one")
    assert registry.find("cpu-one").name == "cpu-one"
    assert sources.loaded == ["one"]
