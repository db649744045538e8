"""Facts of the machine for `gemm-harness info`: fingerprint, threads of libraries, tuned values, peaks.

The peak of a semiring and dtype is the rate of a loop out of registers. It is the fastest of a few samples, since
disturbance only makes a sample slower.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from harness import threads
from harness.dtypes import is_complex
from harness.errors import Declined
from harness.experiment import PEAK_TASK
from harness.machine import VERSION, Machine, detect, tiles_refused
from harness.run import descendants
from harness.semiring import DTYPES, SEMIRINGS
from harness.surroundings import can_keep
from harness.timing import host
from harness.timing.sampler import ClockSampler
from harness.timing.warmup import warm_up
from harness.tuning import stored as tuning_stored
from harness.tuning.choice import orders

KIB, GIB = 1 << 10, 1 << 30
# Facts that are kept of a pool of threads, and of tuned values.
_POOL = ("user_api", "internal_api", "version", "threading_layer", "architecture", "num_threads", "filepath")
_TUNED = ("date", "values", "notice")
# The dtypes of peaks: complex numbers have those of their parts.
PEAK_DTYPES = tuple(dtype for dtype in DTYPES if not is_complex(dtype))
# Samples of a peak, and the time of each [ns].
SAMPLES, SAMPLE_NS = 15, 2e6


def collect() -> dict[str, Any]:
    """Return ``machine``, ``slug``, ``key``, ``unseen``, ``tiles``, ``numba``, ``threadpools``, ``tuned``, as JSON."""
    from threadpoolctl import threadpool_info

    machine = detect()
    stored = tuning_stored.read(machine)
    numba = _numba()
    for package in ("numpy", "scipy.linalg"):
        if importlib.util.find_spec(package.partition(".")[0]):
            importlib.import_module(package)  # its pool is known once it is loaded
    pools = [{name: pool.get(name) for name in _POOL} for pool in threadpool_info()]
    return {
        "version": VERSION,
        "slug": machine.slug,
        "key": machine.key,
        "machine": machine.to_json(),
        "unseen": unseen(),
        "tiles": (tiles_refused() or "permitted") if "amx_tile" in machine.simd else "",
        "numba": numba,
        "threadpools": pools,
        "choice": _choice(machine),
        "tuned": {"path": str(stored.path or ""), **{name: getattr(stored, name) for name in _TUNED}},
    }


def unseen() -> list[str]:
    """Return what a run would look at, or do, and this system has no words for."""
    looks = {
        "processor time that a host takes": host.processor_time().total > 0,
        "one core for all contenders of a case": can_keep(),
        "processes and threads that a backend leaves running": descendants.are_seen(),
    }
    return [name for name, is_seen in looks.items() if not is_seen]


def _numba() -> dict[str, Any]:
    """Return Numba's number of threads, and its threading layer, chosen when it is first asked for threads."""
    import numba  # noqa: F401 (only what is loaded is read back)

    in_force = threads.read_back()
    return {"threads": in_force["numba"], "threading_layer": in_force["numba_layer"]}


def rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of `collect` as rows of a table."""
    machine = Machine.from_json(facts["machine"])
    caches = {"L1d": machine.l1d, "L2": machine.l2, "L3": machine.l3}
    pools = [
        (
            f"pool {pool['internal_api']}",
            f"{pool['num_threads']} threads  {pool['version'] or ''} {pool['threading_layer'] or ''} "
            f"{pool['architecture'] or ''}".strip(),
        )
        for pool in facts["threadpools"]
    ]
    return [
        ("gemm-harness", facts["version"]),
        ("machine", f"{facts['slug']} ({facts['key']})"),
        ("processor", machine.processor),
        ("cores", f"{machine.cores} usable"),
        ("caches", ", ".join(f"{name} {_kib(size)}" for name, size in caches.items())),
        ("SIMD", " ".join(machine.simd) or "not known"),
        *([("AMX tiles", facts["tiles"])] if facts["tiles"] else []),
        ("memory", f"{machine.memory / GIB:.1f} GiB"),
        ("not seen here", ", ".join(facts["unseen"]) or "nothing"),
        ("system", f"{machine.system}, Python {machine.python}"),
        *((f"package {name}", version) for name, version in machine.packages.items()),
        ("tuned values", _tuned(facts["tuned"])),
        ("choice of auto", facts["choice"]),
        ("numba", f"{facts['numba']['threads']} threads, threading layer {facts['numba']['threading_layer']}"),
        *pools,
    ]


def _tuned(stored: dict[str, Any]) -> str:
    """Return a line that says whether tuned values are in use, or why not."""
    if stored["date"]:
        count = sum(len(changed) for changed in stored["values"].values())
        return f"in use: {count} that differ from the model's, measured {stored['date']}, in {stored['path']}"
    if not stored["path"]:
        return f"turned off: {tuning_stored.VARIABLE} is empty"
    return f"warning: {stored['notice']}" if stored["notice"] else "none: the model's are in use"


def _choice(machine: Machine) -> str:
    """Return a line that says by what ``backend="auto"`` chooses on the host: `tune --auto --show` says it in full."""
    owner = orders.AutoOwner(machine)
    own = orders.own_table(owner)
    tables = [table for table in (own, orders.shipped_table(owner.kind)) if table.entries]
    sources = [f"{sum(map(len, table.entries.values()))} products {table.provenance}" for table in tables]
    warning = [f"warning: {own.notice}"] if own.notice else []
    return "; ".join([*warning, *sources]) or f"static: nothing was measured for {owner.kind}"


def _kib(size: int) -> str:
    return f"{size // KIB} KiB" if size else "not known"


def measure_peaks(
    semirings: Iterable[str] = tuple(SEMIRINGS), dtypes: Sequence[np.dtype[Any]] = PEAK_DTYPES
) -> Iterator[tuple[str, str, float]]:
    """Yield semiring, dtype and the peak of one thread [1e9 operations/s], for each that has a kernel."""
    module, _, name = PEAK_TASK.partition(":")
    factory = getattr(importlib.import_module(module), name)
    for semiring in semirings:
        for dtype in dtypes:
            try:
                task = factory(dtype=dtype.name, semiring=semiring, threads=1)
            except Declined:
                continue
            sampler = ClockSampler(task.run, task.wait)
            loops = warm_up(sampler, SAMPLE_NS, SAMPLES * SAMPLE_NS).loops
            fastest_ns = min(sample.ns for sample in sampler.sample(loops, SAMPLES))
            yield semiring, dtype.name, task.facts()["operations"] / fastest_ns


def peak_facts(semiring: str, dtype: str, gop_per_s: float) -> dict[str, Any]:
    """Return a peak of `measure_peaks` as a JSON object: in operations, and in pairs, of which each has two."""
    return {"semiring": semiring, "dtype": dtype, "gop_per_s": gop_per_s, "gpairs_per_s": gop_per_s / 2}


def peaks_table(peaks: Iterable[tuple[str, str, float]]) -> list[tuple[str, ...]]:
    """Return the peaks of `measure_peaks` as rows: semiring, then a column for each of `PEAK_DTYPES`."""
    rates = {(semiring, dtype): f"{rate:.1f}" for semiring, dtype, rate in peaks}
    semirings = dict.fromkeys(semiring for semiring, _ in rates)
    return [(name, *(rates.get((name, dtype.name), "") for dtype in PEAK_DTYPES)) for name in semirings]
