"""Random programs over the public calls on the GPU that the host plays, and planted faults that they must find."""

import hypothesis
import hypothesis.strategies as st
import pytest

from harness.cli.fuzz import CALLS
from harness.proof.programs.drawing import draw_program
from harness.proof.programs.run import run
from tests._support import programs
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = [
    *BY_THE_SHIM,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # of NumPy, which plays cuBLAS
]


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("kind", programs.ON_GPU, ids=lambda kind: f"{kind.semiring}-{kind.narrow}")
@hypothesis.settings(max_examples=40, phases=programs.PHASES, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=st.data())
def test_public_calls_on_a_gpu(gpu, kind, data):
    program = draw_program(programs.Drawn(data), kind, programs.SMALL_GPU)
    outcome = run(program, CALLS, programs.PlayedMemory(gpu))
    assert not outcome.wrong, f"{outcome.wrong}\n{program.to_json()}"


@pytest.mark.parametrize(("fault", "told"), [("argk again", "TypeError"), ("batch of triangles", "above the diagonal")])
def test_planted_faults_are_found(gpu, fault, told):
    assert told in programs.what_is_found(fault, programs.PlayedMemory(gpu), programs.SMALL_GPU, programs.ON_GPU[0])
