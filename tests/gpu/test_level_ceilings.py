"""The loops that L2 and shared memory are measured with: they compile everywhere, and do read in every pass."""

import pytest

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._tasks import levels


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_loops_keep_all_in_registers(arch):
    taken = resources(compile_kernel(levels.STEM, levels.DEFINES, arch))
    for name in ("l2", "shared"):
        assert taken[name].spill_bytes == 0
        assert taken[name].registers <= 65536 // (levels.THREADS * levels.BLOCKS)


@pytest.mark.gpu
@pytest.mark.parametrize("name", levels.LEVELS)
def test_a_level_is_summed_exactly(name):
    if reason := device.missing():
        pytest.skip(reason)
    task = levels.level(level=name, threads=1)
    task.spoil()
    task.run()
    task.wait()
    assert task.verify()
    assert task.facts()["capacity_bytes"] > 0
