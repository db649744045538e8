"""Vector instructions in the compiled rungs of the ladder: where there are some, and that a switch takes them away."""

import platform
import re

import numba
import numpy as np
import pytest

from backends.cpu import naive, packed, tiled, transposed
from backends.cpu._compile.jit import assembly_of
from backends.cpu._ladder import in_place
from backends.cpu._ladder.row import lengths_of_row
from harness import SEMIRINGS, Operands, Problem, machine, registry
from harness.proof.verify import verify

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="there is no assembly"),
    pytest.mark.no_cover,
]
FLOAT64, PLUS_TIMES = np.dtype(np.float64), SEMIRINGS["plus_times"]

# Multiplications, additions and both at once on vectors of doubles: SSE2 to AVX-512, NEON and SVE.
ON_VECTORS = re.compile(r"\bv?(?:fmadd\d+|mul|add)pd\b|\bf(?:mla|mul|madds?|add)\s+(?:v\d+\.2d|z\d+\.d)")
ON_SCALARS = re.compile(r"\bv?(?:fmadd\d+|mul)sd\b|\bfm(?:add|ul)\s+d\d+")


def unpacked(semiring, dtype, simd):
    tile = 4, lengths_of_row(dtype)[0]
    return in_place.build_macro_kernel(semiring, dtype, tile, simd, packed.build_micro_kernel, packed.build_store)


BUILD = {
    "cpu-naive": lambda semiring, dtype, simd: naive.build(semiring, dtype, dtype, dtype, simd=simd),
    "cpu-transposed": transposed.build,
    "cpu-tiled": lambda semiring, dtype, simd: tiled.build_tile(semiring, dtype, 2, simd),
    "cpu-packed": lambda semiring, dtype, simd: packed.build_macro_kernel(
        semiring, dtype, lengths_of_row(dtype)[0], simd
    ),
    "cpu-packed without packing": unpacked,
}


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("simd", ("on", "off"))
@pytest.mark.parametrize("name", BUILD)
def test_the_inner_loop_runs_on_vectors_unless_simd_is_off(name, simd):
    assembly = assembly_of(BUILD[name](PLUS_TIMES, FLOAT64, simd), vectorizes=simd == "on")
    if simd == "off" or "packed" not in name:
        assert ON_SCALARS.search(assembly)  # a loop over what no vector holds, or all of it
    # an element of a column of B is a load of its own, which LLVM finds worth a vector on x86 alone
    is_on_vectors = simd == "on" and (name != "cpu-naive" or platform.machine() in ("x86_64", "AMD64"))
    assert bool(ON_VECTORS.search(assembly)) is is_on_vectors


def test_a_switch_leaves_the_settings_of_numba_as_they_were():
    before = numba.config.LOOP_VECTORIZE
    transposed.build(PLUS_TIMES, FLOAT64, "off")
    assert before == numba.config.LOOP_VECTORIZE == 1


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("name", ("cpu-naive", "cpu-transposed", "cpu-tiled", "cpu-packed"))
def test_scalars_compute_the_same_product(name):
    problem = Problem(13, 11, 37, accumulate=True)
    backend, operands = registry.find(name), Operands.generate(problem, 5)
    execution = backend.prepare(backend.plan(problem, machine.detect()).override({"simd": "off"}), operands)
    execution.run()
    verify(problem, operands, execution.result(), seed=5)
