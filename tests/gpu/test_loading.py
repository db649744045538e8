"""Kernels are loaded with the shared memory that they may take at a launch."""

from types import SimpleNamespace

import pytest

from backends.gpu._cuda import kernel_files


class Driver:
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    def __init__(self):
        self.asked = []

    def funcSetAttribute(self, kernel, attribute, value):  # noqa: N802 as CuPy calls it
        self.asked.append((kernel, attribute, value))


class Module:
    def load(self, cubin):
        self.cubin = cubin

    def get_function(self, name):
        return SimpleNamespace(ptr=(self.cubin, name))


@pytest.mark.parametrize("size", (1, 48 << 10, 200 << 10))
def test_dynamic_memory_is_asked_for_since_a_kernel_may_declare_some_beside_it(monkeypatch, size):
    """48 KiB need no asking, but only where the kernel itself declares none: two kernels of float64 did."""
    driver = Driver()
    cupy = SimpleNamespace(cuda=SimpleNamespace(driver=driver, function=SimpleNamespace(Module=Module)))
    monkeypatch.setattr(kernel_files.device, "cupy", lambda: cupy)
    monkeypatch.setattr(kernel_files.device, "current_index", lambda: 0)
    monkeypatch.setattr(kernel_files.device, "device", lambda index: SimpleNamespace(arch="sm_90"))
    monkeypatch.setattr(kernel_files, "compile_kernel", lambda *key: SimpleNamespace(cubin="machine code"))
    kernel = kernel_files.load_kernel("a stem of this test alone", (), "gemm", size)
    assert driver.asked == [(kernel.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size)]
