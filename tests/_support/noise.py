"""Noise as machines make it, for simulations: times of two contenders that take equally long, sampled in ABBA order."""

from __future__ import annotations

import numpy as np

KINDS = ("lognormal", "skewed", "spikes", "drift", "two states", "processes")


def times(
    kind: str, cells: int, processes: int, rounds: int, seed: int = 1, **options
) -> tuple[np.ndarray, np.ndarray]:
    """Return two (cells, processes, 2 rounds) arrays of times of contenders of which neither is faster.

    "lognormal": independent, of 20 %. "skewed": a lognormal part is added. "spikes": 15 % of the samples take up to
    twice as long. "drift": the machine gets slower or faster by 30 % and walks at random. "two states": the machine
    changes between two speeds, 25 % apart, once in 30 samples. "processes": each differs by `scatter`.
    """
    rng = np.random.default_rng(seed)
    shape, slots = (cells, processes, 2 * rounds), 4 * rounds
    first = np.repeat(rng.random((cells, processes, rounds)) < 0.5, 2, axis=2)
    position = np.arange(2 * rounds) % 2  # of the half in its round: the order is reversed in the second
    own_slot = 2 * np.arange(2 * rounds) + np.where(first == (position == 0), 0, 1)
    reference_slot = 2 * np.arange(2 * rounds) + np.where(first == (position == 0), 1, 0)
    state, offset = np.zeros((cells, processes, slots)), np.zeros((cells, processes, 1))

    def own_noise() -> np.ndarray:
        normal = rng.normal(size=shape)
        if kind == "lognormal":
            return 0.2 * normal
        if kind == "skewed":
            return np.log1p(0.05 * np.exp(normal))
        if kind == "spikes":
            return np.log1p(0.01 * np.abs(normal) + (rng.random(shape) < 0.15) * rng.gamma(1, 0.5, shape))
        return 0.01 * normal

    if kind == "drift":
        state = 0.3 * np.arange(slots) / slots * rng.choice([-1, 1], (cells, processes, 1))
        state = state + np.cumsum(0.01 * rng.normal(size=(cells, processes, slots)), axis=2)
    elif kind == "two states":
        flips = rng.random((cells, processes, slots)) < 1 / 30
        flips[:, :, 0] = rng.random((cells, processes)) < 0.5
        state = np.log(1.25) * (np.cumsum(flips, axis=2) % 2)
    elif kind == "processes":
        offset = np.asarray(options.get("scatter", 0.01)) * rng.normal(size=(cells, processes, 1))
    own = np.take_along_axis(state, own_slot, 2) + own_noise() + offset
    reference = np.take_along_axis(state, reference_slot, 2) + own_noise()
    return 1e5 * np.exp(own), 1e5 * np.exp(reference)
