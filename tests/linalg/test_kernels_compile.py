"""The kernels of the algorithms compile by NVRTC, and keep all of their variables in registers."""

import pytest

from backends.gpu._cuda import nvrtc
from harness import BackendUnavailable
from harness.linalg import column_kernel, inverses


@pytest.mark.parametrize("source", [column_kernel.SOURCE, inverses.SOURCE], ids=["column", "invert"])
@pytest.mark.parametrize("real", inverses.REAL.values())
def test_kernels_compile(source, real):
    try:
        nvrtc.library()
    except BackendUnavailable:
        pytest.skip("NVRTC is not installed")
    compiled = nvrtc.compile_source(f"#define {real[2:].replace('=', ' ')}\n{source}", "kernel.cu", "sm_90")
    assert "0 bytes spill stores" in compiled.log
