"""Integers of 4 bytes in loops over k by instructions: right on the CPU, and the machine code of expressions."""

import numpy as np
import pytest

from backends.gpu._cuda import nvrtc
from backends.gpu._cuda.kernel_files import assemble
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from tests.gpu.on_cpu import RUNGS, compute, needs_nvrtc, program_of

CHOICE = "#define WORD_INSTRUCTIONS (TM * TN >= 64 && !IS_LONG)"
LARGE = {"wm": 32, "wn": 64, "bm": 32, "bn": 64, "tm": 8, "tn": 8, "order": 2, "stages": 2}


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize("semiring", ("plus_times", "min_plus", "max_min", "plus_min"))
def test_products_of_words_are_right(semiring):
    for dtype in ("int32", "uint32"):
        compute("gpu-tuned", semiring, dtype, (33, 70, 37), accumulate=True, **LARGE)


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.no_cover
@pytest.mark.parametrize("semiring", ("plus_times", "min_plus", "max_min"))  # each operation
def test_instructions_make_the_machine_code_of_expressions(semiring):
    problem = Problem(600, 600, 600, SEMIRINGS[semiring], np.dtype(np.int32))
    plan = RUNGS["gpu-tuned"].plan(problem, detect())
    kernel = next(x for x in program_of(plan, RUNGS["gpu-tuned"]).kernels() if x.stem == "tuned")
    source = assemble(kernel.stem, kernel.defines)
    assert source.count(CHOICE) == 1
    by_expressions = source.replace(CHOICE, "#define WORD_INSTRUCTIONS 0")
    cubins = {nvrtc.compile_source(text, "tuned.cu", "sm_90").cubin for text in (source, by_expressions)}
    assert len(cubins) == 1
