"""The listing of a generated tile: the loop that it shows is the one that computes, whatever assembler spells it."""

import re

import pytest

from backends.cpu._simd.tile_listing import hot_loop
from backends.cpu._vector.unit import usable_units
from harness import Problem, registry
from harness.machine import detect

VECTOR_FMA = r"vfmadd\d+pd|fmla"
VECTOR_MIN = r"v?minps|fcmgt"  # on ARM a comparison and a selection
VECTOR_ADD = r"v?addps|fadd"

X86 = """
tile_2x1:
	movq	%rdi, %rax
.LBB0_1:                                # =>This Inner Loop Header: Depth=1
	vfmadd231pd	%zmm1, %zmm2, %zmm3
	jne	.LBB0_1
tile_8x3_whole:
	.cfi_startproc
	testq	%rdi, %rdi
	jle	.LBB1_3
	.p2align	4
.LBB1_1:                                # =>This Inner Loop Header: Depth=1
	prefetcht1	(%rcx)
	vbroadcastsd	(%rdx), %zmm2
	vfmadd231pd	%zmm1, %zmm2, %zmm3
	vfmadd231pd	%zmm4, %zmm2, %zmm5
	jne	.LBB1_1
# %bb.2:                                # %done
	#APP
	#NO_APP
.LBB1_2:
	vbroadcastsd	.LCPI1_0(%rip), %zmm2   # zmm2 = [1.0E+0,1.0E+0]
	vfmadd231pd	%zmm1, %zmm2, %zmm3
	#APP
	#NO_APP
	vfmadd231pd	%zmm4, %zmm2, %zmm5
	jne	.LBB1_2
	retq
.LBB1_3:
	retq
other:
.LBB2_1:
	addq	$8, %rcx
	addq	$8, %rcx
	addq	$8, %rcx
	jne	.LBB2_1
"""

ARM_ON_MACOS = """
_tile_8x3_whole:                        ; @tile_8x3_whole
LBB1_1:                                 ; =>This Inner Loop Header: Depth=1
	ldr	q2, [x1], #16
	fmla	v3.2d, v1.2d, v2.2d
	; InlineAsm Start
	; InlineAsm End
	fmla	v5.2d, v4.2d, v2.2d             ; encoding
	subs	x9, x9, #1
	b.gt	LBB1_1
	ret
"""


def listing(semiring, dtype, **options):
    backend = registry.find("cpu-simd")
    plan = backend.plan(Problem(256, 256, 256, semiring, dtype), detect()).override(options)
    return plan, backend.listing(plan)


def instructions(text):
    """Return the mnemonics, without the arrangement that an assembler may append: fmla.2d."""
    lines = [line for line in text.splitlines() if re.match(r"    [a-z][\w.]* ", line) and ":=" not in line]
    return [line.split()[0].partition(".")[0] for line in lines]


def count(pattern, text):
    return sum(re.fullmatch(pattern, name) is not None for name in instructions(text))


@pytest.mark.skipif(usable_units()[0].name == "portable", reason="no instruction that multiplies and adds is certain")
def test_the_loop_of_sums_of_products_is_fused_multiply_add_and_calls_nothing():
    plan, text = listing("plus_times", "float64")
    accumulators = plan.blocking.mr * plan.blocking.nr // usable_units()[0].lanes(plan.problem.dtype)
    assert count(VECTOR_FMA, text) == 4 * accumulators
    assert count(r"call\w*|blr?", text) == 0
    assert text.startswith(f"tile_{plan.blocking.mr}x")


def test_the_loop_of_another_semiring_and_unit_has_its_two_instructions():
    plan, text = listing("min_plus", "float32", unit="portable", mr=4, nr=8, mc=256, nc=256)
    assert count(VECTOR_MIN, text) == count(VECTOR_ADD, text) == 2 * plan.blocking.mr * 2
    assert count(r"call\w*|blr?", text) == 0
    assert "(+) is min, (x) is plus" in text


def test_of_loops_that_compute_as_much_the_one_without_prefetches_is_listed():
    loop = hot_loop(X86, "tile_8x3_whole")
    assert loop[0] == ".LBB1_2:"
    assert [line.split()[0] for line in loop[1:]] == ["vbroadcastsd", "vfmadd231pd", "vfmadd231pd", "jne"]
    assert not any("#" in line for line in loop)


def test_labels_and_comments_of_another_assembler_are_understood():
    loop = hot_loop(ARM_ON_MACOS, "tile_8x3_whole")
    assert loop[0] == "LBB1_1:"
    assert [line.split()[0] for line in loop[1:]] == ["ldr", "fmla", "fmla", "subs", "b.gt"]
    assert loop[1].endswith("#16")
    assert not any(";" in line for line in loop)


def test_a_function_that_is_not_there_has_no_loop():
    with pytest.raises(LookupError, match="tile_9x9"):
        hot_loop(X86, "tile_9x9")
