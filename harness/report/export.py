"""Stored cells as a flat table in a file, CSV or Parquet: a row for each cell, or for each sample. Streams.

CSV needs the standard library only. Parquet is made from it by Polars (extra "export"), with a type for each column.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.analysis import rates
from harness.errors import HarnessError, StoreError
from harness.store.schema import CELL, Field
from harness.store.store import Cell

SUFFIXES = (".csv", ".parquet")

# A cell and the slug of its machine, which is the name of its folder.
Placed = tuple[str, Cell]

# Type and value of a column.
Column = tuple[type, Callable[[str, Cell], Any]]
# Columns that no field of a record holds directly.
_DERIVED: dict[str, Column] = {
    "machine": (str, lambda slug, cell: slug),
    "is_current": (bool, lambda slug, cell: cell.is_current),
    "backend": (str, lambda slug, cell: cell.arguments.get("backend")),
    "samples": (int, lambda slug, cell: len(cell.all_samples_ns)),
    "operations": (float, lambda slug, cell: cell.facts.get("operations")),
    "bytes_moved": (float, lambda slug, cell: cell.facts.get("bytes_moved")),
}
# The folder of a machine is the column "machine"; the key of its fingerprint has another name.
_RENAMED = {"machine": "fingerprint"}
# The columns of a cell that a row of a sample repeats; `key` and `run` lead to the others.
_IDENTITY = ("machine", "preset", "experiment", "run", "is_current", "commit", "case", "key", "contender", "threads")


def _column(field: Field) -> Column:
    """Return the column of a field of the record: what is neither text nor number is JSON."""
    column_type = float if isinstance(0.0, field.type) else int if isinstance(0, field.type) else str
    return column_type, lambda slug, cell: cell.record.get(field.name)


_RECORDED = {_RENAMED.get(field.name, field.name): _column(field) for field in CELL if field.is_column}
# Columns of the axes follow, as "axes.n".
_ALL = {**_RECORDED, **_DERIVED}
_COLUMNS = {name: _ALL[name] for name in (*_IDENTITY, *_ALL)}
_INTERVAL = ("median_ns", "low_ns", "high_ns")
_SAMPLE = {"process": int, "sample": int, "time_ns": float}


def rows(cells: Iterable[Placed]) -> Iterator[dict[str, Any]]:
    """Yield each cell as a flat mapping: the columns, then the coordinates of its case, as "axes.<name>"."""
    for slug, cell in cells:
        row = {name: value(slug, cell) for name, (_, value) in _COLUMNS.items()}
        times = rates.time_interval(cell) if cell.is_ok else (None,) * len(_INTERVAL)
        yield {**row, **dict(zip(_INTERVAL, times, strict=True)), **_axes(cell)}


def write(cells: Callable[[], Iterable[Placed]], path: Path, *, samples: bool = False) -> int:
    """Write a table of cells to `path` and return how many rows it has. An existing file is replaced at the end.

    Parameters
    ----------
    cells : callable
        Returns the cells to write; called twice, since the columns have to be known before the rows.
    path : Path
        Its suffix, ``.csv`` or ``.parquet``, decides the format.
    samples : bool
        A row for each sample, with what identifies its cell (`key` and `run` lead to its row); else for each cell.

    Raises
    ------
    StoreError
        If the suffix is another one, or the file cannot be written.
    HarnessError
        If Parquet is asked for and Polars is not installed.
    """
    if path.suffix not in SUFFIXES:
        raise StoreError(f"{path}: unknown format", expected=f"a name that ends in {' or '.join(SUFFIXES)}")
    polars = _polars() if path.suffix == ".parquet" else None
    types = _types(cells(), samples=samples)
    part, table = (path.with_name(f".{path.name}.{os.getpid()}{suffix}") for suffix in (".part", ".csv"))
    try:
        count = _write_csv(table, [*types], _sample_lines(cells(), [*types]) if samples else _lines(cells(), [*types]))
        if polars is None:
            table.replace(path)
        else:
            dtypes = {str: polars.String, int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
            schema = {name: dtypes[column_type] for name, column_type in types.items()}
            polars.scan_csv(table, schema=schema).sink_parquet(part)
            part.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written", got=error.strerror or str(error)) from error
    finally:
        for scratch in (table, part):
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)
    return count


def _write_csv(path: Path, names: Sequence[str], lines: Iterable[Sequence[Any]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for line in lines:
            writer.writerow(line)
            count += 1
    return count


def _lines(cells: Iterable[Placed], names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield a line for each cell."""
    for row in rows(cells):
        yield [_text(row.get(name)) for name in names]


def _sample_lines(cells: Iterable[Placed], names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield a line for each sample: the identity of its cell; its process, its index from 0, its time."""
    for slug, cell in cells:
        row = {**{name: _COLUMNS[name][1](slug, cell) for name in _IDENTITY}, **_axes(cell)}
        identity = [_text(row.get(name)) for name in names[: -len(_SAMPLE)]]
        for process, samples in enumerate(cell.samples_ns):
            for index, sample in enumerate(samples):
                yield [*identity, process, index, sample]


def _text(value: Any) -> Any:
    """Return a value for CSV: an empty string for None, JSON for all but texts and numbers."""
    return value if isinstance(value, str | float | int) and not isinstance(value, bool) else _as_json(value)


def _as_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, default=dict)


def _axes(cell: Cell) -> dict[str, Any]:
    return {f"axes.{name}": value for name, value in cell.axes.items()}


def _types(cells: Iterable[Placed], *, samples: bool) -> dict[str, type]:
    """Return the columns and their types; an axis has the one type that holds all its values."""
    by_axis: dict[str, set[type]] = {}
    for _, cell in cells:
        for name, value in _axes(cell).items():
            by_axis.setdefault(name, set()).add(type(value))
    axes = {name: _common_type(kinds - {type(None)}) for name, kinds in sorted(by_axis.items())}
    types = {name: column_type for name, (column_type, _) in _COLUMNS.items()}
    if samples:
        return {**{name: types[name] for name in _IDENTITY}, **axes, **_SAMPLE}
    return {**types, **dict.fromkeys(_INTERVAL, float), **axes}


def _common_type(kinds: set[type]) -> type:
    if kinds in ({bool}, {int}):
        return next(iter(kinds))
    return float if kinds and kinds <= {int, float} else str


def _polars() -> Any:
    try:
        import polars  # noqa: ICN001 the whole name, as in messages
    except ImportError as error:
        raise HarnessError(
            "Parquet needs Polars, which is not installed",
            fix="pip install polars, or a name that ends in .csv",
        ) from error
    return polars
