"""The contract of backends, by kernels that are executed on the CPU."""

import numpy as np
import pytest

from harness import SEMIRINGS
from tests.gpu.on_cpu import ON_CPU, RUNGS, SMALL, contract_findings, with_small_tiles

pytestmark = ON_CPU

# Every rung, and semirings and dtypes of every kind among them.
KERNELS = (
    ("gpu-naive-block", "plus_times", "float32"),
    ("gpu-naive-block", "min_plus", "int16"),
    ("gpu-naive", "plus_times", "int16"),
    ("gpu-naive", "min_plus", "int32"),
    ("gpu-row", "min_plus", "int32"),
    ("gpu-naive", "max_min", "float32"),
    ("gpu-naive", "min_max", "float64"),
    ("gpu-naive", "lxor_land", "bool"),
    ("gpu-naive", "plus_min", "float64"),
    ("gpu-naive", "logaddexp_plus", "float32"),
    ("gpu-pipelined", "min_plus", "float32"),
    ("gpu-tuned", "min_plus", "float32"),
    ("gpu-tuned", "logaddexp_plus", "float32"),
    ("gpu-paired", "max_plus", "float16"),
    ("gpu-mv-thread", "min_plus", "float64"),
    ("gpu-mv-cached", "plus_times", "float32"),
    ("gpu-mv-reduce", "logaddexp_plus", "float32"),
    ("gpu-mv-grid", "max_plus", "int16"),
    ("gpu-mv-scatter", "max_min", "float32"),
    ("gpu-mv-scatter", "plus_times", "int16"),
    ("gpu-mv-scatter", "lxor_land", "bool"),
    ("gpu-mv-tuned", "plus_times", "float32"),
    ("gpu-mv-tuned", "min_plus", "uint8"),
    ("gpu-mv-tuned", "min_plus", "float16"),
    ("gpu-mv-tuned", "logaddexp_plus", "float64"),
    ("gpu-symv", "plus_times", "float64"),
    ("gpu-symv", "min_plus", "float32"),
    ("gpu-symv", "max_min", "int16"),
    ("gpu-symv", "lor_land", "bool"),
    ("gpu-rank-update", "plus_times", "float32"),
    ("gpu-rank-update", "min_plus", "int32"),
    ("gpu-rank-update", "logaddexp_plus", "float64"),
    ("gpu-rank-update", "lxor_land", "bool"),
)


def _kernels():
    """Return all of them; those after the first of a rung are deep."""
    seen = set()
    for kernel in KERNELS:
        yield pytest.param(*kernel, marks=[pytest.mark.deep] if kernel[0] in seen else [])
        seen.add(kernel[0])


@pytest.mark.parametrize(("name", "semiring", "dtype"), [*_kernels()])
def test_contract_holds_on_the_cpu(name, semiring, dtype):
    rung = with_small_tiles(name) if name in SMALL else RUNGS[name]
    found = contract_findings(rung, SEMIRINGS[semiring], np.dtype(dtype))
    assert not [finding for finding in found if finding.status == "failed"]
    assert any(finding.status == "ok" for finding in found)
    if name.startswith("gpu-mv"):
        assert [finding.status for finding in found if finding.what.endswith("matrix and vector")] == ["ok"]
