"""The schema of stored records: its number, and every field of a record.

`CELL` is the one list of a cell's fields. Records are checked against it when they are written and read, exports
have its columns, and the table in ``docs/store.md`` is proven equal to it. A field that is not listed is kept as it is.
Schema 4 lacks ``left_out``: its cases are whole.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from types import UnionType
from typing import Any, NamedTuple

SCHEMA, OLDEST = 5, 4

Record = dict[str, Any]

LEAST_NS = 1e-9  # of a call: rates of less would be infinite
MOST_SHOWN = 60  # letters of samples that are none

STATUSES = ("ok", "failed", "declined", "missing")

# The commit of code that is under no version control, and the end of one whose sources differ from it.
UNKNOWN, DIRTY = "unknown", "-dirty"

_NUMBER = int | float


class Field(NamedTuple):
    """One field of a cell."""

    name: str
    type: type | UnionType  # of its JSON value
    meaning: str
    unit: str = ""  # empty: a name, a hash or a structure
    is_column: bool = True  # whether an exported table has a column for it: axes have their own, samples rows


CELL = (
    Field("experiment", str, "name of the experiment: the question that is answered"),
    Field("preset", str, "how much was measured: `smoke`, `quick` or `full`"),
    Field("run", str, "the run, named by when it began"),
    Field("case", str, "content hash of the case; plus the index of a process, the seed of the order of samples"),
    Field("axes", dict, "where the case stands in the experiment: sizes, dtype, semiring", is_column=False),
    Field("case_arguments", dict, "what all tasks were given: for a product `problem`, `seed`"),
    Field("seed", int | None, "the `seed` of `case_arguments`, which operands were drawn from; null: none"),
    Field("contender", str, "its label"),
    Field("task", str, "`module:function` of its task, or `gemm`, a product; empty: not known"),
    Field("arguments", dict, "what its task was given beside `case_arguments`: for a product `backend`, `parameters`"),
    Field("threads", int, "threads it was allowed", "threads"),
    Field("environment", dict, "variables of its processes, beside those of the harness"),
    Field("reference", str, "label of the contender that paired ratios are taken to"),
    Field("left_out", list, "contenders of the case that the run left out (`--only`)"),
    Field("series", str, "what the caches held when a sample began: `hot` or `cold`"),
    Field("budget", dict, "how long it was to be sampled, as `harness.experiment.Budget`"),
    Field("status", str, "`ok`, `failed`, `declined` or `missing`; only `ok` has samples"),
    Field("reason", str, "why the status is not `ok`; else empty"),
    Field("unmet", str, "conditions of the budget that were not met, joined by `; `"),
    Field("samples_ns", list, "time of a call, by process, sample; equal index: side by side", "ns", is_column=False),
    Field("readings", dict, "what was read with samples, by name, process, sample", is_column=False),
    Field("loops", list, "calls in a sample, by process", "calls"),
    Field("warm_up_calls", list, "calls before the first sample, by process", "calls"),
    Field("rounds", _NUMBER, "rounds in the shortest process, each with two samples of every contender", "rounds"),
    Field("processes", int, "processes of the contender that were begun, one after the other", "processes"),
    Field("facts", dict, "what its task reported: `operations`, `bytes_moved`, `plan`, `problem`", is_column=False),
    Field("verified", str, "what was compared to prove the result"),
    Field("threads_read", dict, "threads as read back while it was timed, by library", "threads"),
    Field("clock", dict, "the clock that timed it, and the core if it was kept on one"),
    Field("load", list, "load average of the machine before and after the case", "processes"),
    Field("stolen", _NUMBER | None, "part of the processors' time that a virtual machine's host took", "1"),
    Field("all_cores", dict, "a loop on all its threads before: `threads`, `gain`, `waited_s`"),
    Field("machine", str, "key of the machine's fingerprint"),
    Field("version", str, "version of the harness"),
    Field("source", str, "digest of the source files of `harness/` and `backends/`"),
    Field("commit", str, "commit of the code; with `-dirty` if sources differed from it; `unknown`: no git"),
    Field("key", str, "content hash of all that decides the result"),
    Field("time", str, "when it was recorded, ISO 8601"),
    Field("appended", str, "when its case was appended, ISO 8601"),
    Field("position", int, "its position among the contenders of the case, from 0"),
)  # fmt: skip

# Names and types of what a record of each kind holds at least.
FIELDS: dict[object, dict[str, type | UnionType]] = {
    "cell": {field.name: field.type for field in CELL},
    "machine": {"key": str, "machine": dict},
    "run": {"run": str, "machine": str},
    "done": {"run": str},
}

# What readers use inside the structures of a record, by its place, outer ones first. "*" is every value. What is absent
# is not looked at.
INNER: dict[object, dict[tuple[str, ...], type | UnionType]] = {
    "cell": {
        ("axes", "*"): str | _NUMBER | list | None,
        **{("axes", name): str | _NUMBER | None for name in ("m", "n", "k", "semiring", "dtype", "backend")},
        ("arguments", "backend"): str,
        ("arguments", "problem"): dict | None,
        ("facts", "plan"): dict | None,
        ("facts", "problem"): dict | None,
        ("facts", "operations"): _NUMBER,
        ("facts", "bytes_moved"): _NUMBER,
        ("readings", "*"): list,
        ("readings", "*", "*"): list,
        ("load", "*"): _NUMBER,
        ("all_cores", "*"): _NUMBER,
        ("clock", "nominal_mhz"): _NUMBER,
        ("left_out", "*"): str,
        ("loops", "*"): _NUMBER,
        ("warm_up_calls", "*"): _NUMBER,
    },
    "machine": {
        **{("machine", name): str for name in ("cpu", "system", "python")},
        **{("machine", name): int for name in ("cores", "threads", "l1d", "l2", "l3", "memory")},
        **{("machine", name): int for name in ("family", "model", "stepping")},
        **{("machine", name): dict for name in ("packages", "gpu")},
        ("machine", "simd"): list,
        **{("machine", name, "*"): str for name in ("packages", "gpu", "simd")},
    },
    "run": {("experiments",): list, ("experiments", "*"): str, ("part",): dict},
    "done": {("experiments",): list, ("experiments", "*"): str},
}
# What a fingerprint has at least.
_MACHINE = ("cpu", "cores", "threads", "l1d", "l2", "l3")


def flaw(record: Record) -> str | None:
    """Return the reason why `record`, of schema `SCHEMA`, is no valid record of its kind, or None."""
    kind, names = record.get("kind"), lacking(record)
    if names:
        return f"kind {kind!r} without {', '.join(names)}"
    for name, expected in FIELDS.get(kind, {}).items():
        if not _is_of(record[name], expected):
            return _not_of(name, record[name], expected)
    if kind == "cell" and record["status"] not in STATUSES:
        return f"status {record['status']!r}"
    if kind == "cell" and not _are_samples(record["samples_ns"]):
        return f"samples_ns {str(record['samples_ns'])[:MOST_SHOWN]!r}, not numbers above 0 by process"
    absent = [name for name in _MACHINE if kind == "machine" and name not in record["machine"]]
    if absent:
        return f"machine without {', '.join(absent)}"
    found = next(filter(None, (_inner_flaw(record, path, expected) for path, expected in INNER[kind].items())), None)
    return found or (_not_read(record["readings"]) if kind == "cell" else None)


def _inner_flaw(record: Any, path: tuple[str, ...], expected: type | UnionType) -> str | None:
    """Return the first value at `path` that is of another type than `expected`, or None."""
    values = [record]
    for name in path:
        if name == "*":
            values = [item for value in values for item in (value.values() if isinstance(value, dict) else value)]
        else:
            values = [value[name] for value in values if name in value]
    wrong = next((value for value in values if not _is_of(value, expected)), values)
    return None if wrong is values else _not_of(".".join(path), wrong, expected)


def _is_of(value: Any, expected: type | UnionType) -> bool:
    """Return whether `value` is of that type, and no integer that is beyond every float."""
    return isinstance(value, expected) and not (type(value) is int and abs(value) > sys.float_info.max)


def _not_of(name: str, value: Any, expected: type | UnionType) -> str:
    return f"{name} {str(value)[:MOST_SHOWN]!r}, not of type {getattr(expected, '__name__', expected)}"


def _not_read(readings: Mapping[str, list[list[Any]]]) -> str | None:
    """Return the first readings that are not numbers, each or None for a sample; None: there are none."""
    by_name = ((name, process) for name, by_process in readings.items() for process in by_process)
    wrong = next((pair for pair in by_name if not {*map(type, pair[1])} <= {int, float, bool, type(None)}), None)
    return None if wrong is None else _not_of(f"readings.{wrong[0]}", wrong[1], _NUMBER)


def _are_samples(samples_ns: list[Any]) -> bool:
    """Return whether these are lists of times, which are no NaN and have a finite sum."""
    try:
        return all(min(process, default=1) >= LEAST_NS and math.isfinite(math.fsum(process)) for process in samples_ns)
    except (TypeError, OverflowError):
        return False


def lacking(record: Mapping[str, Any]) -> list[str]:
    """Return the fields that a record of its kind has and `record` has not."""
    return [name for name in FIELDS.get(record.get("kind"), {}) if name not in record]


def migrate(record: Record) -> Record:
    """Return `record`, of schema `OLDEST` to `SCHEMA`, as one of `SCHEMA`."""
    is_without = record["schema"] == OLDEST and record.get("kind") == "cell"
    return {**({"left_out": []} if is_without else {}), **record, "schema": SCHEMA}
