"""What registers alone can do here, for each semiring and dtype: the roofs that percentages of peak are taken of.

The roof is the fastest of a few samples: nothing makes a loop of registers faster than it is, and much makes it slower.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from harness.errors import Declined
from harness.semiring import DTYPES, SEMIRINGS
from harness.timing.sampler import ClockSampler
from harness.timing.warmup import warm_up

PEAK_TASK = "backends.cpu._ceilings:peak"
SAMPLES, SAMPLE_NS = 15, 2e6


def measure_peaks(
    semirings: Iterable[str] = tuple(SEMIRINGS), dtypes: Iterable[np.dtype[Any]] = DTYPES, threads: int = 1
) -> Iterator[tuple[str, str, float]]:
    """Yield semiring, dtype and its peak in 1e9 pairs a second, for each that has a kernel; compiles at first use."""
    module, _, name = PEAK_TASK.partition(":")
    factory = getattr(importlib.import_module(module), name)
    dtypes = tuple(dtypes)
    for semiring in semirings:
        for dtype in dtypes:
            try:
                task = factory(dtype=dtype.name, semiring=semiring, threads=threads)
            except Declined:
                continue
            sampler = ClockSampler(task.run, task.wait)
            loops = warm_up(sampler, SAMPLE_NS, SAMPLES * SAMPLE_NS).loops
            fastest_ns = min(sample.ns for sample in sampler.sample(loops, SAMPLES))
            yield semiring, dtype.name, task.facts()["operations"] / 2 / fastest_ns


def table(peaks: Iterable[tuple[str, str, float]]) -> list[tuple[str, ...]]:
    """Return what `measure_peaks` yields as lines: semiring, then a column for each of `DTYPES`."""
    found = {(semiring, dtype): rate for semiring, dtype, rate in peaks}
    semirings = dict.fromkeys(semiring for semiring, _ in found)
    return [
        (name, *(f"{found[name, d.name]:.1f}" if (name, d.name) in found else "" for d in DTYPES)) for name in semirings
    ]
