"""The machine at hand: its GPUs, as the driver's own program lists them, and its processor, as the system does."""

import dataclasses
from pathlib import Path

import pytest

from harness import machine
from tests._support.synthetic import MACHINE

OF_ARM = Path(__file__).parents[1] / "aarch64" / "cpuinfo"
LINE = "NVIDIA H200, 580.1, 143771, 1980, 700.00"


@pytest.fixture
def with_gpus(tmp_path, monkeypatch):
    """Return what has the driver's program list so many GPUs."""

    def install(count):
        program = tmp_path / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + f"echo '{LINE}'\n" * count)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return machine._gpu()

    return install


def described(gpu):
    return dataclasses.replace(MACHINE, gpu=gpu)


def test_one_gpu_has_the_fingerprint_that_it_always_had(with_gpus):
    one = with_gpus(1)
    assert one == {
        "name": "NVIDIA H200",
        "driver": "580.1",
        "memory_mib": "143771",
        "max_mhz": "1980",
        "power_limit_w": "700.00",
    }
    assert described(one).slug == "test-cpu-4-cores-nvidia-h200"
    assert (described(one).gpus, described({}).gpus) == (1, 0)


def test_several_gpus_are_another_machine(with_gpus):
    one, two = with_gpus(1), with_gpus(2)
    assert two == {**one, "count": "2"}
    assert described(two).gpus == 2
    assert described(two).slug == "test-cpu-4-cores-2-nvidia-h200"
    assert described(two).key != described(one).key


def test_gpus_that_cuda_hides_are_not_counted(with_gpus, monkeypatch):
    with_gpus(4)
    for visible, count in (("0", 1), ("0,2", 2), ("0,1,2,3,4", 4)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert described(machine._gpu()).gpus == count


def test_without_a_gpu_there_is_nothing_to_describe(with_gpus):
    assert with_gpus(0) == {}


def test_processors_of_one_name_are_told_apart_by_family_and_model():
    zen4 = dataclasses.replace(MACHINE, cpu="AMD EPYC", family=25, model=17, stepping=1)
    zen5 = dataclasses.replace(zen4, family=26, model=2, stepping=1)
    assert zen4.slug == "amd-epyc-family-25-model-17-4-cores"
    assert zen4.slug != zen5.slug
    assert zen4.key != zen5.key
    assert zen4.short_slug == zen5.short_slug == "amd-epyc-4-cores"
    assert not zen4.has_hardware_of(zen5)


def test_records_without_family_and_model_keep_name_and_key():
    record = MACHINE.to_json()
    assert not {"family", "model", "stepping", "gpu"} & set(record)
    old = machine.Machine.from_json(record)
    assert (old.key, old.slug) == (MACHINE.key, MACHINE.short_slug)
    assert old.has_hardware_of(dataclasses.replace(MACHINE, family=6, model=207, stepping=2, memory=1, packages={}))


def test_a_host_is_told_apart_by_its_identity_which_is_not_recorded(tmp_path, monkeypatch):
    def detected(identity: str) -> machine.Machine:
        (tmp_path / "machine-id").write_text(identity)
        return machine.detect.__wrapped__()

    monkeypatch.setattr(machine, "_MACHINE_ID", tmp_path / "machine-id")
    one, two = detected("0123456789abcdef\n"), detected("fedcba9876543210\n")
    assert one.host != two.host
    assert one.key == two.key, "values that were tuned hold on"
    assert detected("0123456789abcdef") == one == machine.Machine.from_json(one.to_json())
    assert "0123456789abcdef" not in str(one.to_json())
    (tmp_path / "machine-id").unlink()
    monkeypatch.setattr(machine.platform, "node", lambda: "here")
    named = machine.detect.__wrapped__().host
    monkeypatch.setattr(machine.platform, "node", lambda: "there")
    assert len({one.host, named, machine.detect.__wrapped__().host}) == 3


@pytest.mark.parametrize("change", [{"l1d": 1}, {"cores": 2}, {"simd": ("neon",)}, {"gpu": {"name": "NVIDIA H200"}}])
def test_other_caches_cores_vectors_or_gpus_are_other_hardware(change):
    assert not dataclasses.replace(MACHINE, **change).has_hardware_of(MACHINE)


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n", (25, 17, 1)),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd40\nCPU revision\t: 1\n", (0x41, 0xD40, 1)),
        ("", (0, 0, 0)),
    ],
)
def test_family_and_model_are_read_as_the_processor_counts_itself(text, counted, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    found = machine.detect.__wrapped__()
    assert (found.family, found.model, found.stepping) == counted


def test_a_processor_of_arm_has_no_name_and_is_known_by_its_numbers(monkeypatch):
    monkeypatch.setattr(machine, "_CPUINFO", OF_ARM)
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    found = machine.detect.__wrapped__()
    assert found.simd == ("asimd", "sve")
    assert (found.family, found.model, found.stepping) == (0x41, 0xD40, 1)
    assert found.slug.startswith("aarch64-family-65-model-3392-")
