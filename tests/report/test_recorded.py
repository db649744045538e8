"""Which preset's cells are shown where a machine has several, and none is named."""

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


def end(results, preset, *names):
    Store(results / "m" / preset).append(done("run1", *names))


def test_the_largest_preset_of_each_experiment_that_has_been_finished(results):
    end(results, "smoke", "ladder", "sweep")
    end(results, "quick", "ladder", "sweep")
    assert shown(results) == {("ladder", "quick"), ("sweep", "quick"), ("peers", "full")}
    end(results, "full", "sweep")
    assert shown(results) == {("ladder", "quick"), ("sweep", "full"), ("peers", "full")}


def test_the_largest_that_has_been_begun_where_none_is_finished(results):
    assert shown(results) == {("ladder", "quick"), ("sweep", "full"), ("peers", "full")}


def test_the_preset_that_is_named_alone(results):
    assert shown(results, "smoke") == {("ladder", "smoke"), ("sweep", "smoke")}
    with pytest.raises(StoreError, match="no results"):
        list(recorded(results / "nothing", None))
