"""The kernel that mirrors a triangle, executed on the CPU and compiled."""

import types

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu.triangle import mirror_program
from harness.errors import VerificationError
from tests.gpu.host_kernels import HostExecution, fenced
from tests.gpu.on_cpu import ON_CPU, needs_nvrtc

pytestmark = ON_CPU


def mirror(size, dtype, *, by_columns=False):
    rng = np.random.default_rng(size)
    given = rng.integers(1, 100, (size, size)).astype(dtype)
    expected = np.tril(given) + np.tril(given, -1).T
    given[np.triu_indices(size, 1)] = 0  # of no concern
    layout = given.T if by_columns else given
    buffers = {name: fenced(size * size, given.dtype, at_end=True) for name in ("a", "out")}
    buffers["a"][...] = layout.reshape(-1)
    execution = HostExecution(
        mirror_program(given.copy("F" if by_columns else "C")), types.SimpleNamespace(buffers=buffers)
    )
    execution.run()
    if not np.array_equal(buffers["out"].reshape(size, size), expected):
        raise VerificationError("it is no mirror image")


@pytest.mark.parametrize("by_columns", (False, True))
def test_a_triangle_is_mirrored_by_one_launch(by_columns):
    for size in (2, 32, 33, 70):
        mirror(size, np.float32, by_columns=by_columns)
    mirror(1, np.float32)


@needs_nvrtc
def test_the_mirror_compiles():
    for dtype in ("int8", "float16", "float32", "float64"):
        (kernel,) = mirror_program(np.empty((40, 40), dtype)).kernels()
        taken = resources(compile_kernel(kernel.stem, kernel.defines, "sm_80"))[kernel.function]
        assert taken.spill_bytes == 0
