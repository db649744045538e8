"""Which preset's cells are shown where a machine has several, and none is named."""

import shutil

import pytest

from harness.cli.options import recorded
from harness.errors import StoreError
from harness.store.store import Store
from tests._support.planted_store import MACHINE, begun, cell, done


def shown(results, preset=None):
    ((slug, cells, machine),) = recorded(results, preset)
    assert (slug, machine) == ("m", MACHINE)
    return {(c.experiment, c.preset) for c in cells}


@pytest.fixture
def results(tmp_path):
    for preset, names in (("smoke", ("ladder", "sweep")), ("quick", ("ladder", "sweep")), ("full", ("sweep", "peers"))):
        store = Store(tmp_path / "m" / preset)
        store.append(begun())
        for name in names:
            store.append(cell(experiment=name, preset=preset), machine=MACHINE)
    return tmp_path


def test_each_point_of_the_largest_preset_that_has_it(results):
    assert shown(results) == {("ladder", "quick"), ("sweep", "full"), ("peers", "full")}
    Store(results / "m" / "quick").append(cell(experiment="sweep", preset="quick", axes={"n": 5}), machine=MACHINE)
    ((_, cells, _),) = recorded(results, None)
    assert [(c.preset, c.axes["n"]) for c in cells if c.experiment == "sweep"] == [("full", 64), ("quick", 5)]


def test_one_question_at_other_sizes_is_shown_of_the_larger_preset_if_that_has_as_many(results):
    quick, full = Store(results / "m" / "quick"), Store(results / "m" / "full")
    for store, name, sizes in ((quick, "quick", (256, 512)), (full, "full", (1024, 2048, 4096))):
        for n in sizes:
            axes = {"semiring": "min_plus", "n": n}
            store.append(cell(experiment="peers", preset=name, axes=axes), machine=MACHINE)
    other = {"semiring": "max_plus", "n": 256}
    quick.append(cell(experiment="peers", preset="quick", axes=other), machine=MACHINE)

    def sizes(semiring):
        ((_, cells, _),) = recorded(results, None)
        return [c.axes["n"] for c in cells if c.axes.get("semiring") == semiring]

    assert sizes("min_plus") == [1024, 2048, 4096]
    large = {"semiring": "min_plus", "n": 8192}
    full.append(
        cell(experiment="peers", preset="full", axes=large, status="declined", reason="no memory"), machine=MACHINE
    )
    assert sizes("min_plus") == [1024, 2048, 4096, 8192], "what has no time is shown with its reason"
    for store, name, side in ((quick, "quick", 256), (full, "full", 4096)):
        axes = {"semiring": "max_min", "n": side, "size": f"symv, {side:,} x {side:,}"}
        store.append(cell(experiment="peers", preset=name, axes=axes), machine=MACHINE)
    assert sizes("max_min") == [4096], "a size in words is a size"
    assert sizes("max_plus") == [256], "what the larger preset does not ask is shown"
    for n in (128, 384):
        axes = {"semiring": "min_plus", "n": n}
        quick.append(cell(experiment="peers", preset="quick", axes=axes), machine=MACHINE)
    assert sorted(sizes("min_plus")) == [128, 256, 384, 512, 1024, 2048, 4096, 8192], "a part hides nothing"


def test_a_run_that_covered_a_part_counts(results):
    Store(results / "m" / "quick").append(done("run1", "sweep"))
    assert ("sweep", "full") in shown(results), "no run of preset full has finished"


def test_where_the_largest_preset_has_no_time_the_next_stands(results):
    late = {"preset": "full", "experiment": "ladder"}
    Store(results / "m" / "full").append(cell(**late, run="run2", status="failed", reason="no memory"), machine=MACHINE)
    assert ("ladder", "quick") in shown(results)
    Store(results / "m" / "full").append(cell(**late, run="run3"), machine=MACHINE)
    assert ("ladder", "full") in shown(results)


def test_a_part_of_a_case_of_a_larger_preset_hides_no_whole_one(results):
    full = Store(results / "m" / "full")
    part = {"preset": "full", "experiment": "ladder", "run": "run2", "left_out": ["b"]}
    full.append(cell(**part), machine=MACHINE)
    assert ("ladder", "quick") in shown(results)
    for n in (1, 2, 3):
        full.append(cell(n=n, **part), machine=MACHINE)
    ((_, cells, _),) = recorded(results, None)
    assert {(c.preset, c.axes["n"]) for c in cells if c.experiment == "ladder"} == {
        ("quick", 64),
        *(("full", n) for n in (1, 2, 3)),
    }
    full.append(cell(**{**part, "left_out": []}), machine=MACHINE)
    assert ("ladder", "full") in shown(results)


def test_smoke_stands_alone_or_not_at_all(results):
    smoke = Store(results / "m" / "smoke")
    for name, axes in (("ladder", {"n": 3}), ("new", {"n": 64})):
        smoke.append(cell(experiment=name, preset="smoke", axes=axes), machine=MACHINE)
    assert {preset for _, preset in shown(results)} == {"quick", "full"}
    for preset in ("quick", "full"):
        shutil.rmtree(results / "m" / preset)
    assert {preset for _, preset in shown(results)} == {"smoke"}


def test_the_preset_that_is_named_alone(results):
    assert shown(results, "smoke") == {("ladder", "smoke"), ("sweep", "smoke")}
    with pytest.raises(StoreError, match="no results"):
        list(recorded(results / "nothing", None))
