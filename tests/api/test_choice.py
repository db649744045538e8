"""The choice of auto is data: a planted table changes it, and never to a backend that may not compute the product."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import harness
from harness import Backend, Execution, Machine, Operands, Plan, Problem, gemm, registry
from harness.api import choice
from harness.api import gemm as api_gemm
from harness.api.choice import choose
from harness.api.remembered import staged
from harness.machine import detect
from harness.tuning import static_order
from harness.tuning.choice import orders
from harness.tuning.choice.classes import Sizes, class_of
from harness.tuning.choice.contenders import contenders
from harness.tuning.stored import Chip
from tests._support.planted_registry import entry_of, plant_entries

PRODUCT = Problem(64, 64, 64)
Plant = Callable[..., None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return a function that plants a table with one entry, for `problem`, the first name the fastest."""

    def planted(*names: str, problem: Problem = PRODUCT) -> None:
        times = {name: 1000 + 500 * index for index, name in enumerate(names)}
        entries = {class_of(problem, detect().threads): {Sizes.of(problem): times}}
        monkeypatch.setattr(orders, "tables_of", lambda place: (orders.Table(entries),))
        monkeypatch.setattr(api_gemm, "known_shortcuts", {})

    return planted


class Planted(Backend):
    name, step, idea, source = "cpu-planted", 60, "any", "planted"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        return Plan(problem)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        raise AssertionError("it was chosen")


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[[Backend], None]:
    def added(backend: Backend) -> None:
        plant_entries(monkeypatch, [*registry.discover(), entry_of(backend)])

    return added


class TestATable:
    def test_changes_the_choice(self, plant: Plant) -> None:
        assert choose(PRODUCT, "auto").name == static_order.AUTO_FIRST[0]
        plant("cpu-packed", "cpu-simd")
        assert choose(PRODUCT, "auto").name == "cpu-packed"
        assert choose(PRODUCT, "cpu-naive").name == "cpu-naive"

    def test_says_nothing_of_what_was_not_measured(self, plant: Plant) -> None:
        plant("cpu-packed", "cpu-simd")
        for other in (Problem(500, 64, 64), Problem(64, 64, 64, "min_plus"), Problem(63, 63, 63)):
            assert choose(other, "auto").name == static_order.AUTO_FIRST[0]

    @pytest.mark.parametrize("name", ["nobody", "cpu-mixed", "gpu-tuned"])  # unknown, declines, of a device
    def test_passes_over_who_cannot(self, plant: Plant, name: str) -> None:
        plant(name, "cpu-packed", "cpu-simd")
        assert choose(PRODUCT, "auto").name == "cpu-packed"

    def test_never_has_looser_arithmetic_taken(self, plant: Plant, add: Callable[[Backend], None]) -> None:
        class Loose(Planted):
            def extra_error(self, plan: Plan, operands: Operands) -> float:
                return 1e9

        add(Loose())
        plant("cpu-planted", "cpu-packed")
        assert choose(PRODUCT, "auto").name == "cpu-packed"
        assert "cpu-planted" not in [backend.name for backend in contenders(PRODUCT, on_device=False)]

    def test_nor_emulated_products_where_native_ones_are_asked_for(
        self, plant: Plant, add: Callable[[Backend], None]
    ) -> None:
        class Emulated(Planted):
            def keeps_arithmetic(self, problem: Problem) -> bool:
                return not harness.arithmetic.is_native()

        add(Emulated())
        plant("cpu-planted", "cpu-packed")
        for is_native in (False, True, False):
            with harness.native_floats() if is_native else contextlib.nullcontext():
                assert choose(PRODUCT, "auto").name == ("cpu-packed" if is_native else "cpu-planted")

    def test_nor_processes_started(self, plant: Plant, add: Callable[[Backend], None]) -> None:
        class Starts(Planted):
            starts_processes = True

        add(Starts())
        plant("cpu-planted", "cpu-packed")
        assert choose(PRODUCT, "auto").name == "cpu-packed"

    def test_decides_against_the_model_of_what_pays(self, plant: Plant, add: Callable[[Backend], None]) -> None:
        class Seldom(Planted):
            def pays(self, problem: Problem) -> bool:
                return False

        add(Seldom())
        plant("cpu-planted", "cpu-packed")
        assert choose(PRODUCT, "auto").name == "cpu-planted"


class TestShortcuts:
    def test_are_as_they_are_where_no_other_is_first(self, plant: Plant) -> None:
        def shortcut(a: Any, b: Any, out: Any) -> bool:
            return True

        simd = registry.find("cpu-simd")
        plant("cpu-simd", "cpu-packed")
        assert choice.limited_shortcut(shortcut, simd, PRODUCT, "auto", None) is shortcut
        plant("cpu-packed", "cpu-simd")
        assert choice.limited_shortcut(shortcut, simd, PRODUCT, "cpu-simd", None) is shortcut

    def test_leave_products_to_the_backend_that_is_first_there(
        self, plant: Plant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant("cpu-packed", "cpu-simd")
        packed, taken = registry.find("cpu-packed"), []
        prepare = type(packed).prepare
        monkeypatch.setattr(type(packed), "prepare", lambda *x: taken.append(x[1].problem.m) or prepare(*x))
        for n in (8, 64, 8, 70, 500):  # the first one is remembered, with its shortcut
            a = np.ones((n, n))
            assert gemm(a, a)[0, 0] == n
        assert taken == [64, 70]
        staged.forget()
        with monkeypatch.context() as without:
            without.setattr(api_gemm, "choose", None)  # others take the shortcut
            assert gemm(np.ones((8, 8)), np.ones((8, 8)))[0, 0] == 8
        large = np.ones((64, 64))
        for b, out in ((np.ones(()), None), (np.ones(64), None), (large, []), (large.tolist(), None)):
            with contextlib.suppress(harness.errors.ProblemError):
                gemm(large, b, out=out)


def test_on_a_gpu_the_architecture_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnDevice(Planted):
        takes = frozenset({"device arrays"})

        def __init__(self, name: str, arch: str = "") -> None:
            self.name, self._arch = name, arch  # type: ignore[misc]

        def architecture(self) -> str:
            return self._arch

    class Arrays(choice.Arrays):
        on_device = True

        def tried_first(self) -> tuple[str, ...]:
            return ("gpu-one",)

    asked: list[object] = []

    def tables_of(place: object) -> tuple[orders.Table, ...]:
        asked.append(place)
        return (orders.Table({class_of(PRODUCT, None): {Sizes.of(PRODUCT): {"gpu-other": 1000}}}),)

    both = (OnDevice("gpu-one", "sm_90"), OnDevice("gpu-other"))
    plant_entries(monkeypatch, map(entry_of, both))
    monkeypatch.setattr(orders, "tables_of", tables_of)
    assert choose(PRODUCT, "auto", Arrays()).name == "gpu-other"
    assert asked == [Chip("sm_90")]
