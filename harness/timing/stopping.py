"""When a case has been sampled enough: when the interval of every paired ratio is narrow. Pure.

To stop as soon as an interval happens to be narrow would make intervals that are too narrow: luck would decide when to
look away. So intervals are looked at only at checkpoints fixed beforehand, each after twice as many rounds as the one
before: few looks, at samples half of which are new. Simulated on skewed and spiky noise, the 95 % interval then still
covers the true median in 94 % of the measurements; with a look after each round it is 93 %.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.stats import statistics

GROWTH = 2


def checkpoints(rounds: int) -> Iterator[int]:
    """Yield after how many rounds the intervals are looked at: `rounds`, and then twice as many again and again."""
    return (max(1, rounds) * GROWTH**look for look in itertools.count())


def half_width(samples: Sequence[float], reference: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of the paired ratio, relative to the ratio; infinite without pairs."""
    ratio = statistics.paired_ratio(samples, reference)
    return (ratio.high - ratio.low) / 2 / ratio.estimate if ratio.estimate > 0 else float("inf")


def pairs(processes: Sequence[Mapping[str, Sequence[float]]], labels: Iterable[str]) -> dict[str, list[float]]:
    """Return the samples of contenders over all processes, by contender; those of equal index were taken side by side.

    What one contender has more than another in a process has no partner, and is left out.
    """
    wanted = list(labels)
    counts = [min(len(samples[label]) for label in wanted) for samples in processes]
    return {
        label: [ns for samples, count in zip(processes, counts, strict=True) for ns in samples[label][:count]]
        for label in wanted
    }


def too_wide(samples_ns: Mapping[str, Sequence[float]], reference: str, precision: float) -> dict[str, float]:
    """Return, by contender, the relative half-width of the interval of its ratio where it is above `precision`.

    Parameters
    ----------
    samples_ns : mapping of str to sequence of float
        By contender. One that has no partner (the reference itself, or all if the reference has no samples) has no
        ratio that could be too wide.
    reference : str
    precision : float
        0: anything will do.
    """
    if not precision or reference not in samples_ns:
        return {}
    widths = {
        label: half_width(samples, samples_ns[reference]) for label, samples in samples_ns.items() if label != reference
    }
    return {label: width for label, width in widths.items() if not width <= precision}
