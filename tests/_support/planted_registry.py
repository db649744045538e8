"""A registry that holds the entries of a test, in place of what discovery finds."""

from collections.abc import Iterable

import pytest

from harness import registry
from harness.interface import Backend


def entry_of(backend: Backend) -> registry.Entry:
    return registry.Entry(backend.name, "planted", backend)


def plant_entries(monkeypatch: pytest.MonkeyPatch, entries: Iterable[registry.Entry]) -> None:
    """Let these be all entries."""
    entries = tuple(entries)
    named = {entry.name: entry for entry in reversed(entries)}
    monkeypatch.setattr(registry, "discover", lambda: entries)
    monkeypatch.setattr(registry, "look_up", named.get)
