"""What was used lately, by keys that any thread may ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Recent(Generic[_T]):
    """The entries that were used last: half of `most` or more of them, and never more than `most`.

    Two plain dictionaries, for threads: an OrderedDict is not safe while another one compares keys in Python.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._used: dict[Hashable, _T] = {}  # since `_before` was closed
        self._before: dict[Hashable, _T] = {}

    def __len__(self) -> int:
        return len({**self._before, **self._used})

    def get(self, key: Hashable) -> _T | None:
        """Return the entry of `key`, or None."""
        try:
            entry = self._used.get(key)
        except (TypeError, ValueError):  # an argument that cannot be hashed: checks say whether it is one
            return None
        if entry is None:
            entry = self._before.get(key)
            if entry is not None:
                self.put(key, entry)
        return entry

    def put(self, key: Hashable, entry: _T) -> None:
        """Keep an entry, in place of the former one of that key; none under a key that cannot be hashed."""
        if len(self._used) >= self._most() // 2:
            self._used, self._before = {}, self._used
        with contextlib.suppress(TypeError, ValueError):
            self._used[key] = entry

    def clear(self) -> None:
        """Drop every entry."""
        self._used, self._before = {}, {}
