"""Kernels for each architecture of NVIDIA, compiled without a GPU: a sample; `make test-gpu-chips` compiles all."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from backends.gpu._cuda import device, nvrtc
from backends.gpu._cuda.kernel_files import FOLDER
from backends.gpu._tasks import ceilings
from harness import SEMIRINGS
from harness.errors import Declined
from harness.problem import Problem
from harness.proof import contract
from harness.tuning.device import DEVICES
from tests.gpu import machine_code
from tests.gpu.chips import CHIPS, as_on, inner_loop, jobs
from tests.gpu.on_cpu import RUNGS, needs_nvrtc

pytestmark = pytest.mark.no_cover

SAMPLE = 3  # kernels of each chip: together they take some ten seconds to compile
COMPILED_ELSEWHERE = ((8, 0), (9, 0))  # by the tests of each kind of kernel


def test_every_kernel_file_is_given_to_some_chip():
    """So that the command misses none."""
    files = {path.stem for path in FOLDER.rglob("*.cu")}
    assert files == {job.kernel.stem for name in ("H200", "A100") for job in jobs(DEVICES[name])[0]}


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize("capability", [x for x in CHIPS if x not in COMPILED_ELSEWHERE], ids=str)
def test_kernels_drawn_at_random_compile_and_are_within_the_limits_of_the_chip(capability):
    for job in random.Random(str(capability)).sample(jobs(CHIPS[capability])[0], SAMPLE):
        assert job.faults() == [], (job.arch, job.kernel)


def test_a_chip_without_an_instruction_declines_its_kernels_and_says_what_they_need():
    reasons = {name: jobs(DEVICES[name])[1] for name in ("RTX 2080", "A100", "B200", "H200")}
    assert reasons["H200"] == {}
    assert reasons["RTX 2080"]["gpu-tuned"] == "gpu-tuned's kernels need compute capability 8.0; RTX 2080 has 7.5"
    assert list(reasons["A100"]) == list(reasons["B200"]) == ["gpu-ozaki"]
    assert reasons["B200"]["gpu-ozaki"].endswith("need compute capability 9.x; B200 has 10.0")
    narrow = Problem(64, 64, 64, dtype=np.dtype(np.float32), operand_dtype=np.dtype(np.float16))
    for name in ("A100", "B200", "RTX 5090"):
        with as_on(DEVICES[name]):
            assert "wgmma and TMA need compute capability 9." in RUNGS["gpu-tensor-core"].declines(narrow)


@pytest.mark.parametrize("name", RUNGS)
def test_checks_of_memory_have_products_of_every_backend(name):
    with as_on(DEVICES["H200"]):
        assert next(contract.memory_cases(RUNGS[name]), None) is not None


def test_checks_of_memory_read_operands_by_every_code():
    with as_on(DEVICES["H200"]):
        cases = {name: contract.memory_cases(RUNGS[name]) for name in ("gpu-tensor-core", "gpu-four-m")}
        read = {name: {case.problem.input_dtype.name for case in of_name} for name, of_name in cases.items()}
    assert read["gpu-tensor-core"] >= {"float32", "float64", "bool", "bfloat16", "float8_e4m3fn", "int8"}
    assert read["gpu-four-m"] == {"complex64", "complex128"}


def test_no_chip_but_hopper_is_given_its_instructions():
    suffixes = {name: {job.kernel.suffix for job in jobs(DEVICES[name])[0]} for name in ("A100", "H200", "B200")}
    assert suffixes == {"A100": {""}, "H200": {"", "a"}, "B200": {""}}


@needs_nvrtc
def test_a_chip_that_the_compiler_does_not_know_is_said_and_what_helps():
    with pytest.raises(nvrtc.CompileError, match=r"no target sm_50(.|\n)*sm_90(.|\n)*CUDA 12"):
        nvrtc.compile_source("", "empty.cu", "sm_50")
    assert set(nvrtc.targets()) >= {f"{major}{minor}" for major, minor in CHIPS}


def test_kernels_of_two_elements_a_word_have_a_ceiling_where_they_run():
    for name, found in (("RTX 2080", "8.0"), ("A100", None)):
        with as_on(DEVICES[name]):
            reason = ceilings.why_none(SEMIRINGS["min_plus"], np.dtype(np.float16))
        assert reason is None if found is None else found in reason


def test_a_register_loop_that_spills_is_no_ceiling(monkeypatch):
    class Driver:
        @staticmethod
        def funcGetAttribute(attribute, function):  # noqa: N802  # CuPy's name
            return 8 * function

    cupy = type("cupy", (), {"cuda": type("cuda", (), {"driver": Driver})})
    monkeypatch.setattr(device, "cupy", lambda: cupy)
    monkeypatch.setattr(ceilings, "load_kernel", lambda *_: type("Kernel", (), {"ptr": 41}))
    with pytest.raises(Declined, match="328 bytes in memory"):
        ceilings.RegisterLoop(SEMIRINGS["max_min"], np.dtype(np.float32))


needs_nvdisasm = pytest.mark.skipif(machine_code.disassembler() is None, reason="nvdisasm is not installed")
LOOPS = [
    ("A100", "plus_times", "float32", {"FFMA": 1}),
    ("H200", "min_plus", "float32", {"FADD": 1, "VIMNMX3": 1 / 2}),  # two steps of k at once
    ("RTX 3090", "min_plus", "float32", {"FADD": 1, "IMNMX": 1}),
]


@pytest.mark.deep(but=1)
@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("name", "semiring", "dtype", "expected"), LOOPS)
def test_an_inner_loop_has_the_instructions_that_its_pairs_need_and_few_others(name, semiring, dtype, expected):
    chip = DEVICES[name]
    loop = inner_loop(chip, "gpu-tuned", semiring, dtype)
    arithmetic = machine_code.own(loop.instructions, loop.pairs)
    assert arithmetic == {name: count * loop.pairs for name, count in expected.items()}
    assert loop.instructions.total() < 1.15 * arithmetic.total()
    assert machine_code.clocks(loop.instructions, chip.capability) < 1.3 * machine_code.clocks(
        arithmetic, chip.capability
    )


def test_the_busiest_unit_decides_how_long_instructions_take():
    count = Counter({"FADD": 1000, "FMNMX.NAN": 1000, "LDS.128": 64})
    assert machine_code.clocks(count, (8, 6)) == 2064  # issue
    assert machine_code.clocks(count + Counter({"ISETP.NE.AND": 500}), (8, 6)) == 3000  # comparisons
    assert machine_code.clocks(Counter({"DFMA": 100}), (8, 0)) == 400
    assert machine_code.clocks(Counter({"FADD": 100}), (7, 5)) == 200


PACKED = [
    ("sm_100", {"FADD2": 1 / 2, "FMNMX3": 1 / 2}),
    ("sm_110", {"FADD": 1, "FMNMX3": 1 / 2}),
    ("sm_120", {"FADD": 1, "FMNMX": 1}),
]


@pytest.mark.deep(but=1)
@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("arch", "expected"), PACKED)
def test_min_plus_by_packed_sums_is_an_instruction_a_pair_where_the_chip_has_them(arch, expected):
    source = Path(__file__).with_name("packed_sums.cu").read_text(encoding="utf-8")
    loop = machine_code.longest_loop(nvrtc.compile_source(source, "packed_sums.cu", arch).cubin, "gemm")
    pairs = 8 * 8 * 16
    assert machine_code.own(loop, pairs) == {name: count * pairs for name, count in expected.items()}
    assert loop.total() < 1.12 * pairs * sum(expected.values())
