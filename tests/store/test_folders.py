"""The folder of a machine: the old one where it holds results of this hardware and host, else one of its own."""

import dataclasses

import pytest

from harness.store import store
from harness.store.folders import slug_of
from harness.store.store import Store
from tests._support.planted_store import MACHINE, begun, cell

NOW = dataclasses.replace(MACHINE, family=25, model=17, stepping=1, packages={"numpy": "3"})
OTHER = dataclasses.replace(NOW, l1d=MACHINE.l1d + 1)


def record(root, slug, machine, preset="quick"):
    folder = Store(root / slug / preset)
    folder.append(begun(machine=machine.key))
    folder.append(cell(machine=machine.key), machine=machine)
    return folder


def test_a_machine_without_results_gets_a_folder_with_family_and_model(tmp_path):
    assert slug_of(tmp_path, NOW) == "planted-family-25-model-17-2-cores"
    assert slug_of(tmp_path, MACHINE) == "planted-2-cores"


def test_results_from_before_family_and_model_were_known_keep_their_folder(tmp_path):
    record(tmp_path, "planted-2-cores", MACHINE)
    assert slug_of(tmp_path, NOW) == "planted-2-cores"
    record(tmp_path, slug_of(tmp_path, NOW), NOW)  # the next run goes there too, and is the latest
    assert slug_of(tmp_path, NOW) == "planted-2-cores"
    assert len(list(Store(tmp_path / "planted-2-cores" / "quick").every_cell("ladder"))) == 1


def test_other_hardware_of_the_same_name_gets_another_folder_and_both_are_read(tmp_path):
    record(tmp_path, "planted-2-cores", MACHINE)
    slug = slug_of(tmp_path, OTHER)
    assert slug == "planted-family-25-model-17-2-cores"
    record(tmp_path, slug, OTHER)
    assert store.machines(tmp_path) == sorted(["planted-2-cores", slug])
    assert Store(tmp_path / slug / "quick").machine() == OTHER


def test_a_folder_that_is_now_of_known_family_is_not_taken_by_another(tmp_path):
    record(tmp_path, "planted-2-cores", NOW)
    newer = dataclasses.replace(NOW, family=26, model=2)
    assert slug_of(tmp_path, newer) == "planted-family-26-model-2-2-cores"


@pytest.mark.parametrize("other", ["smoke", "full"])
def test_every_preset_of_the_folder_has_to_be_of_this_hardware(tmp_path, other):
    record(tmp_path, "planted-2-cores", MACHINE)
    record(tmp_path, "planted-2-cores", OTHER, other)
    assert slug_of(tmp_path, NOW) == "planted-family-25-model-17-2-cores"


@pytest.mark.parametrize("preset", ["quick", "calibration"])
def test_another_host_of_the_same_model_gets_a_folder_of_its_own_and_stays_there(tmp_path, preset):
    one, two = (dataclasses.replace(NOW, host=host) for host in ("0123456789ab", "456789abcdef"))
    assert one.key == two.key
    record(tmp_path, slug_of(tmp_path, one), one, preset)
    record(tmp_path, slug_of(tmp_path, two), two, preset)
    assert [slug_of(tmp_path, one), slug_of(tmp_path, two)] == [one.slug, f"{one.slug}-4567"]
    found = {path.name: Store(path / preset).machine().host for path in tmp_path.iterdir()}
    assert found == {one.slug: one.host, f"{one.slug}-4567": two.host}


def test_results_from_before_hosts_were_recorded_are_of_the_first_that_goes_on(tmp_path):
    one, two = (dataclasses.replace(NOW, host=host) for host in ("0123456789ab", "456789abcdef"))
    record(tmp_path, NOW.slug, NOW)
    assert slug_of(tmp_path, one) == slug_of(tmp_path, two) == NOW.slug
    record(tmp_path, slug_of(tmp_path, one), one)
    assert (slug_of(tmp_path, one), slug_of(tmp_path, two)) == (NOW.slug, f"{NOW.slug}-4567")


def test_the_folder_is_taken_as_soon_as_a_run_begins(tmp_path):
    folder, one = Store(tmp_path / NOW.slug / "quick"), dataclasses.replace(NOW, host="0123456789ab")
    folder.append(begun(machine=one.key), machine=one)
    assert slug_of(tmp_path, dataclasses.replace(NOW, host="456789abcdef")) == f"{NOW.slug}-4567"
