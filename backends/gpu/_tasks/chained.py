"""Launches chained in CUDA graphs, so that the host's time does not count, and timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import numpy as np

from backends.gpu._cuda import device

# A chain lasts about so long [s], and has as many launches.
CHAIN_S, MOST_LAUNCHES = 4e-4, 40
SEED = 1  # of the orders of turns


class Chain:
    """`count` launches in a CUDA graph; None: as many as last about `CHAIN_S`."""

    def __init__(self, launch: Callable[[], object], count: int | None = None) -> None:
        self._cuda = device.cupy().cuda
        self._stream, self._launch = self._cuda.Stream(non_blocking=True), launch
        device.synchronize()
        with self._stream:
            launch()  # loads
        self._stream.synchronize()
        self._capture(count or 3)
        if count is None:
            self.sample()
            self._capture(int(min(max(CHAIN_S / self.sample(), 2), MOST_LAUNCHES)))

    def _capture(self, count: int) -> None:
        self.count = count
        with self._stream:
            self._stream.begin_capture()
            for _ in range(count):
                self._launch()
            self._graph = self._stream.end_capture()

    def sample(self) -> float:
        """Return the time of one launch [s]."""
        begin, end = self._cuda.Event(), self._cuda.Event()
        begin.record(self._stream)
        self._graph.launch(self._stream)
        end.record(self._stream)
        end.synchronize()
        return float(self._cuda.get_elapsed_time(begin, end)) * 1e-3 / self.count


def race(chains: Mapping[str, Chain], rounds: int) -> dict[str, float]:
    """Return the median time of each [s], sampled in turns, each in another order.

    What follows a product that draws much power finds lower clocks: in one fixed order, a float64 triangle of 8192 took
    11.2 ms behind cuBLAS's, and 10.3 three places later (H200).
    """
    samples, orders = {name: [] for name in chains}, np.random.default_rng(SEED)  # type: dict[str, list[float]], Any
    for _ in range(rounds):
        for name in orders.permutation(list(chains)):
            samples[name].append(chains[name].sample())
    return {name: statistics.median(of_one) for name, of_one in samples.items()}
