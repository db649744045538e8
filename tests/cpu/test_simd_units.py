"""cpu-simd on processors that this one is not: Numba is told in a process of its own that features are missing."""

import platform

import pytest

from tests._support.processes import python

X86 = platform.machine() in ("x86_64", "AMD64")

# What Numba is told of the processor, and the units that are left. "generic" alone is the base of the architecture.
PROCESSORS = {"generic": ["portable"] if X86 else ["neon", "portable"]}
if X86:
    PROCESSORS["generic +sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"] = ["avx2", "portable"]

PROGRAM = """
from backends.cpu._vector.unit import usable_units
from tests._support.simd_products import BACKEND, HERE, KERNELS, PACKS, Kernel, check

names = [unit.name for unit in usable_units()]
print(*names)
assert {kernel.unit for kernel in KERNELS} <= set(names)
forms = ("plus_times", "float64", 4, 2), ("min_plus", "uint8", 1, 1)
for semiring, dtype, mr, nv in forms:
    kernel = Kernel(semiring, dtype, names[0], mr, nv)
    assert BACKEND.plan(kernel.problem(5, 5, 5), HERE).options["unit"] == names[0]
    for number, m in enumerate((1, kernel.mr, 2 * kernel.mr + 1)):
        for n in (1, kernel.lanes - 1, kernel.nr, 2 * kernel.nr + 1):
            check(kernel, (m, n, 19), (("rows", "columns", "neither")[number],) * 3, **PACKS[(m + n) % 4])
"""


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_lesser_processor_has_fewer_units_and_right_products(processor):
    name, _, features = processor.partition(" ")
    finished = python("-c", PROGRAM, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features)
    assert finished.stdout.split() == PROCESSORS[processor]
