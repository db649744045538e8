"""Loops that must not spill: the tile of cpu-packed and the loop of the measured peaks, on three vector units of x86.

A process of its own compiles for each processor. What it compiles for another one it never runs.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from tests._support.pairs import pairs

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="there is no assembly"),
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="assembly of x86"),
    pytest.mark.no_cover,
]

ROOT = Path(__file__).resolve().parents[2]
AVX2 = "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"
PROCESSORS = {
    "portable": ("x86-64", ""),
    "avx2": ("x86-64", AVX2),
    "avx512": ("skylake-avx512", f"{AVX2},+avx512f,+avx512bw,+avx512vl,+avx512dq"),
}
ON_STACK = re.compile(r"\(%r[sb]p\)")
ON_VECTORS = re.compile(r"%[xyz]mm")


def hot_loop(assembly: str) -> str:
    """Return the innermost loop that uses vector registers most often: from a label to the jump back to it."""
    loops = re.findall(r"^(\.L\w+):\n((?:(?!^\.L).)*?\bj\w+\s+\1\n)", assembly, re.MULTILINE | re.DOTALL)
    return max((text for _, text in loops), key=lambda text: len(ON_VECTORS.findall(text)))


def tiles() -> dict[str, str]:
    """Return the hot loop of the tile of cpu-packed by semiring and dtype, for the processor that is set."""
    from backends.cpu import packed
    from backends.cpu._compile.jit import assembly_of
    from backends.cpu._ladder.row import lengths_of_row
    from harness import SEMIRINGS

    found = {}
    for semiring, dtype, place in pairs(("plus_times", "min_plus"), ("float64", "float32"), range(2)):
        lengths = lengths_of_row(np.dtype(dtype))
        nr = lengths[min(place, len(lengths) - 1)]
        macro_kernel = packed.build_macro_kernel(SEMIRINGS[semiring], np.dtype(dtype), nr)
        found[f"{semiring} {dtype} {nr}"] = hot_loop(assembly_of(macro_kernel))
    return found


def peaks(*names: str) -> dict[str, str]:
    """Return the loop of the measured peak by operations and dtype, for the processor that is set."""
    from backends.cpu._compile.jit import assembly_of
    from backends.cpu._simd.kernel import KernelKey
    from backends.cpu._simd.register_loop import build_register_loop
    from backends.cpu._vector.operators import operations
    from backends.cpu._vector.unit import usable_units
    from harness import SEMIRINGS

    unit, found = usable_units()[0], {}
    # The portable unit of x86 compares no 64-bit integers: twenty other instructions do, and some of them spill.
    compared = ("float64", "float32", "int32") if unit.name == "portable" else ("float64", "float32", "int64", "int32")
    # Each kind of loop for every other dtype, others on the next unit.
    turn = ("portable", "avx2", "avx512").index(unit.name)
    for place, dtype in enumerate(map(np.dtype, names or compared)):
        every = dict.fromkeys(operations(x, dtype) for x in SEMIRINGS.values() if x.unsupported(dtype) is None)
        for number, ops in enumerate(every):
            if ops is not None and (names or (number + place + turn) % 2 == 0):
                key = KernelKey(ops, dtype.name, unit.name, *unit.chains)
                found[f"{ops.add}_{ops.multiply} {dtype}"] = hot_loop(assembly_of(build_register_loop(key)))
    return found


def halves_of_int8() -> dict[str, str]:
    """Return the loop of the peak of int8, whose terms need halves of their operands."""
    return {name: loop for name, loop in peaks("int8").items() if name == "plus_times int8"}


def run(processor: str, what: str) -> str:
    name, features = PROCESSORS[processor]
    program = (
        f"from tests.cpu.test_registers import *\nfor name, loop in {what}().items(): print(name, loop, sep='\\n')"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("what", ("tiles", "peaks"))
@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_loop_reads_or_writes_the_stack(processor, what):
    loops = run(processor, what)
    assert loops.count("float64") >= 2
    spills = [line for line in loops.splitlines() if ON_STACK.search(line)]
    assert not spills
    vectors = {"portable": "%xmm", "avx2": "%ymm", "avx512": "%zmm"}[processor]
    assert vectors in loops


def test_halves_of_an_operand_serve_a_row_or_a_column_of_the_peak():
    loop = run("avx512", "halves_of_int8")
    assert loop.count("vpmullw") == 24
    assert loop.count("vpandn") == 3, "one for each column of the tile, and not for each of its 24 terms"


def test_the_check_bites():
    assert ON_STACK.search("\tvmovupd\t%ymm15, -40(%rsp)")
    assert ON_STACK.search("\tvmovapd\t(%rsp), %ymm1")
    assert not ON_STACK.search("\tvmovupd\t(%rdi,%r13), %ymm0")
