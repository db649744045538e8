"""The schema of stored records: its number, what a record holds, and how one of an older schema is read.

Files are never rewritten: a line keeps the schema it was written with, and each reader brings it up to date, one step
of `MIGRATIONS` after the other. ``docs/store.md`` says what the fields mean; what is not named here is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

SCHEMA = 2

Record = dict[str, Any]

STATUSES = ("ok", "failed", "declined", "missing")

# What a record of each kind holds at least.
FIELDS: dict[object, tuple[str, ...]] = {
    "cell": tuple(
        "experiment preset case axes contender arguments threads reference status reason samples_ns facts machine key"
        " run time".split()
    ),
    "machine": ("key", "machine"),
    "run": ("run", "machine"),
    "done": ("run",),
}


def flaw(record: Record) -> str | None:
    """Return what keeps `record` from being one of its kind, or None."""
    kind = record.get("kind")
    lacking = [name for name in FIELDS.get(kind, ()) if name not in record]
    if lacking:
        return f"kind {kind!r} without {', '.join(lacking)}"
    if kind == "cell" and record["status"] not in STATUSES:
        return f"status {record['status']!r}"
    return None


def migrate(record: Mapping[str, Any]) -> Record:
    """Return `record`, of schema 1 to `SCHEMA`, as one of `SCHEMA`: new fields get the value that says "not known"."""
    migrated = dict(record)
    while migrated["schema"] < SCHEMA:
        migrated = {**MIGRATIONS[migrated["schema"]](migrated), "schema": migrated["schema"] + 1}
    return migrated


def _from_1(record: Record) -> Record:
    """Return a record of schema 2, which says when a cell's case was appended, and its position in that case."""
    return {"appended": "", "position": 0, **record} if record.get("kind") == "cell" else record


# From the schema of each number to the next.
MIGRATIONS: dict[int, Callable[[Record], Record]] = {1: _from_1}
