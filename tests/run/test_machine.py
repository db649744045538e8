"""The GPUs of a machine, as the driver's own program lists them."""

import dataclasses

import pytest

from harness import machine
from tests._support.synthetic import MACHINE

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
