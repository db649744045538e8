"""Plans for every chip that is known by name: within its limits, and without instructions that it lacks."""

import random

import numpy as np
import pytest

from backends.gpu._cuda import device
from backends.gpu._program.program import Matrix, Place
from harness import registry
from harness.machine import detect
from harness.plan import LARGEST_BLOCK
from harness.problem import Problem
from harness.tuning.device import DEVICES, MEASURED, like, queried

LADDER = (
    "gpu-tuned", "gpu-tensor-core", "gpu-paired", "gpu-bits", "gpu-pipelined", "gpu-warp-tiled", "gpu-register-tiled",
)  # fmt: skip
KINDS = [
    ("plus_times", "float32", None), ("plus_times", "float64", None), ("plus_times", "float32", "float16"),
    ("min_plus", "float32", None), ("min_plus", "int32", None), ("max_min", "float64", None),
    ("min_plus", "int16", None), ("plus_times", "int8", None), ("lor_land", "bool", None),
    ("plus_times", "int32", "int8"),
]  # fmt: skip


def problems(seed):
    """Yield products of all kinds: square, thin, deep, tall, triangles; rows and columns."""
    draw = random.Random(seed)

    def size(most):
        return round(most ** draw.random())

    for semiring, dtype, narrow in KINDS * 12:
        m, n, k = draw.choice(
            ((size(9000), size(9000), size(9000)), (size(300), size(60_000), size(4000)), (2000 + size(90_000), 20, 90))
        )
        triangle = draw.choice(("", "", "", "d"))
        layout = "".join(draw.choice("CF") for _ in "ab") + "C"
        more = {"layout": layout, "operand_dtype": narrow, "triangle": triangle}
        yield Problem(m, m if triangle else n, k, semiring, np.dtype(dtype), **more)


def matrices(rung, plan):
    problem, taken = plan.problem, rung.columns_taken(plan)
    sides = (("a", problem.m, problem.k), ("b", problem.k, problem.n), ("out", problem.m, problem.n))
    for (name, rows, columns), order in zip(sides, problem.layout, strict=True):
        by_columns = order == "F" and name in taken and rows > 1
        yield Matrix(Place(name), rows if by_columns else columns, by_columns=by_columns)


@pytest.mark.parametrize("name", DEVICES)
def test_every_plan_is_within_the_limits_of_its_chip(name, monkeypatch):
    chip = DEVICES[name]
    monkeypatch.setattr(device, "_no_gpu", lambda: None)
    monkeypatch.setattr(device, "device", lambda index=None: chip)
    rungs = [entry.backend for entry in registry.discover() if entry.name in LADDER]
    rungs, planned = [rung for rung in rungs if rung.missing() is None], 0
    for problem in problems(name):
        for rung in (rung for rung in rungs if rung.declines(problem) is None):
            plan = rung.plan(problem, detect())
            for kernel in rung.program(plan, *matrices(rung, plan)).kernels():
                assert kernel.shared_bytes <= chip.shared_memory, plan
                assert np.prod(kernel.block) <= LARGEST_BLOCK
                assert chip.has_wgmma or not kernel.suffix, plan
            planned += 1
    assert planned > 200


def test_a_gpu_has_what_it_says_of_itself_and_the_rates_of_the_chip_that_it_is_most_like():
    half = queried("NVIDIA A100-SXM4-80GB MIG 3g.40gb", (8, 0), 54, shared_memory=163 << 10)
    assert (half.multiprocessors, half.name[:11]) == (54, "NVIDIA A100")
    assert half.single == DEVICES["A100"].single / 2
    assert half.speed["single"] == pytest.approx(DEVICES["A100"].speed["single"])
    assert like("NVIDIA GeForce RTX 4070", (8, 9)) is DEVICES["RTX 4090"]
    assert like("a chip of tomorrow", (13, 0)) is DEVICES["DGX Spark"]
    assert set(queried("NVIDIA H100 PCIe", (9, 0), 114).speed.values()) == {1.0}


def test_a_chip_that_was_not_measured_is_planned_by_the_model(monkeypatch):
    """A chip with half of the multiprocessors shares k of the same tiles by half as many blocks, or fewer."""
    from harness.tuning.gpu import thin_tiles

    problem = Problem(64, 64, 200_000, dtype=np.dtype(np.float32))
    shares = [thin_tiles.SIMT_4.choose(problem, DEVICES[name]).shares for name in ("H200", "RTX 2080", "Jetson Thor")]
    assert shares[0] > shares[1] > shares[2] >= 1
    assert MEASURED.alone(4) == 124
    assert [DEVICES[name].alone(4) for name in ("B200", "Jetson Thor")] == [139, 18]
