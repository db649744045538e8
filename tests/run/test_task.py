"""The ordinary task: what it proves, and against what."""

import numpy as np
import pytest

from harness import Problem, VerificationError
from harness.interface import HostExecution
from harness.operands import Operands
from harness.plan import Plan
from harness.run.task import GemmTask, gemm

PROBLEM = Problem(5, 6, 7)


def test_a_spoiled_result_does_not_pass_until_it_is_computed_again():
    task = gemm(problem=PROBLEM.to_json(), backend="cpu-numpy", seed=1, threads=1)
    task.run()
    assert task.verify()
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()


class Copies(HostExecution):
    """Computes on copies of its own, as a device does; `upload` makes them anew."""

    def __init__(self, operands):
        super().__init__(operands)
        self.upload()

    def upload(self):
        self._a, self._b, self._out = (x.copy() for x in (self.operands.a, self.operands.b, self.operands.out))

    def run(self):
        self._out = self._a @ self._b

    def result(self):
        return self._out


def test_a_turned_task_computes_another_product_and_turned_again_the_first():
    operands = Operands.generate(PROBLEM, 1)
    task = GemmTask(Plan(PROBLEM), operands, Copies(operands), seed=1)
    task.run()
    first = task.execution.result()
    task.turn()
    task.run()
    assert task.verify()
    assert np.array_equal(task.execution.result(), first[::-1, ::-1])
    task.turn()
    task.spoil()
    task.run()
    assert task.verify()
    assert np.array_equal(task.execution.result(), first)


def test_a_backend_that_writes_to_an_operand_does_not_pass_though_its_result_is_right():
    for name in "abc":
        problem = Problem(5, 6, 7, accumulate=True)
        task = gemm(problem=problem.to_json(), backend="cpu-numpy", seed=1, threads=1)
        task.run()
        assert task.verify()
        getattr(task.operands, name)[2, 3] += 1
        with pytest.raises(VerificationError, match=f"changed its operand {name}"):
            task.verify()


@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_operands_that_are_kept_from_one_verification_to_the_next_are_turned_with_the_task(monkeypatch, kept):
    monkeypatch.setattr("harness.run.task.MOST_KEPT", kept)
    task = gemm(problem=PROBLEM.to_json(), backend="cpu-numpy", seed=1, threads=1)
    for _ in range(4):
        task.turn()
        task.spoil()
        task.run()
        assert task.verify()
        assert task.verify()
    task.operands.a[1, 2] = np.nan
    task.run()
    with pytest.raises(VerificationError, match="changed its operand a"):
        task.verify()
