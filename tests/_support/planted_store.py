"""Records that were never measured, for tests of the store: one at a time, or a store of any size."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.machine import Machine
from harness.store.store import Cell, Store

MACHINE = Machine(cpu="planted", cores=2, threads=2, l1d=1, l2=2, l3=3, simd=("avx2",), memory=4)


def cell(contender: str = "a", n: int = 64, **changes: Any) -> dict[str, Any]:
    """Return the record of one cell, whose case and key follow from `n`, `contender` and the source."""
    source = changes.get("source", "source1")
    record = {
        **{name: {} for name in ("case_arguments", "environment", "budget", "readings", "clock", "all_cores")},
        "seed": None,
        "task": "",
        "left_out": [],
        "series": "hot",
        "warm_up_calls": [],
        "stolen": None,
        "kind": "cell",
        "experiment": "ladder",
        "preset": "quick",
        "case": f"case{n}",
        "axes": {"n": n},
        "contender": contender,
        "arguments": {"backend": f"cpu-{contender}"},
        "threads": 1,
        "reference": "a",
        "status": "ok",
        "reason": "",
        "unmet": "",
        "samples_ns": [[2.0, 4.0], [3.0]],
        "loops": [1, 1],
        "rounds": 1.0,
        "processes": 2,
        "facts": {"operations": 6},
        "verified": "all",
        "threads_read": {},
        "load": [0.0, 0.0],
        "machine": MACHINE.key,
        "key": f"{contender} {n} {source}",
        "run": "run1",
        "time": "2025-01-01T00:00:00+00:00",
        "version": "0.1.0",
        "source": source,
        "commit": "",
    }
    return {**record, **changes}


def read_cell(record: Mapping[str, Any] | None = None, **fields: Any) -> Cell:
    """Return a cell that was never read, of these fields; the others are empty."""
    names = {field.name for field in dataclasses.fields(Cell)} - {"record", "is_current"}
    return Cell(**{**dict.fromkeys(names, ""), **fields}, record=record or {})


def begun(run: str = "run1", **changes: Any) -> dict[str, Any]:
    """Return the record of the begin of a run."""
    return {"kind": "run", "run": run, "machine": MACHINE.key, "time": "", "experiments": ["ladder"], **changes}


def done(run: str = "run1", *experiments: str) -> dict[str, Any]:
    """Return the record of the end of a run that recorded all cases of `experiments`, by default of "ladder"."""
    return {"kind": "done", "run": run, "time": "", "experiments": list(experiments or ("ladder",))}


def fill(
    folder: Path, *, runs: int, cases: int, contenders: int = 10, samples: int = 12, experiment: str = "ladder"
) -> Store:
    """Record `runs` completed runs of the same `cases`, as large per cell as real ones are, and return their store."""
    store, noise = Store(folder), random.Random(1)
    names = ["a", *(f"contender-{index}" for index in range(1, contenders))]
    problem = {"semiring": "plus_times", "dtype": "float64", "alpha": None, "beta": None, "layout": "CCC"}
    for run in range(runs):
        store.append(begun(f"run{run:03}", experiments=[experiment]))
        records = [
            cell(
                name,
                n,
                experiment=experiment,
                run=f"run{run:03}",
                axes={"m": n, "n": n, "k": n, "dtype": "float64", "semiring": "plus_times", "kind": "planted"},
                samples_ns=[[round(noise.uniform(1e6, 2e6), 1) for _ in range(samples)] for _ in range(2)],
                facts={"operations": 2 * n**3, "bytes_moved": 24 * n**2, "problem": problem, "plan": {"threads": 1}},
                threads_read={"openblas": 1, "openblas kernels": "0.3 Planted", "numba": 1, "numba_layer": "omp"},
                verified=f"16 rows and 16 columns of {n}x{n}, within 1 unit of rounding; every element by projection",
                version="0.1.0",
                commit=f"{run:012x}",
            )
            for n in range(1, cases + 1)
            for name in names
        ]
        for first in range(0, len(records), contenders * 100):
            store.append(*records[first : first + contenders * 100], machine=MACHINE)
        store.append(done(f"run{run:03}", experiment))
    return store
