"""The interface of backends: what may be declared, what a plug-in may leave out, and one way to compute a product."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from harness import Backend, Operands, Plan, PlanError, Problem, gemm, registry
from harness.dtypes import named_dtype
from harness.interface import HostExecution, Prepared, prepare
from harness.linalg import qr
from tests._support.planted_registry import entry_of, plant_entries

PROBLEM = Problem(3, 4, 5)


class Sums(Backend):
    """By NumPy, into an array of its own."""

    name, step, idea, source = "cpu-sums", 1, "a test", "a test"

    def plan(self, problem: Problem, machine: Any) -> Plan:
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> Any:
        return Bare(operands)


class Bare:
    """An execution that derives from nothing, and leaves out all but the three methods."""

    def __init__(self, operands: Operands) -> None:
        self._operands, self._own = operands, np.empty_like(operands.out)
        self._is_done = False

    def run(self) -> None:
        self._own[...] = self._operands.a @ self._operands.b

    def wait(self) -> None:
        self._is_done = True

    def result(self) -> np.ndarray:
        assert self._is_done
        return self._own


class TestWhatABackendTakes:
    def test_is_nothing_special_by_default(self) -> None:
        assert Sums.takes == frozenset()
        assert Sums().refuses(Problem(2, 2, 2, "min_plus", np.dtype(np.float16)))

    def test_may_be_said_and_taken_back(self) -> None:
        class Mixed(Sums):
            takes = frozenset({"mixed", "device arrays"})

        class Later(Mixed):
            takes = Mixed.takes - {"mixed"}

        mixed = Problem(2, 2, 2, "plus_times", np.dtype(np.float32), operand_dtype=named_dtype("bfloat16"))
        assert Mixed().refuses(mixed) is None
        assert Later().refuses(mixed)

    @pytest.mark.parametrize("takes", [{"mixd"}, "mixed", {"half", "sparse"}, None, True])
    def test_is_refused_if_it_is_no_ability(self, takes: Any) -> None:
        with pytest.raises(TypeError, match=r"Wrong\.takes (has|is) .*expected some of"):
            type("Wrong", (Sums,), {"takes": takes})


def leave(*_: object) -> None:
    """Do as a script that was meant to be run."""
    sys.exit(3)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"plan": leave}, r"cpu-sums: its plan\(\) raised SystemExit: 3"),
        ({"prepare": leave}, r"cpu-sums: its prepare\(\) raised SystemExit: 3"),
        ({"plan": lambda *_: None}, r"cpu-sums: its plan\(\) returned None"),
        ({"plan": lambda *_: {"threads": 1}}, r"cpu-sums: its plan\(\) returned an object of type dict"),
        ({"prepare": lambda *_: None}, r"cpu-sums: its prepare\(\) returned None"),
        ({"prepare": lambda *_: lambda: None}, r"cpu-sums: its prepare\(\) returned an object of type function"),
        ({"prepare": lambda _, plan, operands: Forgetful(operands)}, r"Forgetful: its result\(\) returned None"),
    ],
)
def test_what_breaks_the_contract_is_named(
    methods: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_entries(monkeypatch, [entry_of(type("Broken", (Sums,), methods)())])
    a = np.ones((3, 3))
    for call in (gemm, qr_of_square):
        with pytest.raises(PlanError, match=rf"{message}(.|\n)*expected(.|\n)*fix"):
            call(a, a, backend="cpu-sums")


class Forgetful(Bare):
    """An execution whose result is forgotten."""

    def result(self) -> Any:
        super().result()


def qr_of_square(a: np.ndarray, _: np.ndarray, **options: Any) -> Any:
    return qr(a, **options)


class TestAPreparedProduct:
    def test_of_an_execution_with_an_array_of_its_own_ends_in_out(self) -> None:
        operands = Operands.generate(PROBLEM, 1)
        assert prepare(Sums(), Plan(PROBLEM, 1), operands).run_once() is operands.out
        assert np.array_equal(operands.out, operands.a @ operands.b)

    def test_needs_no_queue_and_no_upload(self) -> None:
        prepared = prepare(Sums(), Plan(PROBLEM, 1), Operands.generate(PROBLEM, 1))
        prepared.upload()
        assert prepared.queue is None

    def test_of_a_callable_runs_it_and_nothing_else(self) -> None:
        operands, calls = Operands.generate(PROBLEM, 1), list[int]()
        execution = HostExecution(operands, lambda: calls.append(1))
        assert Prepared(Plan(PROBLEM, 1), operands, execution).run_once() is operands.out
        assert calls == [1]


@pytest.mark.parametrize(
    ("composite", "semiring", "dtype"),
    [
        pytest.param("cpu-strassen", "plus_times", "int64", marks=pytest.mark.deep),
        ("cpu-half", "max_min", "float16"),
    ],
)
def test_a_base_may_return_an_array_of_its_own(composite: str, semiring: str, dtype: str, monkeypatch: Any) -> None:
    naive = registry.find("cpu-naive")
    whole = type(naive).prepare

    def prepare(self: Backend, plan: Plan, operands: Operands) -> Any:
        own = np.empty_like(operands.out)
        execution = whole(self, plan, Operands(operands.a, operands.b, None, own))
        operands.out.fill(99)
        return execution

    class OnNaive(type(registry.find(composite))):  # type: ignore[misc]
        name = f"{composite}-on-naive"

        def plan(self, problem: Problem, machine: Any) -> Plan:
            given = super().plan(problem, machine)
            options = {"base": "cpu-naive"} | ({"crossover": 4} if "crossover" in given.options else {})
            return given.override(options)

    a = np.random.default_rng(1).integers(-9, 9, (10, 10)).astype(dtype)
    expected = gemm(a, a, semiring=semiring, backend="cpu-numpy" if dtype == "int64" else composite)
    plant_entries(monkeypatch, [*registry.discover(), entry_of(OnNaive())])
    monkeypatch.setattr(type(naive), "prepare", prepare)
    assert np.array_equal(gemm(a, a, semiring=semiring, backend=OnNaive.name), expected)
