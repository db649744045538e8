"""Tasks that copy between host and GPU: padding on the host and in transit, and stages of a call, on a played GPU."""

import contextlib
import ctypes

import numpy as np
import pytest

from backends.gpu._tasks import transfers
from backends.gpu.libraries import _peer
from experiments._parts import breakdown_task
from harness import VerificationError
from harness.problem import Problem
from harness.run.task import gemm
from tests.gpu.host_gpu import install
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM


def _copy_2d(to, pitch_to, source, pitch_source, width, height, kind):
    for row in range(height):
        ctypes.memmove(to + row * pitch_to, source + row * pitch_source, width)


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that the host plays, with what copies in its runtime, and a list of pages that are locked."""
    monkeypatch.setattr(_peer, "_is_installed", lambda package: False)
    gpu = install(monkeypatch)
    gpu.locked = []
    vars(gpu.cuda.runtime).update(
        memcpy2D=_copy_2d,
        memcpy=lambda to, source, size, kind: ctypes.memmove(to, source, size),
        free=lambda address: None,
        deviceSynchronize=lambda: None,
        hostRegister=lambda address, size, flags: gpu.locked.append(address),
        hostUnregister=gpu.locked.remove,
    )
    gpu.cuda.using_allocator = lambda allocator: contextlib.nullcontext()
    return gpu


def task_of(padding, problem, **parameters):
    arguments = {"backend": "gpu-tuned", "copies": "always", "seed": 1, "threads": 1, "parameters": parameters}
    return transfers.product(problem=problem.to_json(), padding=padding, **arguments)


@pytest.mark.parametrize("padding", transfers.PADDING)
@pytest.mark.parametrize(("semiring", "size"), (("plus_times", (65, 33, 17)), ("min_plus", (7, 129, 40))))
def test_products_are_right_whoever_pads(gpu, padding, semiring, size):
    task = task_of(padding, Problem(*size, semiring, np.dtype(np.float32)))
    for _ in range(2):
        task.spoil()
        with pytest.raises(VerificationError):
            task.verify()
        task.run()
        task.wait()
        task.verify()


def test_whole_tiles_are_what_is_computed_and_paid_for_in_memory(gpu):
    problem = Problem(65, 33, 17, dtype=np.dtype(np.float32))
    plain, on_host, in_transit = (task_of(padding, problem) for padding in transfers.PADDING)
    whole, tile = in_transit._plan.problem, in_transit._plan.launch
    for extent, size, step in ((whole.m, 65, tile.bm), (whole.n, 33, tile.bn), (whole.k, 17, tile.bk)):
        assert extent % step == 0
        assert size <= extent < size + step
    more = 4 * (whole.m * whole.k + whole.k * whole.n + whole.m * whole.n - 65 * 17 - 17 * 33 - 65 * 33)
    on_the_host = 4 * (whole.m * whole.k + whole.k * whole.n)
    facts = [task.facts() for task in (plain, in_transit, on_host)]
    assert facts[0]["extra_bytes"] == plain._execution.extra_bytes
    assert facts[1]["extra_bytes"] == more + in_transit._execution.extra_bytes
    assert facts[2]["extra_bytes"] == facts[1]["extra_bytes"] + on_the_host
    assert {each["operations"] for each in facts} == {problem.operations}


def test_a_product_on_a_gpu_says_what_memory_it_takes_beside_its_operands(gpu):
    problem = Problem(65, 33, 17).to_json()
    redirected, padded = (
        gemm(problem=problem, backend="gpu-tuned", seed=1, threads=1, parameters={"edge": edge}).facts()["extra_bytes"]
        for edge in ("redirected", "padded")
    )
    assert redirected == 0
    assert padded >= 8 * (65 * 17 + 17 * 33)


@pytest.mark.parametrize("memory", breakdown_task.MEMORIES)
def test_stages_of_a_call_are_told_and_memory_is_kept_or_given_back(gpu, memory):
    problem = Problem(20, 30, 40)
    task = breakdown_task.product(problem=problem.to_json(), backend="gpu-tuned", memory=memory, seed=1, threads=1)
    assert {"start of the GPU", "load", "allocate", "compute"} <= set(task.first_call_s)
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()
    sample = task.clock().sample(task.run, task.wait, 1)
    task.verify()
    stages = {"host to device", "compute", "device to host"}
    if memory != breakdown_task.KEPT:
        stages |= {"allocate", "free"}
    if memory == breakdown_task.PINNED_BY_A_CALL:
        stages |= {"pin", "unpin"}
    assert set(sample.readings) == stages
    assert sum(sample.readings.values()) <= sample.ns
    assert len(gpu.locked) == (3 if memory in (breakdown_task.PINNED, breakdown_task.KEPT) else 0)


def test_arrays_that_are_locked_share_no_page_with_others():
    first, second = (breakdown_task._on_own_pages(np.arange(5.0)) for _ in range(2))
    assert first.ctypes.data % 4096 == second.ctypes.data % 4096 == 0
    np.testing.assert_array_equal(first, np.arange(5.0))
