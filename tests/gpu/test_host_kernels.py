"""The compiler of kernels for the host reads the shim's header in its precompiled form."""

import pytest

from tests.gpu.host_kernels import COMPILER, PRECOMPILED, precompiled_header

# With these bytes the precompiled headers of GCC and of Clang begin. A compiler reads anything else over in silence.
BEGINNINGS = (b"gpch", b"CPCH")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")
def test_the_header_is_precompiled():
    assert (precompiled_header() / PRECOMPILED).read_bytes()[:4] in BEGINNINGS
