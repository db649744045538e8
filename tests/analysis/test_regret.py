"""The regret of auto: its time over that of the fastest backend that it may have taken."""

from __future__ import annotations

import dataclasses

import pytest

from harness.analysis import answers, caveats, rivals
from harness.analysis.findings.regret import missed, regret
from harness.catalogue import load_all
from harness.store.store import Cell
from tests._support.synthetic import cells

EXPERIMENT = load_all()["auto_regret"]
NOISY = [2e6 * (1 + off) for off in (-0.9, 0.2, 0.7, -0.4, 1.0, -0.1, -0.8, 0.5)]


def product(times_ms: dict[str, float], setting: str) -> list[Cell]:
    """Return the cells of one product in which each contender takes so long."""
    case = next(c.case for c in cells(EXPERIMENT) if c.axes["setting"] == f"{setting}, all threads")
    own = {cell.contender: cell for cell in cells(EXPERIMENT) if cell.case == case}
    return [dataclasses.replace(own[name], samples_ns=[[1e6 * ms] * 8]) for name, ms in times_ms.items()]


def test_is_that_over_the_fastest_other() -> None:
    lost = product({"auto": 6.0, "cpu-simd": 6.0, "cpu-numpy": 4.0}, "plus_times float64")
    assert rivals.fastest_other(lost[0], lost) is lost[2]
    at = regret(lost[0], lost)
    assert at is not None
    assert at.estimate == pytest.approx(1.5)
    assert regret(lost[0], lost[:1]) is None


def taking(own: list[Cell], backend: str) -> list[Cell]:
    """Return the cells of one product in which auto took `backend`."""

    def plan(cell: Cell) -> dict[str, str]:
        return {"backend": backend if cell.contender == "auto" else cell.contender}

    return [dataclasses.replace(cell, facts={**cell.facts, "plan": plan(cell)}) for cell in own]


def test_the_ratio_to_the_backend_that_auto_took_is_not_to_be_decided() -> None:
    auto, simd, numpy = product({"auto": 2.0, "cpu-simd": 2.0, "cpu-numpy": 2.0}, "plus_times float32")
    noisy = [auto, *(dataclasses.replace(cell, samples_ns=[NOISY]) for cell in (simd, numpy))]
    assert caveats.doubts(noisy).keys() == {caveats.key(simd), caveats.key(numpy)}
    assert caveats.doubts(taking(noisy, "cpu-simd")).keys() == {caveats.key(numpy)}
    assert caveats.undecided(taking(noisy, "cpu-simd"))[0:3:2] == (1, 1)


def test_where_auto_took_the_best_its_choice_lost_nothing() -> None:
    slow = product({"auto": 3.0, "cpu-simd": 2.0, "cpu-numpy": 4.0}, "plus_times float32")
    for taken, regrets in (("cpu-simd", []), ("cpu-numpy", [1.5])):
        own = taking(slow, taken)
        assert [round(at.estimate, 2) for at, _ in missed(own[:1], own)] == regrets


def test_every_case_has_auto_and_a_choice() -> None:
    for cell in cells(EXPERIMENT):
        assert cell.reference == "auto"
    assert "auto takes" in answers.of_experiment(EXPERIMENT, cells(EXPERIMENT))
