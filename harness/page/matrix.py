"""Semirings by dtypes: which part of its measured peak the subject reaches, on each machine and device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np

from harness.analysis import rates
from harness.dtypes import TABLE
from harness.experiment import Experiment
from harness.page.recorded import Recorded, ShownRow, subjects_of
from harness.semiring import SEMIRINGS
from harness.stats.statistics import median

FINDING = "of_peak"
DTYPES = list(TABLE)
# In place of a share.
NOT_MEASURED, NO_SUCH = "not measured", "does not exist"


class Field(NamedTuple):
    """A semiring over a dtype."""

    percent: float  # of the measured peak, median over sizes
    sizes: int
    address: str  # the state of the page that shows it


class Matrix(NamedTuple):
    """One subject on one machine, of one experiment."""

    title: str
    dtypes: list[str]
    rows: list[tuple[str, list[Field | str]]]  # a semiring, and for each dtype its field, or why there is none


def matrices(machines: Iterable[Recorded], rows: Iterable[ShownRow], experiments: Iterable[Experiment]) -> list[Matrix]:
    """Return a matrix for each experiment and machine that asked how much of the peak a subject reaches."""
    asked = {e.name: e for e in experiments if any(f.options.get("finding") == FINDING for f in e.figures)}
    found = [row for row in rows if row.peak and row.experiment in asked]
    of_subject = [row for row in found if row.backend in subjects_of(asked[row.experiment])]
    groups = rates.group(of_subject, lambda row: (row.machine, row.experiment, row.contender, row.on))
    order = [recorded.name for recorded in machines]
    return [_matrix(key, own) for key, own in sorted(groups.items(), key=lambda entry: order.index(entry[0][0]))]


def _matrix(key: tuple[str, str, str, str], rows: list[ShownRow]) -> Matrix:
    machine, experiment, contender, on = key
    dtypes = [dtype for dtype in DTYPES if any(row.dtype == dtype for row in rows)]
    known = [*SEMIRINGS, *sorted({row.semiring for row in rows} - set(SEMIRINGS))]
    semirings = [name for name in known if any(row.semiring == name for row in rows)]
    by_field = rates.group(rows, lambda row: (row.semiring, row.dtype))
    address = {"machine": machine, "experiment": experiment}
    table = [
        (
            name,
            [
                _field(by_field.get((name, dtype), []), {**address, "semiring": name, "dtype": dtype})
                or _why(name, dtype)
                for dtype in dtypes
            ],
        )
        for name in semirings
    ]
    return Matrix(f"{contender}, {machine}, {on}", dtypes, table)


def _field(rows: list[ShownRow], state: dict[str, str]) -> Field | None:
    shares = [row.peak.estimate for row in rows if row.peak is not None]
    return Field(median(shares), len(shares), urlencode(state)) if shares else None


def _why(semiring: str, dtype: str) -> str:
    """Return why there is no share: products of such elements are not measured, or the semiring has none."""
    known = SEMIRINGS.get(semiring) if TABLE[dtype].is_of_sums else None
    return NO_SUCH if known and known.unsupported(np.dtype(dtype)) else NOT_MEASURED
