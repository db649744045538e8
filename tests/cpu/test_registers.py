"""Loops that must not spill: the tile of cpu-packed and the loop of the measured peaks, on three vector units of x86.

A process of its own compiles for each processor. What it compiles for another one it never runs. For processors of ARM
the tile of cpu-simd is compiled in this process: Numba has no part in it.
"""

from __future__ import annotations

import functools
import platform
import re
from collections import Counter

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from backends.cpu._ir.functions import Target, assembly_of_functions
from backends.cpu._simd.kernel import KernelKey, steps_per_iteration, whole_tile_name
from backends.cpu._simd.kernel_table import emit_tiles
from backends.cpu._simd.tile_listing import hot_loop as loop_of_tile
from backends.cpu._vector.operators import operations
from backends.cpu._vector.unit import UNITS
from harness import Semiring
from tests._support.pairs import pairs
from tests._support.processes import python

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="there is no assembly"),
    pytest.mark.no_cover,
]
of_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="assembly of x86")

AVX2 = "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"
PROCESSORS = {
    "portable": ("x86-64", ""),
    "avx2": ("x86-64", AVX2),
    "avx512": ("skylake-avx512", f"{AVX2},+avx512f,+avx512bw,+avx512vl,+avx512dq"),
}
ON_STACK = re.compile(r"\(%r[sb]p\)|\[(?:sp|x29)\b")
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
    from backends.cpu._simd.register_loop import build_register_loop
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


def tiles_and_peaks() -> dict[str, str]:
    """Return the loops of both, for the processor that is set."""
    return tiles() | peaks()


def halves_of_int8() -> dict[str, str]:
    """Return the loop of the peak of int8, whose terms need halves of their operands."""
    return {name: loop for name, loop in peaks("int8").items() if name == "plus_times int8"}


def run(processor: str, what: str) -> str:
    name, features = PROCESSORS[processor]
    program = (
        f"from tests.cpu.test_registers import *\nfor name, loop in {what}().items(): print(name, loop, sep='\\n')"
    )
    return python("-c", program, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features).stdout


@pytest.mark.deep
@of_x86
@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_loop_reads_or_writes_the_stack(processor):
    loops = run(processor, "tiles_and_peaks")
    assert loops.count("float64") >= 6
    spills = [line for line in loops.splitlines() if ON_STACK.search(line)]
    assert not spills
    vectors = {"portable": "%xmm", "avx2": "%ymm", "avx512": "%zmm"}[processor]
    assert vectors in loops


@pytest.mark.deep
@of_x86
def test_halves_of_an_operand_serve_a_row_or_a_column_of_the_peak():
    loop = run("avx512", "halves_of_int8")
    assert loop.count("vpmullw") == 24
    assert loop.count("vpandn") == 3, "one for each column of the tile, and not for each of its 24 terms"


def test_the_check_bites():
    assert ON_STACK.search("\tvmovupd\t%ymm15, -40(%rsp)")
    assert ON_STACK.search("\tvmovapd\t(%rsp), %ymm1")
    assert not ON_STACK.search("\tvmovupd\t(%rdi,%r13), %ymm0")
    assert ON_STACK.search("    str q0, [sp, #16]")
    assert not ON_STACK.search("    ldr q0, [x3, #16]")


NEON = next(unit for unit in UNITS if unit.name == "neon")
# Neoverse N1 (Altra), V1 (Graviton 3; SVE of 256 bits), V2 (Graviton 4, Grace; SVE of 128 bits), a Mac, and Windows.
OF_ARM = {
    "neoverse-n1": "aarch64-unknown-linux-gnu",
    "neoverse-v1": "aarch64-unknown-linux-gnu",
    "neoverse-v2": "aarch64-unknown-linux-gnu",
    "apple-m1": "arm64-apple-macosx14.0.0",
    "generic": "aarch64-pc-windows-msvc",
}
# The vector instructions of a pair, which are as many as there are vectors of C, at each step.
OF_A_PAIR = {
    ("plus_times", "float64"): ("fmla",),
    ("plus_times", "float32"): ("fmla",),
    ("min_plus", "float64"): ("fadd", "fminnm"),
    ("min_plus", "float32"): ("fadd", "fminnm"),
    ("max_times", "float32"): ("fmul", "fmaxnm"),
    ("min_max", "float64"): ("fmax", "fminnm"),
    ("plus_times", "int32"): ("mla",),
    ("min_plus", "int32"): ("add", "smin"),
    ("max_min", "int16"): ("smin", "smax"),
    ("plus_times", "int8"): ("mla",),
}


def tile_of_arm(processor: str, semiring: str, dtype: str) -> tuple[list[str], int]:
    """Return the loop of the tile of the unit "neon" for a processor, and how many vectors of C it extends."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    ops = operations(Semiring.of(*semiring.split("_")), np.dtype(dtype))
    key = KernelKey(ops, dtype, NEON.name, NEON.mr, NEON.nv)
    emit = functools.partial(emit_tiles, key, fewest_vectors=key.nv)
    assembly = assembly_of_functions(emit, Target(OF_ARM[processor], processor, "+neon"))
    return loop_of_tile(assembly, whole_tile_name(key)), key.mr * key.nv * steps_per_iteration(key)


def check_tile_of_arm(loop: list[str], vectors: int, semiring: str, dtype: str) -> None:
    assert not [line for line in loop if ON_STACK.search(line)]
    on_vectors = [line for line in loop[1:] if re.search(r"\b(v|z)\d+\.|\w+\.\d+[bhsd] ", line)]
    found = Counter(line.split()[0].partition(".")[0] for line in on_vectors)
    fused = found.pop("fmad", 0)  # fmla with the sum in another register
    if fused:
        found["fmla"] += fused
    computed = {name: count for name, count in found.items() if not name.startswith(("ld", "mov"))}
    assert computed == dict.fromkeys(OF_A_PAIR[semiring, dtype], vectors)
    loads = Counter(line.split()[0].partition(".")[0] for line in loop[1:] if line.split()[0].startswith("ld"))
    assert sum(loads.values()) + loads["ldp"] == vectors // (NEON.mr * NEON.nv) * (NEON.mr + NEON.nv)


# One processor by every product, and the others by two each.
CASES = [
    (processor, *product)
    for i, processor in enumerate(OF_ARM)
    for j, product in enumerate(OF_A_PAIR)
    if processor == "neoverse-v1" or (i + j) % 5 == 0
]


@pytest.mark.deep(but=6)
@pytest.mark.parametrize(("processor", "semiring", "dtype"), CASES)
def test_a_tile_of_arm_computes_in_registers_by_the_fewest_instructions(processor, semiring, dtype):
    check_tile_of_arm(*tile_of_arm(processor, semiring, dtype), semiring, dtype)


def test_a_spill_a_copy_and_an_instruction_too_many_are_found():
    loop, vectors = tile_of_arm("generic", "plus_times", "float64")
    for planted in ("str q0, [sp, #16]", "fadd v0.2d, v0.2d, v1.2d", "ldr q0, [x3]"):
        with pytest.raises(AssertionError):
            check_tile_of_arm([*loop, f"    {planted}"], vectors, "plus_times", "float64")


# There is no unit for SVE (docs/platforms.md): a wider "neon" stands for it, in a process whose LLVM is told the width.
OF_SVE = """
import llvmlite.binding as llvm
llvm.set_option("", "-aarch64-sve-vector-bits-min={bits}")
from backends.cpu._simd import kernel
from backends.cpu._vector import code
from tests.cpu import test_registers as tests
kernel._UNITS[tests.NEON.name] = tests.NEON._replace(size_bytes={bits} // 8)
code._VECTOR_REGISTERS.clear()  # LLVM ties no such vector to a register in assembly
for semiring, dtype in tests.OF_A_PAIR:
    tests.check_tile_of_arm(*tests.tile_of_arm("neoverse-v1", semiring, dtype), semiring, dtype)
    print(semiring, dtype)
"""


@pytest.mark.deep
@pytest.mark.parametrize("bits", (256, 512))
def test_a_tile_of_sve_of_fixed_length_would_too(bits):
    assert len(python("-c", OF_SVE.format(bits=bits)).stdout.splitlines()) == len(OF_A_PAIR)
