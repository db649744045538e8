"""The GPU that the host plays, for tests of whole calls."""

import pytest

from backends.gpu._sequences import execution as sequences
from harness.api.remembered import repeats
from tests.gpu import host_kernels
from tests.gpu.host_gpu import install
from tests.gpu.on_cpu import use_the_cpu


@pytest.fixture(autouse=True)
def _no_kernel_of_another_test_is_expected():
    host_kernels.expect_nothing()


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that the host plays, on which nothing is remembered."""
    repeats.forget()
    sequences._programs.cache_clear()
    monkeypatch.setattr(repeats, "classes", set())
    yield install(monkeypatch)
    repeats.forget()


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Have rungs execute their programs on the CPU."""
    use_the_cpu(monkeypatch)
