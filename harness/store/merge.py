"""Brings the results of another checkout or machine into this one's: lines are copied as they are, each only once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import StoreError
from harness.store import store
from harness.store.journal import Journal

# Lines that are written together: one fsync for all of them.
_TOGETHER = 256


@dataclass(frozen=True)
class Merged:
    """What came of merging one file.

    Parameters
    ----------
    path : Path
        Where its lines went.
    added, known : int
        Lines that were new here, and lines that were here already.
    """

    path: Path
    added: int
    known: int


def merge(source: Path, target: Path, notify: Callable[[str], object] | None = None) -> Iterator[Merged]:
    """Append to the results below `target` what those below `source` have beyond them, file by file.

    Nothing is removed or rewritten, and doing it again adds nothing. `notify` is told of lines that are cut off.

    Raises
    ------
    StoreError
        If `source` has no results, or a file cannot be read or written. What was added before stays.
    """
    slugs = store.machines(source)
    if not slugs:
        raise StoreError(f"{source}: no results", expected="a folder like experiments/results of another checkout")
    for slug in slugs:
        for preset in store.presets(source, slug):
            for path in sorted((source / slug / preset).glob("*.jsonl")):
                yield _merge_file(Journal(path), Journal(target / slug / preset / path.name), notify)


def _merge_file(source: Journal, target: Journal, notify: Callable[[str], object] | None) -> Merged:
    known = {_digest(line.text) for line in target.lines()}
    waiting: list[bytes] = []
    added = repeated = 0
    for line in source.lines(notify):
        if _digest(line.text) in known:
            repeated += 1
            continue
        known.add(_digest(line.text))
        added += 1
        waiting.append(line.text)
        if len(waiting) == _TOGETHER:
            target.append_lines(waiting)
            waiting = []
    if waiting:
        target.append_lines(waiting)
    return Merged(target.path, added, repeated)


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
