"""gpu-ozaki by the public call, on a GPU that the host plays: when it is chosen, and what it declines."""

import contextlib

import numpy as np
import pytest

import harness
from backends.gpu._base.backend import GpuBackend
from backends.gpu._cuda import device
from backends.gpu._residues.product import stack_bytes
from backends.gpu.ozaki import panel_columns
from harness.api.arrays import kind_of
from harness.api.choice import choose
from harness.api.remembered import repeats
from harness.errors import BackendUnavailable
from harness.machine import detect
from harness.problem import Problem
from harness.tuning.device import DEVICES
from harness.tuning.gpu import residues as tuning
from tests.gpu import host_gpu
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.residue_products import OZAKI

pytestmark = BY_THE_SHIM


def test_auto_takes_it_for_large_products_unless_native_arithmetic_is_asked_for(monkeypatch, rng):
    gpu = host_gpu.install(monkeypatch)
    repeats.forget()
    a, b = gpu.array(rng.random((5, 6))), gpu.array(rng.random((6, 7)))
    arrays = kind_of("gemm", {"a": a, "b": b})
    assert choose(Problem(4096, 4096, 4096), "auto", arrays).name == "gpu-ozaki"
    for problem in (
        Problem(1024, 1024, 1024),
        Problem(8192, 8192, 64),
        Problem(4096, 4096, 4096, "min_plus"),
    ):
        assert choose(problem, "auto", arrays).name != "gpu-ozaki"
    with harness.native_floats():
        assert choose(Problem(4096, 4096, 4096), "auto", arrays).name == "gpu-cublas"


def test_a_remembered_product_is_not_taken_for_a_native_one(monkeypatch, rng):
    gpu = host_gpu.install(monkeypatch)
    repeats.forget()
    monkeypatch.setattr(tuning, "pays", lambda problem: True)
    a, b = gpu.array(rng.random((5, 6))), gpu.array(rng.random((6, 7)))
    for is_native in (False, False, True, True, False):
        gpu.launches.clear()
        with harness.native_floats() if is_native else contextlib.nullcontext():
            result = harness.gemm(a, b)
        assert np.allclose(result.values, a.values @ b.values)
        assert any(name == "cublas" for name, _ in gpu.launches) == is_native
        assert any(name == "residues" for name, _ in gpu.launches) != is_native


def test_panels_fit_into_memory_and_too_little_of_it_is_said(monkeypatch):
    problem = Problem(4096, 8192, 4096)
    assert panel_columns(problem, 140 << 30) == 8192
    panel = panel_columns(problem, 1 << 30)
    assert panel % 64 == 0
    assert sum(stack_bytes(problem, 4096, panel, 4096, 16)) <= tuning.MEMORY_SHARE * (1 << 30)
    assert panel_columns(problem, 1 << 20) == 64


def test_panels_are_halved_until_they_fit(monkeypatch):
    tried, room = [], [0]

    def refuse(self, plan, operands):
        tried.append(plan.options["panel"])
        if tried[-1] > room[0]:
            raise BackendUnavailable("the GPU's memory is too small", expected="9 MiB")
        return plan

    monkeypatch.setattr(GpuBackend, "prepare", refuse)
    plan = OZAKI.plan(Problem(100, 1000, 100), detect())
    for columns, expected in ((1000, [1000]), (200, [1000, 512, 256, 128])):
        tried.clear()
        room[0] = columns
        OZAKI.prepare(plan, None)
        assert tried == expected
    room[0] = 0
    with pytest.raises(BackendUnavailable, match="9 MiB"):
        OZAKI.prepare(plan, None)
    assert tried[-1] == 64


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (Problem(9, 9, 9, dtype=np.dtype(np.int32)), "float64"),
        (Problem(9, 9, 9, "min_plus"), "plus_times"),
        (Problem(9, 9, 9, alpha=np.inf), "infinite"),
        (Problem(9, 9, 9, triangle="d"), "triangle"),
    ],
)
def test_other_products_are_declined_with_a_reason(problem, word):
    assert word in OZAKI.refuses(problem)


def test_an_older_gpu_is_named_with_what_it_lacks(monkeypatch):
    monkeypatch.setattr(device, "_no_gpu", lambda: None)
    monkeypatch.setattr(device, "device", lambda: DEVICES["A100"])
    assert OZAKI.missing() == "int8 products by wgmma and TMA need compute capability 9.0; A100 has 8.0"
    monkeypatch.setattr(device, "device", lambda: DEVICES["B200"])
    assert OZAKI.missing() == "int8 products by wgmma and TMA need compute capability 9.x; B200 has 10.0"
