"""Tuning: what is taken and what is not, where it is kept, and that no stored file can do harm."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from harness import Problem, cli, gemm, registry
from harness.autotune import search
from harness.autotune.race import Race, Racer
from harness.cli.options import INTERRUPTED
from harness.errors import StoreError, VerificationError
from harness.experiment import Budget
from harness.interface import make_plan, prepare
from harness.machine import Machine, detect
from harness.operands import Operands
from harness.run import machine_info
from harness.run.runner import Observer
from harness.semiring import SEMIRINGS
from harness.tuning import simd as tuning_simd
from harness.tuning import stored as tuning_stored
from tests._support.units import needs_masks

FLOAT64 = [("float64", "plus_times")]
BACKEND = registry.find(search.BACKEND)
UNIT = str(BACKEND.plan(Problem(8, 8, 8), detect()).options["unit"])
KIND = f"{UNIT} 64-bit fused"
IN_PLACE = BACKEND.plan(Problem(8, 8, 8), detect()).options["in_place_up_to"]  # what the model chooses here


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """Keep tuned values in a folder of the test's own."""
    monkeypatch.setenv(tuning_stored.VARIABLE, str(tmp_path / "tuned"))
    monkeypatch.setattr(tuning_stored, "_known", {})
    monkeypatch.setattr(search, "BUSY", float("inf"))
    return tmp_path / "tuned"


def racing(cost, *, noise=0.002, seen=None):
    """Return a race whose times are ``cost(plan)`` and a little noise: no clock is read."""
    rng = np.random.default_rng(3)

    def race(given: Race):
        if seen is not None:
            seen.append(given)
        count = 2 * given.budget.rounds
        samples = {
            label: [1e6 * cost(plan) * (1 + noise * rng.standard_normal()) for _ in range(count)]
            for label, plan in given.plans.items()
        }
        return samples, {}

    return race


def tune(cost=None, *, race=None, **options):
    work = search.Tuner(BACKEND, race=race or racing(cost), **options)
    return {finding.name: finding for finding in work.tune(FLOAT64)}


def shorter_blocks(plan):
    """Return a cost that is least for kc = 256 of a long k (264 at most makes it), and for packing earlier."""
    problem, kc = plan.problem, plan.blocking.kc
    cost = 1 + abs(kc - 256) / 1000 if problem.k == 1536 else 1.0
    return cost * (0.95 if problem.k < 300 and plan.options["in_place_up_to"] < IN_PLACE else 1.0)


# ---------------------------------------------------------------------------------------------------- what is taken


def test_values_that_are_better_are_taken_and_used_from_then_on(place):
    problem, other = Problem(1536, 1536, 1536), Problem(1536, 1536, 1536, SEMIRINGS["min_plus"])
    before = BACKEND.plan(other, detect())
    assert BACKEND.plan(problem, detect()).blocking.kc == 384
    found = tune(shorter_blocks)
    assert {name for name, finding in found.items() if finding.is_taken} == {"kc", "in_place_up_to"}
    assert found["kc"].best == "264"
    assert found["kc"].model == "400"
    assert 1.02 < found["kc"].gain.low <= found["kc"].gain.estimate <= found["kc"].gain.high < 1.06
    plan = BACKEND.plan(problem, detect())
    assert plan.blocking.kc == 256
    assert plan.options["in_place_up_to"] < IN_PLACE
    assert BACKEND.plan(other, detect()) == before  # another kind of product
    (path,) = place.iterdir()
    record = json.loads(path.read_text())
    assert path.stem == record["key"] == detect().key
    assert record["machine"] == json.loads(json.dumps(detect().to_json()))
    assert record["date"]
    assert record["version"]
    assert record["values"][KIND]["kc"] == 264
    assert len(record["evidence"]["findings"]) == len(found)


def test_gains_within_the_margin_are_left():
    found = tune(lambda plan: 0.992 if plan.blocking.kc < 300 else 1.0)
    assert found["kc"].gain.estimate > 1.004
    assert not any(finding.is_taken for finding in found.values())
    assert tuning_stored.read(detect()).values == {}
    assert tuning_stored.read(detect()).date


def test_gains_that_noise_could_be_are_left():
    race = racing(lambda plan: 0.97 if plan.blocking.kc < 300 else 1.0, noise=0.15)
    assert not any(finding.is_taken for finding in tune(race=race).values())


def test_a_gain_that_costs_another_size_is_left():
    def cost(plan):
        gain = 0.8 if plan.problem.n == 1536 else 1.05 if plan.problem.n == 384 else 1.0
        return gain if plan.blocking.kc < 300 and plan.problem.k > 300 else 1.0

    found = tune(lambda plan: cost(plan) if plan.problem.m == plan.problem.k else 1.0)
    assert found["kc"].gain.low > search.MARGIN
    assert found["kc"].worst < search.WORST
    assert not found["kc"].is_taken


def test_later_parameters_are_raced_with_what_was_taken_before():
    seen = []
    list(search.Tuner(BACKEND, race=racing(shorter_blocks, seen=seen)).tune(FLOAT64))
    last = [race for race in seen if race.problem == Problem(1536, 1536, 1536)][-1]
    assert last.plans[search.INCUMBENT].blocking.kc == 256


def test_the_best_of_many_meets_the_incumbent_alone_in_the_last_heat():
    seen = []
    list(search.Tuner(BACKEND, race=racing(shorter_blocks, seen=seen)).tune(FLOAT64))
    heats = [set(race.plans) for race in seen if race.budget.rounds == search.HEATS[-1][0]]
    assert {search.INCUMBENT, "264"} in heats
    assert all(len(heat) == 2 for heat in heats)


def test_a_plan_that_fails_is_said_and_dropped():
    told = []

    class Told(Observer):
        def cell_failed(self, experiment, case, contender, status, reason):
            told.append((experiment, contender, reason))

    def race(given):
        samples, _ = racing(shorter_blocks)(given)
        is_long = given.problem.k == 1536
        failed = [label for label, plan in given.plans.items() if is_long and plan.blocking.kc <= 256]
        return {label: own for label, own in samples.items() if label not in failed}, dict.fromkeys(failed, "wrong")

    found = tune(race=race, observer=Told())
    assert not found["kc"].is_taken
    assert found["kc"].best == "528"  # the only one left
    assert (KIND, "264", "wrong") in told


def test_what_threads_are_worth_is_not_measured_on_a_busy_machine(monkeypatch):
    machine = dataclasses.replace(detect(), cores=2)
    assert "pairs_per_thread" in tune(lambda plan: 1.0, machine=machine, is_stored=False)
    notices = []
    observer = type("Told", (Observer,), {"notice": lambda self, text: notices.append(text)})()
    monkeypatch.setattr(search, "BUSY", -1.0)
    found = tune(lambda plan: 1.0, machine=machine, is_stored=False, observer=observer)
    assert "pairs_per_thread" not in found
    assert "kc" in found
    assert "busy" in notices[0]


def test_a_machine_whose_own_plans_fail_keeps_the_model():
    found = tune(race=lambda given: ({}, dict.fromkeys(given.plans, "no")))
    assert not any(finding.is_taken for finding in found.values())
    heads, rows = search.table(list(found.values()))
    assert all(len(row) == len(heads) for row in rows)


def test_an_interruption_keeps_what_is_finished():
    def race(given):
        if any(plan.options["in_place_up_to"] == 0 for plan in given.plans.values()):
            raise KeyboardInterrupt
        return racing(shorter_blocks)(given)

    with pytest.raises(KeyboardInterrupt):
        tune(race=race)
    assert tuning_stored.read(detect()).values == {KIND: {"kc": 264}}


def test_values_of_other_kinds_outlive_a_new_tuning():
    tuning_stored.write(detect(), {"another kind": {"kc": 64}, KIND: {"kc": 64}}, {})
    tune(shorter_blocks)
    found = tuning_stored.read(detect()).values
    assert found["another kind"] == {"kc": 64}
    assert found[KIND]["kc"] == 264


def test_a_tuning_starts_from_the_model_whatever_is_stored():
    tuning_stored.write(detect(), {KIND: {"kc": 64}}, {})
    assert not tune(lambda plan: 1.0)["kc"].is_taken
    assert tuning_stored.read(detect()).values == {}


def test_nothing_is_stored_if_it_is_not_asked_for(place):
    assert tune(shorter_blocks, is_stored=False)["kc"].is_taken
    assert not place.exists()


# ---------------------------------------------------------------------------------------------------- races


def race_of(backend, plans, problem=Problem(50, 40, 30)):  # noqa: B008 it is frozen
    return Racer().run(Race(backend, problem, plans, Budget(1, 1.0, 0.01), 1))


def test_plans_are_proven_and_sampled_side_by_side():
    plan = BACKEND.plan(Problem(50, 40, 30), detect().with_threads(1))
    plans = {"one": plan, "same": plan.override({}), "short": plan.override({"kc": 8, "in_place_up_to": 0})}
    samples, failures = race_of(BACKEND, plans)
    assert failures == {}
    assert {label: len(own) for label, own in samples.items()} == dict.fromkeys(plans, 2)
    assert samples["one"] is samples["same"]  # equal plans are raced once


@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_plan_that_computes_something_else_gets_no_time(semiring, is_first):
    class Wrong:
        """The backend, but one element of one of its plans is a little off."""

        def prepare(self, plan, operands):
            made = BACKEND.prepare(plan, operands)
            if plan.blocking.kc != 8:
                return made

            def run():
                made.run()
                operands.out[-1, -1] *= 1 + 1e-9

            return type("Execution", (), {"run": staticmethod(run), "wait": made.wait, "result": made.result})()

    problem = Problem(50, 40, 30, SEMIRINGS[semiring])
    plan = BACKEND.plan(problem, detect().with_threads(1))
    plans = {"right": plan, "wrong": plan.override({"kc": 8})}
    if is_first:
        plans = dict(reversed(plans.items()))
    samples, failures = race_of(Wrong(), plans, problem)
    assert list(samples) == ["right"]
    assert list(failures) == ["wrong"]


def test_a_result_that_goes_wrong_while_it_is_timed_is_an_error():
    class Tiring:
        def prepare(self, plan, operands):
            made, runs = BACKEND.prepare(plan, operands), []

            def run():
                runs.append(made.run())
                if len(runs) > 1:
                    operands.out[0, 0] = np.nan

            return type("Execution", (), {"run": staticmethod(run), "wait": made.wait, "result": made.result})()

    with pytest.raises(VerificationError, match="1 of 2000 elements"):
        race_of(Tiring(), {"one": BACKEND.plan(Problem(50, 40, 30), detect().with_threads(1))})


# ---------------------------------------------------------------------------------------------------- the file


def stored(**changes):
    """Return what `write` writes, with changes."""
    path = tuning_stored.write(detect(), {KIND: {"kc": 256}}, {})
    return path, {**json.loads(path.read_text()), **changes}


def test_a_file_is_read_once_a_process(monkeypatch):
    tuning_stored.write(detect(), {KIND: {"kc": 256}}, {})
    read, count = tuning_stored.read, []
    monkeypatch.setattr(tuning_stored, "read", lambda machine: count.append(1) or read(machine))
    for threads in (1, 2, 1):
        assert tuning_stored.values(detect().with_threads(threads)) == {KIND: {"kc": 256}}
    assert len(count) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key": "0123456789ab"}, "another machine"),
        ({"version": "0.0.1"}, "version 0.0.1"),
        ({"format": 2}, "format"),
        ({"values": [1]}, "no values"),
        ({"values": {KIND: 7}}, "no values"),
        ({"date": None}, "no values, or no date"),
        ({"values": {KIND: {"kc": -1}}}, "kc=-1"),
        ({"values": {KIND: {"kc": True}}}, "kc=True"),
        ({"values": {KIND: {"kc": 256.5}}}, "kc=256.5"),
        ({"values": {KIND: {"mr": 17}}}, "mr=17"),
        ({"values": {KIND: {"colour": 3}}}, "colour=3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_cannot_be_used_is_said_in_one_line_and_left(changes, said):
    path, record = stored(**changes)
    path.write_text(json.dumps(record))
    found = tuning_stored.read(detect())
    assert found.values == {}
    assert not found.date
    assert said in found.notice
    assert "\n" not in found.notice
    assert BACKEND.plan(Problem(1536, 1536, 1536), detect()).blocking.kc == 384
    assert said in dict(machine_info.rows(machine_info.collect()))["tuned values"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b'{"format": 1}'])
def test_a_torn_file_is_as_good_as_none(content):
    path, _ = stored()
    path.write_bytes(content)
    assert tuning_stored.read(detect()).values == {}
    assert str(path) in tuning_stored.read(detect()).notice
    assert gemm(np.eye(3), np.eye(3)).tolist() == np.eye(3).tolist()


def test_a_file_of_other_versions_is_not_used_and_said():
    packages = {**detect().packages, "numba": "0.0"}
    tuning_stored.write(dataclasses.replace(detect(), packages=packages), {KIND: {"kc": 256}}, {})
    assert tuning_stored.read(detect()).values == {}
    assert "1 in" in tuning_stored.read(detect()).notice


def test_info_says_what_is_in_use(monkeypatch):
    def said():
        return dict(machine_info.rows(machine_info.collect()))["tuned values"]

    assert said() == "none: the model's are in use"
    path, _ = stored()
    assert said().startswith("in use: 1 ")
    assert str(path) in said()
    monkeypatch.setenv(tuning_stored.VARIABLE, "")
    assert said().startswith("turned off")


def test_an_empty_variable_turns_it_off(monkeypatch):
    stored()
    monkeypatch.setenv(tuning_stored.VARIABLE, "")
    assert tuning_stored.read(detect()) == tuning_stored.Stored(None)
    for act in (lambda: tuning_stored.write(detect(), {}, {}), lambda: tuning_stored.forget(detect())):
        with pytest.raises(StoreError, match=tuning_stored.VARIABLE):
            act()


def test_where_files_are(monkeypatch, tmp_path):
    monkeypatch.delenv(tuning_stored.VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert tuning_stored.folder() == tmp_path / "gemm-harness" / "tuned"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tuning_stored.folder() == tmp_path / ".local" / "share" / "gemm-harness" / "tuned"


def test_a_place_that_cannot_be_written_is_one_message(place):
    place.write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="cannot be stored"):
        tuning_stored.write(detect(), {}, {})
    with pytest.raises(StoreError, match="cannot be removed"):
        tuning_stored.forget(detect())
    assert tuning_stored.read(detect()).values == {}


def test_a_write_that_fails_leaves_the_old_file(monkeypatch):
    path, record = stored()
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(StoreError, match="No space left"):
        tuning_stored.write(detect(), {KIND: {"kc": 64}}, {})
    assert json.loads(path.read_text()) == record
    assert list(path.parent.iterdir()) == [path]


def test_what_is_tried_is_in_force_only_meanwhile():
    stored()
    with tuning_stored.trial(detect(), {KIND: {"kc": 64}}):
        assert BACKEND.plan(Problem(64, 64, 640), detect()).blocking.kc == 64
    assert BACKEND.plan(Problem(512, 512, 512), detect()).blocking.kc == 256


# ---------------------------------------------------------------------------------------------------- the numbers

EXTREMES = [
    {"mr": 16, "nv": 1, "kc": 8, "a_bytes": 1, "all_of_m_bytes": 0, "nc_bytes": 1, "in_place_up_to": 0},
    {"mr": 1, "nv": 6, "kc": 1 << 20, "a_bytes": 1 << 40, "nc_bytes": 1 << 40, "in_place_up_to": 1 << 20},
    {"bad_stride_a": 1, "bad_stride_b": 1, "pairs_per_thread": 1, "all_of_m_bytes": 1 << 40},
    {"bad_stride_a": 1 << 40, "bad_stride_b": 1 << 40, "pairs_per_thread": 1 << 40},
]


@pytest.mark.parametrize("numbers", EXTREMES, ids=range(len(EXTREMES)))
def test_whatever_is_legal_gives_right_products(numbers, rng):
    tuning_stored.write(detect(), {KIND: numbers}, {})
    assert tuning_stored.read(detect()).values == {KIND: numbers}
    for m, n, k in ((1, 1, 1), (37, 130, 300), (150, 30, 17)):
        a, b = rng.integers(-9, 9, (m, k)).astype(float), rng.integers(-9, 9, (k, n)).astype(float)
        assert (gemm(a, b, backend=search.BACKEND) == a @ b).all()


def test_every_number_can_be_stored_and_every_candidate_is_legal():
    assert set(tuning_stored.LEGAL) == set(tuning_simd.SimdNumbers._fields)
    for dtype, semiring in search.PRODUCTS:
        problem = Problem(8, 8, 8, SEMIRINGS[semiring], np.dtype(dtype))
        model = tuning_simd.simd_model(problem, detect())
        for stage in search.stages(model, detect(), UNIT, problem.dtype.itemsize):
            for changes in stage.candidates.values():
                for name, value in changes.items():
                    least, greatest = tuning_stored.LEGAL[name]
                    assert least <= value <= greatest


def test_kinds_tell_apart_what_is_measured_apart():
    def kind(semiring, dtype, unit="avx2"):
        return tuning_simd.simd_kind(Problem(8, 8, 8, SEMIRINGS[semiring], np.dtype(dtype)), unit)

    assert len({kind(semiring, dtype) for dtype, semiring in search.PRODUCTS}) == len(search.PRODUCTS)
    assert kind("logaddexp_plus", "float32") == kind("plus_times", "float32")
    assert kind("plus_times", "int64") == kind("min_plus", "float64") == kind("max_min", "uint64")
    assert kind("lor_land", "bool") not in {kind("min_plus", dtype) for dtype in ("int8", "int32")}
    assert kind("plus_times", "float64") != kind("plus_times", "float64", "avx512")


def test_a_small_product_is_one_whose_b_stays_in_half_of_the_second_cache():
    def largest(l2, dtype="float64"):
        machine = Machine("cpu", 8, 8, 32 << 10, l2, 8 << 20)
        return tuning_simd.simd_model(Problem(8, 8, 8, dtype=np.dtype(dtype)), machine).in_place_up_to

    assert largest(128 << 10) ** 2 * 8 <= 64 << 10 < (largest(128 << 10) + 1) ** 2 * 8
    assert largest(1 << 20) == largest(1 << 30) == tuning_simd.SIMD_SMALL
    assert largest(256 << 10, "float32") > largest(256 << 10)


@needs_masks
@pytest.mark.parametrize(("apart", "packs"), [(4096, True), (4096 + 48, True), (8192, True), (4096 + 192, False)])
def test_b_is_packed_where_its_rows_share_cache_sets(apart, packs, monkeypatch):
    from backends.cpu._simd import product

    seen, prepared = [], product.prepare_product
    monkeypatch.setattr(
        product,
        "prepare_product",
        lambda loops, *rest, **named: seen.append(loops) or prepared(loops, *rest, **named),
    )
    apart_rows, problem, simd = np.ones((64, apart // 8))[:, :64], Problem(64, 64, 64), registry.find("cpu-simd")
    for b in (apart_rows.copy(), apart_rows):  # planned: `gemm` has a shortcut for such sizes
        operands = Operands(np.ones((64, 64)), b, None, np.empty((64, 64)))
        assert prepare(simd, make_plan(simd, problem, detect()), operands).run_once().max() == 64
    assert [loops.packs_b for loops in seen] == [False, packs]


# ---------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def command(monkeypatch):
    """Return the command, with races of no time."""
    monkeypatch.setattr(search, "PRODUCTS", FLOAT64)
    monkeypatch.setattr(search, "Racer", type("Racer", (), {"run": staticmethod(racing(shorter_blocks))}))
    return lambda *arguments: CliRunner().invoke(cli.app, ["tune", *arguments])


def test_tune_prints_what_it_found_and_forget_removes_it(command, place):
    answer = command()
    assert answer.exit_code == 0, answer.output
    assert any(line.split()[3:6] == ["kc", "400", "264"] for line in answer.output.splitlines())
    (path,) = place.iterdir()
    assert str(path) in answer.output
    answer = command("--forget")
    assert answer.exit_code == 0
    assert str(path) in answer.output
    assert list(place.iterdir()) == []
    assert "nothing is stored" in command("--forget").output


def test_a_dry_run_stores_nothing(command, place):
    answer = command("--dry-run")
    assert answer.exit_code == 0, answer.output
    assert "nothing was stored" in answer.output
    assert not place.exists()


def test_an_interrupted_command_prints_what_is_finished(command, monkeypatch):
    def race(given):
        if any(plan.options["in_place_up_to"] == 0 for plan in given.plans.values()):
            raise KeyboardInterrupt
        return racing(shorter_blocks)(given)

    monkeypatch.setattr(search, "Racer", type("Racer", (), {"run": staticmethod(race)}))
    answer = command()
    assert answer.exit_code == INTERRUPTED
    assert " kc " in answer.output
    assert tuning_stored.read(detect()).values == {KIND: {"kc": 264}}


def test_a_place_that_is_turned_off_is_said_before_anything_is_measured(command, monkeypatch):
    monkeypatch.setenv(tuning_stored.VARIABLE, "")
    answer = command()
    assert isinstance(answer.exception, StoreError)
    assert command("--dry-run").exit_code == 0
