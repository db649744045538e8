"""Random programs over the public calls on the host, and planted faults that they must find."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.cli.fuzz import CALLS
from harness.errors import ProblemError
from harness.proof.programs.drawing import Combination, Limits, Seeded, combinations, draw_program, nth_program
from harness.proof.programs.memory import HostMemory
from harness.proof.programs.program import Program, View, contents
from harness.proof.programs.run import TURNS, run, shrunk
from tests._support import programs

MIN_PLUS = programs.ON_HOST[0]


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("kind", programs.ON_HOST, ids=lambda kind: f"{kind.semiring}-{kind.narrow}")
@hypothesis.settings(max_examples=40, phases=programs.PHASES)
@hypothesis.given(data=st.data())
def test_public_calls_on_the_host(kind, data):
    program = draw_program(programs.Drawn(data), kind, programs.SMALL_HOST)
    outcome = run(program, CALLS, HostMemory())
    assert not outcome.wrong, f"{outcome.wrong}\n{program.to_json()}"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("argk again", "TypeError: of()"),
        ("batch of triangles", "above the diagonal"),
        ("last column again", "is wrong"),
        ("operand written", "is no element of the result"),
        ("longer path", "of the closure"),
        ("circle of predecessors", "do not lead to 0 by a best path"),
        ("last state", "of the states is wrong"),
        ("other path", "of the path is wrong"),
        ("beyond the end", "beyond the end is wrong"),
        ("order of suffixes", "of the products"),
    ],
)
def test_planted_faults_are_found(fault, told):
    assert told in programs.what_is_found(fault, HostMemory(), programs.SMALL_HOST, MIN_PLUS)


def test_a_factor_that_is_rounded_to_the_format_of_the_other_is_found():
    kind, limits = Combination("plus_times", "float32", "float8_e4m3fn"), programs.SMALL_HOST._replace(calls=("gemm",))

    def rounded(a, b, *rest, **options):
        is_pair = {a.dtype.name, b.dtype.name} == {"float8_e4m3fn", "float8_e5m2"}
        return CALLS["gemm"](a.astype(b.dtype) if is_pair else a, b, *rest, **options)

    drawn = (draw_program(Seeded(number), kind, limits) for number in range(300))
    found = (run(program, {**CALLS, "gemm": rounded}, HostMemory()).wrong for program in drawn)
    assert "is wrong" in next(filter(None, found))


def test_a_refusal_against_the_rules_is_found():
    def refuse(**_):
        raise ProblemError("gemv: it is too late")

    calls = dict.fromkeys(CALLS, refuse)
    program = draw_program(Seeded(2), MIN_PLUS, Limits(calls=("gemv",)))
    assert "refused: gemv: it is too late" in run(program, calls, HostMemory()).wrong


def test_a_program_that_must_be_refused_and_is_computed_is_found():
    out = View(2, "float32", (3, 3), (4, 4), 0)  # its elements share memory
    operands = {name: View(i, "float32", (3, 3), (12, 4), 0) for i, name in enumerate("ab")}
    program = Program("gemm", "min_plus", operands, (out,), (36, 36, 20))
    assert run(program, CALLS, HostMemory()).refusal == "gemm: out cannot take the result"
    calls = {"gemm": lambda out, **_: out}
    assert "computed, where elements of out share memory" in run(program, calls, HostMemory()).wrong


class TestPrograms:
    def test_a_line_is_the_program(self):
        for number, kind in enumerate(combinations()):
            program = draw_program(Seeded(number), kind, Limits())
            line = program.to_json()
            assert Program.from_json(line).to_json() == line
            assert "\n" not in line

    def test_first_and_third_call_have_the_same_operands(self):
        program = draw_program(Seeded(3), MIN_PLUS, Limits())
        first, second, third = (contents(program, turn) for turn in TURNS)
        assert all(map(np.array_equal, first, third))
        assert not all(map(np.array_equal, first, second))

    def test_seed_and_number_are_the_program(self):
        assert nth_program(5, 17, Limits()) == nth_program(5, 17, Limits())

    def test_every_array_lies_in_its_buffer(self):
        kinds, limits = combinations(), Limits(most_pairs=1 << 10, most_size=33)
        for number in range(500):
            program = draw_program(Seeded(number), kinds[number % len(kinds)], limits)
            assert [x.size for x in contents(program, 0)] == [*program.buffers]
            for view in (*program.operands.values(), *program.out):
                begin, end = view.span
                assert 0 <= begin <= end <= program.buffers[view.buffer]

    def test_what_a_fault_does_not_need_is_left_out(self):
        program = dataclasses.replace(
            draw_program(Seeded(8), MIN_PLUS, Limits(calls=("gemm",))), options={"alpha": 2.0, "threads": 1}
        )
        simplest = shrunk(program, lambda candidate: "alpha" in candidate.options)
        assert simplest.options == {"alpha": 2.0}
        assert simplest.operands.keys() == {"a", "b"}
        assert not simplest.out


def test_the_command_runs_a_program_and_says_what_is_wrong():
    operands = {name: View(i, "float32", (3, 2 + i), (16, 4), 0) for i, name in enumerate("ab")}  # no product
    program = Program("gemm", "min_plus", operands, (), (48, 48))
    ran = CliRunner().invoke(app, ["check", "--program", program.to_json()])
    assert ran.exit_code == 1
    assert "wrong     call 1: refused: gemm: the inner sizes of a and b differ" in ran.output
    assert f"program {program.to_json()}"[:60] in ran.output
    assert "1 programs of 3 calls" in ran.output
