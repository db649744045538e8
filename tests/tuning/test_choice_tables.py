"""Tables of measured orders: classes, nearest sizes, the user's own before the shipped one, and broken files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from harness import registry
from harness.dtypes import named_dtype
from harness.machine import VERSION, detect
from harness.problem import Problem
from harness.tuning import stored
from harness.tuning.choice import orders
from harness.tuning.choice.classes import Sizes, class_of, is_aligned
from harness.tuning.choice.contenders import is_contender

CLASS = "plus_times float64 whole rows, one thread"
STATIC = ("cpu-simd", "cpu-mixed")


def table(**times: int) -> orders.Table:
    """Return a table of one entry: products of 64 x 64 x 64."""
    named = {name.replace("_", "-"): value for name, value in times.items()}
    return orders.Table({CLASS: {Sizes(64, 64, 64): named}})


def first(tables: list[orders.Table], sizes: tuple[int, int, int] = (64, 64, 64)) -> tuple[str, ...]:
    return orders.order(tuple(tables), CLASS, Sizes(*sizes), STATIC)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the file of the user's own table, which does not exist yet."""
    monkeypatch.setenv(stored.VARIABLE, str(tmp_path))
    monkeypatch.setattr(orders, "_known", {})
    return tmp_path / f"{orders.AutoOwner(detect()).key}.json"


def record(**changed: object) -> str:
    values = {f"{CLASS}: 64x64x64": {"cpu-simd": 1200, "cpu-numpy": 1000}}
    key = orders.AutoOwner(detect()).key
    return json.dumps({"format": 1, "date": "2026", "key": key, "version": VERSION, "values": values, **changed})


def test_a_backend_that_fails_to_say_how_it_computes_is_no_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = registry.find("cpu-simd")
    assert is_contender(backend, Problem(8, 8, 8))
    for name in ("keeps_arithmetic", "loosens"):
        with monkeypatch.context() as patch:
            patch.setattr(type(backend), name, lambda self, problem: 1 / 0)
            assert not is_contender(backend, Problem(8, 8, 8))


class TestClasses:
    def test_say_form_semiring_dtype_rows_and_threads(self) -> None:
        whole, half = Problem(64, 64, 64), np.dtype(np.float32)
        mixed = Problem(8, 8, 8, "plus_times", half, operand_dtype=np.dtype(np.float16))
        assert class_of(whole, 1) == CLASS
        assert class_of(Problem(64, 63, 64), None) == "plus_times float64 ragged rows"
        assert class_of(Problem(1, 64, 64), 4) == "vector plus_times float64 whole rows, several threads"
        assert class_of(Problem(64, 64, 64, batch=(3, 2)), None) == "batch plus_times float64 whole rows"
        assert class_of(Problem(64, 64, 64, triangle="d"), None) == "triangle plus_times float64 whole rows"
        assert class_of(Problem(64, 64, 64, "max_times", half), None) == "min_plus float32 whole rows"
        assert class_of(Problem(64, 64, 64, "lor_land", np.dtype(bool)), None) == "lor_land bool whole rows"
        assert class_of(mixed, None) == "plus_times bfloat16 to float32 whole rows"

    def test_rows_are_whole_if_all_begin_at_multiples_of_16_bytes(self) -> None:
        narrow = named_dtype("int8")
        assert is_aligned(Problem(3, 2, 2))
        assert not is_aligned(Problem(3, 2, 3))
        assert not is_aligned(Problem(3, 8, 16, "plus_times", np.dtype(np.int32), operand_dtype=narrow))

    def test_sizes_are_read_as_they_are_written(self) -> None:
        for sizes in (Sizes(1, 20, 300), Sizes(4, 5, 6, 700)):
            assert Sizes.read(str(sizes)) == sizes
        with pytest.raises(ValueError, match="are no sizes"):
            Sizes.read("64x64")


class TestOrder:
    def test_is_that_of_the_nearest_sizes_within_a_factor_of_four(self) -> None:
        two = orders.Table({CLASS: {Sizes(64, 64, 64): {"cpu-numpy": 1000}, Sizes(512, 512, 512): {"cpu-simd": 1000}}})
        assert first([two], (100, 100, 100)) == ("cpu-numpy",)
        assert first([two], (300, 300, 300)) == ("cpu-simd",)
        assert first([two], (64, 64, 1024)) == ()
        assert orders.order((two,), "another class", Sizes(64, 64, 64), STATIC) == ()

    def test_hears_several_sizes_and_the_nearer_ones_more(self) -> None:
        one, other = {"one": 1000, "other": 1100}, {"one": 1500, "other": 1000, "rare": 1200}
        at = {Sizes(64, 64, 64): one, Sizes(64, 64, 128): other, Sizes(64, 64, 256): other}
        found = orders.Table({CLASS: at})
        assert first([found], (64, 64, 64)) == ("one", "other")  # by 4 for 1/4 and 1/8
        assert first([found], (64, 64, 90)) == ("other", "one")  # as far from the first as from the second
        assert first([found], (64, 64, 200))[:2] == ("other", "rare")

    def test_what_is_first_at_all_sizes_near_is_first_between_them(self) -> None:
        at = {Sizes(64, 64, 64): {"cpu-simd": 1025, "x": 1000}, Sizes(64, 64, 128): {"cpu-simd": 1029, "y": 1000}}
        at[Sizes(64, 64, 200)] = {"cpu-simd": 1000, "x": 1300, "y": 1300}
        assert first([orders.Table({CLASS: at})], (64, 64, 100))[0] == "cpu-simd"
        assert list(orders.sizes_of_others((orders.Table({CLASS: at}),), [CLASS], "cpu-simd", STATIC)) == []
        at[Sizes(64, 64, 200)] = {"cpu-simd": 1031, "x": 1000}
        assert list(orders.sizes_of_others((orders.Table({CLASS: at}),), [CLASS], "cpu-simd", STATIC)) != []

    def test_loses_little_at_sizes_that_are_left_out_of_the_shipped_table(self) -> None:
        lost = []
        for of_class, entries in orders.shipped_table("gpu-sm_90").entries.items():
            for sizes, times in list(entries.items())[::7]:
                others = {other: x for other, x in entries.items() if other.steps() != sizes.steps()}
                found = orders.order((orders.Table({of_class: others}),), of_class, sizes, ())
                lost += [times[found[0]] / min(times.values())] if found and found[0] in times else []
        assert len(lost) > 300
        assert np.exp(np.mean(np.log(lost))) < 1.03
        assert np.mean(np.array(lost) > 1.1) < 0.08

    def test_a_side_longer_than_all_measured_counts_as_the_longest_if_that_is_long(self) -> None:
        at = {Sizes(16384, 64, 64): {"cpu-numpy": 1000}, Sizes(64, 64, 64): {"cpu-simd": 1000}}
        assert first([orders.Table({CLASS: at})], (1_000_000, 64, 64)) == ("cpu-numpy",)
        few = {Sizes(512, 64, 64): {"cpu-numpy": 1000}}
        assert first([orders.Table({CLASS: few})], (1_000_000, 64, 64)) == ()

    def test_keeps_the_static_first_choice_unless_another_is_faster_beyond_doubt(self) -> None:
        assert first([table(cpu_numpy=1000, cpu_simd=1020, other=1010)]) == ("cpu-simd", "cpu-numpy", "other")
        assert first([table(cpu_numpy=1000, cpu_simd=1040)]) == ("cpu-numpy", "cpu-simd")

    def test_is_the_first_table_that_knows_the_product(self) -> None:
        assert first([table(mine=1000), table(shipped=1000)]) == ("mine",)
        assert first([orders.Table(), table(shipped=1000)]) == ("shipped",)


class TestFiles:
    def test_the_users_own_comes_first_with_its_source(self, own: Path) -> None:
        own.write_text(record())
        found, *_ = orders.tables_of(detect())
        assert found.near(CLASS, Sizes(70, 60, 64))[0] == {"cpu-simd": 1200, "cpu-numpy": 1000}
        assert found.provenance == f"measured here 2026, in {own}"

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("{", "Expecting property name"),
            (record(format=7), "no table of format"),
            (record(version="0.0"), "measured with version 0.0"),
            (record(values={"what": {"cpu-simd": 1}}), "is no class of products with its sizes"),
            (record(values={f"{CLASS}: 64": {"cpu-simd": 1}}), "'64' are no sizes"),
            (record(values={f"{CLASS}: 64x64x64": {"cpu-simd": "fast"}}), "is no legal value"),
        ],
    )
    def test_a_broken_one_is_warned_of_once_and_counts_as_absent(self, own: Path, text: str, reason: str) -> None:
        own.write_text(text)
        with pytest.warns(UserWarning, match=f"auto.*{own.name} is ignored: .*{reason}"):
            tables = orders.tables_of(detect())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert orders.tables_of(detect()) is tables
        assert not any(table.provenance.startswith("measured here") for table in tables)

    def test_none_is_no_reason_to_warn(self, own: Path) -> None:
        assert not own.exists()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            orders.tables_of(detect())

    def test_one_that_may_not_be_looked_at_is_no_reason_to_warn(
        self, own: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(stored.VARIABLE, str(own / ("x" * 300)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            orders.tables_of(detect())

    def test_every_shipped_table_is_read_and_names_its_source(self) -> None:
        for path in orders.SHIPPED.glob("*.json"):
            shipped = orders.shipped_table(path.stem)
            assert shipped.entries
            assert "commit" in shipped.provenance
        assert orders.shipped_table("gpu-sm_10").entries == {}
