"""The register loop that ceilings are measured with: it compiles everywhere, and keeps all in registers."""

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._tasks.ceilings import peak_defines, sums_of
from harness import SEMIRINGS


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("semiring", "dtype"),
    [
        ("plus_times", "float32"),
        ("min_plus", "float64"),
        ("min_plus", "int32"),
        ("max_min", "int64"),
        ("min_plus", "int16"),
        ("max_min", "float16"),
    ],
)
def test_loop_of_registers_spills_nothing_and_keeps_its_operands(semiring, dtype, arch):
    kind = np.dtype(dtype)
    taken = resources(compile_kernel("peak", peak_defines(SEMIRINGS[semiring], kind), arch))["peak"]
    assert taken.spill_bytes == 0
    least = 2 * sums_of(kind) * max(kind.itemsize // 4, 1)  # sums and operands: none has been found to be another
    assert least <= taken.registers <= 64
