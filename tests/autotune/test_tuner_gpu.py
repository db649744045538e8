"""``tune --gpu``: what is raced, what is kept for which architecture, and that plans use it; without a GPU."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from backends import _kernel_files
from backends.gpu._base import rung
from backends.gpu._cuda import device
from backends.gpu._program import precompile
from backends.gpu._program.program import Kernel
from backends.gpu.tuned import Tuned
from harness import SEMIRINGS, Problem, cli, registry
from harness.autotune import gpu
from harness.errors import BackendUnavailable
from harness.machine import detect
from harness.tuning import stored as tuning_stored
from harness.tuning.device import ASYNC_COPY, DEVICES, MEASURED
from harness.tuning.gpu import stored as stored_gpu
from harness.tuning.gpu.sharing import sharing
from tests.autotune.test_tuner import racing
from tests.gpu.on_cpu import needs_nvrtc
from tests.gpu.test_kernels_compile import MOST_REGISTERS, REGISTERS

KIND = "32-bit float"
MIN_PLUS = [("float32", "min_plus")]
CHIPS = {chip.arch: chip for name, chip in DEVICES.items() if chip.capability >= ASYNC_COPY}


class OnGpu(Tuned):
    """The rung on a GPU that is not there."""

    arch = "sm_90"

    def architecture(self):
        return self.arch

    def compile(self, plans):
        compiled.append(list(plans))
        return 0


compiled: list = []


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv(tuning_stored.VARIABLE, str(tmp_path / "tuned"))
    monkeypatch.setattr(tuning_stored, "_known", {})
    compiled.clear()
    return tmp_path / "tuned"


def large(semiring="min_plus", dtype="float32", n=4096):
    return Problem(n, n, n, SEMIRINGS[semiring], np.dtype(dtype))


def plan(problem=None, arch="sm_90"):
    rung = OnGpu()
    rung.arch = arch
    return rung.plan(problem or large(), detect())


def wide_tiles(plan):
    return (0.9 if plan.launch.bm == 128 and plan.launch.bn == 64 else 1.0) * (0.95 if plan.launch.stages == 4 else 1.0)


def tune(cost=wide_tiles):
    return list(gpu.GpuTuner(OnGpu(), race=racing(cost)).tune(MIN_PLUS))


def test_what_is_better_is_kept_for_the_architecture_and_used_by_large_products_of_the_kind(place):
    before, other, small = plan(), plan(large("plus_times")), plan(large(n=512))
    findings = tune()
    assert [(finding.name, finding.is_taken) for finding in findings] == [
        ("tiles", True),
        ("stages", True),
        ("order", False),
    ]
    after = plan()
    assert (after.launch.bm, after.launch.bn, after.launch.stages) == (128, 64, 4)
    assert after.options["order"] == before.options["order"]
    assert plan(large("max_times")).launch == after.launch  # another product of the kind
    assert (plan(large("plus_times")), plan(large(n=512))) == (other, small)
    assert plan(arch="sm_80") == plan(arch="") == before  # another architecture; and no GPU
    (path,) = place.iterdir()
    assert path.name == "gpu-sm_90.json"
    record = json.loads(path.read_text())
    assert record["values"] == {KIND: {**record["values"][KIND], "bm": 128, "bn": 64, "stages": 4}}
    assert record["date"]
    assert record["version"]
    assert record["machine"]["arch"] == "sm_90"
    assert len(record["evidence"]["findings"]) == 3


def test_shares_of_k_follow_from_the_tiles_that_are_stored():
    tuning_stored.write(tuning_stored.Chip("sm_90"), {KIND: {"bm": 128, "bn": 128, "blocks": 2}}, {})
    problem, before, after = large(), plan(arch=""), plan()
    assert after.options["shares"] == sharing(problem, after.launch, 2, MEASURED)["shares"] != before.options["shares"]


def test_all_plans_of_a_heat_are_compiled_before_it_is_raced():
    def cost(plan):
        assert any(plan in plans for plans in compiled)
        return 1.0

    tune(cost)
    assert max(len(plans) for plans in compiled) > 20


def test_numbers_that_make_no_legal_plan_together_are_left_out():
    before = plan()
    tuning_stored.write(tuning_stored.Chip("sm_90"), {KIND: {"bm": 72}}, {})
    assert tuning_stored.read(tuning_stored.Chip("sm_90")).values == {KIND: {"bm": 72}}
    assert plan() == before


def test_a_file_with_an_illegal_number_is_ignored_with_the_reason(place):
    tuning_stored.write(tuning_stored.Chip("sm_90"), {KIND: {"stages": 3}}, {})
    path = place / "gpu-sm_90.json"
    path.write_text(path.read_text().replace('"stages": 3', '"stages": 99'))
    assert tuning_stored.read(tuning_stored.Chip("sm_90")).values == {}
    assert "stages=99" in tuning_stored.read(tuning_stored.Chip("sm_90")).notice


def test_files_of_gpus_are_not_taken_for_those_of_machines():
    tuning_stored.write(tuning_stored.Chip("sm_90"), {KIND: {"stages": 3}}, {})
    assert tuning_stored.read(detect()).notice == ""
    assert "1 in" in tuning_stored.read(tuning_stored.Chip("sm_80")).notice


def test_without_a_gpu_the_tuner_and_the_command_say_so(monkeypatch):
    reason = "no CUDA device"
    monkeypatch.setattr(device, "missing", lambda *_: reason)
    with pytest.raises(BackendUnavailable, match="no GPU here"):
        gpu.GpuTuner(Tuned())
    done = CliRunner().invoke(cli.app, ["tune", "--gpu"])
    assert done.exit_code != 0
    assert reason in f"{done.output}{done.exception}"


def test_the_command_tunes_the_gpu_and_forgets_it(monkeypatch, place):
    monkeypatch.setattr(registry, "find", lambda name: OnGpu())
    monkeypatch.setattr(gpu.GpuTuner, "tune", lambda self: iter(()))
    assert CliRunner().invoke(cli.app, ["tune", "--gpu"]).exit_code == 0
    tuning_stored.write(tuning_stored.Chip("sm_90"), {KIND: {"stages": 3}}, {})
    assert "gpu-sm_90.json" in CliRunner().invoke(cli.app, ["tune", "--gpu", "--forget"]).output.replace("\n", "")
    assert not list(place.iterdir())


def all_tiles(n):
    """Return the tiles of a fused product if every one of them is shared, and the whole plan."""
    found = plan(large("plus_times", n=n))
    return (found.launch.bm, found.launch.bn) if found.options["wave"] > n * n else None, found.options


def test_fused_products_of_one_to_two_turns_share_all_tiles_small_ones_where_c_is_not_made_of_them(monkeypatch):
    monkeypatch.setattr("harness.tuning.gpu.sharing._ragged_squares", dict)  # by the rule alone
    ragged, options = all_tiles(1025)
    assert ragged == (64, 64)
    assert options["shares"] == 4  # 1156 of 1188 that nine waves hold; two shares would leave more of one empty
    assert options["blocks"] == 5
    assert all_tiles(1100)[1]["shares"] == 2  # 648 of 660
    whole, options = all_tiles(1152)
    assert whole == (64, 128)
    assert options["shares"] == 4
    assert [all_tiles(n)[0] for n in (512, 960, 1020, 1024, 1500, 4096)] == [None] * 6
    assert plan(large("min_plus", n=1025)).options["wave"] < 1025


def test_a_short_k_is_not_shared():
    problem = Problem(1025, 1025, 100, SEMIRINGS["plus_times"], np.dtype("float32"))
    assert plan(problem).options["shares"] == 1


# -------------------------------------------------------------------------------- what works on chips nobody has tuned


@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("n", (256, 4096))
@pytest.mark.parametrize(("dtype", "semiring"), gpu.GpuTuner.products)
def test_tiles_of_the_table_fit_every_chip(arch, n, dtype, semiring, monkeypatch):
    monkeypatch.setattr(device, "planned", lambda: CHIPS[arch])
    problem = large(semiring, dtype, n)
    launch = Tuned().prepare_launch(plan(problem, arch))
    assert Tuned().shared_bytes(launch, problem.dtype.itemsize) <= CHIPS[arch].shared_memory


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "semiring"), gpu.GpuTuner.products[::4])
def test_tiles_of_the_table_compile_for_the_chips_between(dtype, semiring):
    from backends.gpu._cuda.kernel_files import compile_kernel, resources

    for kernel in Tuned().kernels_of(plan(large(semiring, dtype), "")):
        if kernel.function == "gemm":
            taken = resources(compile_kernel(kernel.stem, kernel.defines, "sm_89"))["gemm"]
            assert taken.registers <= MOST_REGISTERS
            assert taken.registers * int(np.prod(kernel.block)) <= REGISTERS


def test_older_chips_fall_back_to_the_rung_below(monkeypatch):
    monkeypatch.setattr(device, "_no_gpu", lambda: None)
    monkeypatch.setattr(device, "device", lambda index=None: DEVICES["RTX 2080"])
    rungs = [e.backend for e in registry.discover() if e.name in ("gpu-tuned", "gpu-pipelined", "gpu-warp-tiled")]
    able = [rung.name for rung in rungs if rung.missing() is None]
    assert able == ["gpu-warp-tiled"]
    assert "7.5" in Tuned().missing()


@needs_nvrtc
def test_kernels_are_compiled_in_workers_once_and_loaded_from_files(monkeypatch, tmp_path):
    monkeypatch.setenv(_kernel_files.VARIABLE, str(tmp_path / "kept"))
    monkeypatch.setattr(precompile, "WORTH_WORKERS", 2)
    plans = [plan(large("plus_times", n=64)).override({"order": order}) for order in (0, 1)]
    wrong = Kernel("passes", (("T", "nonsense"),), (32,))
    kernels = [kernel for one in plans for kernel in Tuned().kernels_of(one)]
    assert precompile.precompile([*kernels, *kernels, wrong], "sm_90") == 3
    assert len(list((tmp_path / "kept" / "gpu").iterdir())) == 2
    assert precompile.precompile(kernels, "sm_90") == 0


def test_a_plan_that_is_not_legal_has_no_kernels():
    assert Tuned().kernels_of(plan().override({"stages": 1})) == []
    assert isinstance(Tuned(), rung.Rung)


def test_kinds_are_told_by_what_a_pair_takes():
    assert stored_gpu.kind(large("plus_times", "float64")) == "64-bit fused"
    assert stored_gpu.kind(large("logaddexp_plus")) == "32-bit fused"
    assert stored_gpu.kind(large("plus_times", "int32")) == "32-bit int"
