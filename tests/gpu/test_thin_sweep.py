"""The choice of tiles of thin, flat and deep products against sweeps: it takes what is nearly the fastest.

`thin_sweep.json` has microseconds by kind of kernel, m x n x k, and bm, bn, bk, stages, slices, blocks that share k,
shares, blocks that share what they fetch, chained in CUDA graphs and without stagger, but for float32 where C is tall.
They are of one GPU each: of float64 an H200 on 2026-11-23 and 24 (docs/lab/2026-11-23-thin-tiles.md,
docs/lab/2026-11-24-stagger.md), of the others an H100 or H200 on 2026-11-25 (docs/lab/2026-11-25-clusters.md).
"""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from harness.problem import Problem
from harness.tuning.device import MEASURED
from harness.tuning.gpu import thin_tiles
from harness.tuning.gpu.family import Costs

SWEEP = json.loads(Path(__file__).with_name("thin_sweep.json").read_text(encoding="utf-8"))
# By kind: dtype of the sums and of the operands, and the mean and the worst of the choice's time over the best one's.
KINDS = {
    "SIMT_4": ("float32", None, 1.06, 1.45),
    "DOUBLE": ("float64", None, 1.06, 1.35),
    "HALF": ("float32", "bfloat16", 1.06, 1.5),
    "HALF_MMA": ("float32", "bfloat16", 1.06, 1.4),
}


def regrets(name):
    """Return by shape the time of the choice over that of the fastest, of those whose choice was measured."""
    dtype, narrow, *_ = KINDS[name]
    narrow = narrow and np.dtype(getattr(pytest.importorskip("ml_dtypes"), narrow))
    found = {}
    for shape, times in SWEEP[name].items():
        problem = Problem(*map(int, shape.split("x")), dtype=np.dtype(dtype), operand_dtype=narrow)
        tile, shares, together, _, cluster = getattr(thin_tiles, name).choose(problem, MEASURED)
        of = tile.launch
        key = ",".join(map(str, (of.bm, of.bn, of.bk, of.stages, tile.slices, together, shares, cluster)))
        if key in times:
            found[shape] = times[key] / min(times.values())
    return found


@pytest.mark.parametrize("name", KINDS)
def test_the_choice_takes_little_longer_than_the_best_of_a_sweep(name):
    found, (*_, mean, worst) = regrets(name), KINDS[name]
    assert len(found) > 0.7 * len(SWEEP[name])
    assert math.exp(sum(map(math.log, found.values())) / len(found)) < mean
    assert max(found.values()) < worst


# Pairs alone take time.
FREE = Costs(
    launch_s=0, wave_s=0, read=1e15, write=1e15, ends=0, ragged_a=1, ragged_b=1, ragged_c=1, fold_s=0, fold_byte_s=0
)


@pytest.mark.parametrize("name", ("DOUBLE", "HALF_MMA"))  # of the others, launches near the fastest alone were measured
def test_a_model_without_its_costs_would_be_found(name, monkeypatch):
    kind = getattr(thin_tiles, name)
    monkeypatch.setattr(thin_tiles, name, dataclasses.replace(kind, costs=FREE))
    with pytest.raises(AssertionError):
        test_the_choice_takes_little_longer_than_the_best_of_a_sweep(name)
