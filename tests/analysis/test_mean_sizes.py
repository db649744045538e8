"""A ladder at several sizes as one: the geometric mean of its times, whose steps multiply to the whole."""

import dataclasses
import itertools
import math
import random

import pytest

from harness.analysis import answers, mean_sizes, rates
from harness.catalogue import load_all
from harness.report import tables
from harness.report.figures.rows import table_of_rows
from tests._support import synthetic
from tests._support.synthetic import cells

LADDER = load_all()["ladder"]
SIZES = (300, 500, 800)
SPEEDS = {"cpu-naive": 1.0, "cpu-transposed": 4.0, "cpu-tiled reuse=1": 6.0, "cpu-packed": 20.0, "cpu-simd": 31.0}


def at(n, speeds=SPEEDS, **where):
    return synthetic.at_rates(LADDER, speeds, n=n, role="product", **{"semiring": "plus_times", **where})


def scattered(seed=1):
    """Return the cells of the ladder with times that scatter by a third, each by itself."""
    noise = random.Random(seed)
    return [
        dataclasses.replace(cell, samples_ns=[[ns * noise.uniform(0.8, 1.25) for ns in cell.samples_ns[0]]])
        for cell in cells(LADDER)
    ]


def test_a_rate_over_sizes_is_the_geometric_mean_of_those_at_each():
    own = [cell for n, gain in zip(SIZES, (1.0, 2.0, 4.0), strict=True) for cell in at(n, {"cpu-naive": gain})]
    (one,) = mean_sizes.merged(own)
    assert one.rate == pytest.approx(2.0)
    assert one.median_ns == pytest.approx(math.prod(cell.median_ns for cell in own) ** (1 / 3))
    assert [rates.axis(one, side) for side in "mnk"] == ["300-800"] * 3
    assert rates.axis(one, "semiring") == "plus_times"
    assert rates.size(one) == "n=300-800"


def test_samples_of_one_round_stay_pairs():
    """A disturbance that reached both of a pair is not in their ratio, whatever it was at each size."""
    noise, own = random.Random(2), []
    for n, gain in zip(SIZES, (2.0, 4.0, 8.0), strict=True):
        shared = [noise.uniform(1.0, 3.0) for _ in range(synthetic.SAMPLES)]
        for cell in at(n, {"cpu-naive": 1.0, "cpu-simd": gain}):
            times = [ns * by for ns, by in zip(cell.samples_ns[0], shared, strict=True)]
            own += [dataclasses.replace(cell, samples_ns=[times])]
    naive, simd = mean_sizes.merged(own)
    assert rates.in_turns(naive, simd)
    assert rates.reference_of(simd, [naive, simd]) is naive
    assert rates.speed_up(simd, naive) == pytest.approx((4.0, 4.0, 4.0))
    assert rates.step(simd, naive) == pytest.approx((4.0, 4.0, 4.0))


def test_samples_that_a_size_has_beyond_those_of_another_are_left_out():
    few, more = at(500, {"cpu-naive": 1.0, "cpu-simd": 2.0}), at(300, {"cpu-naive": 1.0, "cpu-simd": 2.0})
    own = [*(dataclasses.replace(c, samples_ns=[c.samples_ns[0][:5]]) for c in few), *more]
    assert [len(cell.all_samples_ns) for cell in mean_sizes.merged(own)] == [5, 5]
    processes = [dataclasses.replace(c, samples_ns=[*c.samples_ns, *c.samples_ns]) for c in own]
    assert [list(map(len, cell.samples_ns)) for cell in mean_sizes.merged(processes)] == [[5, 5]] * 2


def test_a_contender_without_a_time_at_one_size_is_left_out():
    own = [cell for n in SIZES for cell in at(n)]
    assert [cell.contender for cell in mean_sizes.merged(own)] == list(SPEEDS)
    (gone,) = [cell for cell in own if (cell.contender, rates.axis(cell, "n")) == ("cpu-packed", 500)]
    missing = [cell for cell in own if cell is not gone]
    failed = [dataclasses.replace(c, status="failed", samples_ns=[]) if c is gone else c for c in own]
    for some in (missing, failed):
        assert [c.contender for c in mean_sizes.merged(some) if c.is_ok] == [x for x in SPEEDS if x != "cpu-packed"]


def test_one_size_alone_stays_as_it_is():
    own = [*at(500), *at(500, {"cpu-naive": 1.0}, semiring="min_plus")]
    assert mean_sizes.merged(own) == own
    assert mean_sizes.merged([]) == []


def test_semirings_stay_apart():
    own = [cell for n in SIZES for name in ("plus_times", "min_plus") for cell in at(n, semiring=name)]
    found = mean_sizes.merged(own)
    assert [rates.axis(cell, "semiring") for cell in found] == [
        *["plus_times"] * len(SPEEDS),
        *["min_plus"] * len(SPEEDS),
    ]
    assert len({cell.case for cell in found}) == 2
    alone = mean_sizes.merged([cell for cell in own if rates.axis(cell, "semiring") == "min_plus"])
    assert alone == found[len(SPEEDS) :]


def test_a_size_that_was_measured_again_is_still_one_of_them():
    """As by `run --where n=800`, which replaces nothing that it did not measure."""
    own = [cell for n in SIZES for cell in at(n)]
    again = [dataclasses.replace(c, run="20260102T000000") if rates.axis(c, "n") == SIZES[-1] else c for c in own]
    found = mean_sizes.merged(again)
    assert [cell.contender for cell in found] == list(SPEEDS)
    assert {rates.axis(cell, "n") for cell in found} == {"300-800"}
    assert all(rates.in_turns(cell, found[0]) for cell in found), "a size has its own pairs"


def test_the_figure_of_the_ladder_shows_means_and_not_the_lesson():
    of = answers.shown(LADDER.figures[0], "ladder", cells(LADDER)).cells
    shown = rates.contenders(of)
    assert {rates.axis(cell, "n") for cell in shown} == {f"{SIZES[0]}-{SIZES[-1]}"}
    assert {rates.axis(cell, "role") for cell in shown} == {"product"}
    assert any(map(rates.is_peak, of))


def printed(rows, below, over):
    """Return the product of the printed steps up to each rung that has one, and the printed total there."""
    product, found = 1.0, []
    for row in rows:
        if row[below]:
            product *= float(row[below].split()[0])
            found.append((product, float(row[over].split()[0])))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_printed_steps_multiply_to_the_printed_total(seed):
    own = scattered(seed)
    _, headline = tables.headline(LADDER, own)
    for _, rows in itertools.groupby(headline, key=lambda row: row[0]):
        found = printed(rows, -2, -1)
        assert len(found) == len(SPEEDS)  # cpu-tiled stands in two forms, and the first rung has no step
        assert all(0.98 < product / total < 1.02 for product, total in found)
    figure = LADDER.figures[0]
    shown = answers.shown(figure, "ladder", own).cells
    for group in rates.group(rates.contenders(shown), lambda cell: cell.case).values():
        heads, rows = table_of_rows(group, shown, figure.options)
        found = printed(rows, heads.index("over step below"), heads.index("over naive"))
        assert len(found) == len(SPEEDS)
        assert all(0.98 < product / total < 1.02 for product, total in found)
    columns = tables.table_columns(LADDER, tables.rows_of(LADDER, own))
    heads = ["case", "speed over step below", "speed over reference"]
    of_sizes = list(zip(*(columns[head] for head in heads), strict=True))
    cases = [list(rows) for _, rows in itertools.groupby(of_sizes, key=lambda row: row[0])]
    assert len(cases) > len(SIZES)
    for rows in cases:
        assert all(0.98 < product / total < 1.02 for product, total in printed(rows, 1, 2))


def test_a_step_is_as_uncertain_as_the_ratio_of_its_pairs():
    own = [cell for cell in scattered() if rates.axis(cell, "role") == "product"][:2]
    paired, step = rates.speed_up(own[1], own[0]), rates.step(own[1], own[0])
    assert step.estimate == pytest.approx(own[1].rate / own[0].rate)
    assert step.high / step.low == pytest.approx(paired.high / paired.low)
