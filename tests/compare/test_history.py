"""Change points: known steps are found, noise is none; the page of a machine shows every run's ratios."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re

import numpy as np
import pytest

from harness.compare import history, history_page
from harness.compare.revisions import REVISIONS
from harness.errors import StoreError
from harness.experiment import content_hash
from harness.stats import changepoints
from harness.store.store import Store
from tests._support.planted_store import cell
from tests._support.synthetic import MACHINE

NOISES = {
    "normal": lambda rng, count: rng.normal(size=count),
    "heavy tails": lambda rng, count: rng.standard_t(2, size=count),
    "two states": lambda rng, count: (rng.random(count) < 0.3) + 0.01 * rng.normal(size=count),
    "few values": lambda rng, count: rng.integers(0, 3, size=count).astype(float),
}


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("count", [8, 20])
def test_noise_is_no_step_in_95_of_100_series(kind, count):
    rng = np.random.default_rng(5)
    series = [NOISES[kind](rng, count).tolist() for _ in range(120)]
    widths = [rng.lognormal(size=count).tolist() for _ in series]
    assert sum(bool(changepoints.steps(*pair)) for pair in zip(series, widths, strict=True)) <= 6


@pytest.mark.parametrize("cuts", [(4,), (10,), (10, 25), (8, 20, 32)])
def test_known_steps_are_found_where_they_are(cuts):
    rng = np.random.default_rng(6)
    length = 8 if cuts == (4,) else 40
    levels = np.zeros(length)
    for index, cut in enumerate(cuts):
        levels[cut:] = 3.0 * (-1) ** index
    found = changepoints.steps((levels + 0.3 * rng.normal(size=length)).tolist())
    assert [step.start for step in found] == list(cuts)
    for step in found:
        assert step.before == pytest.approx(levels[step.start - 1], abs=0.5)
        assert step.after == pytest.approx(levels[step.start], abs=0.5)


def test_an_outlier_is_no_step():
    values = [0.0, 0.1, -0.1, 0.05, 50.0, 0.0, 0.1, -0.05, 0.02, 0.07]
    assert changepoints.steps(values) == []


@pytest.mark.parametrize("count", range(changepoints.FEWEST_POINTS))
def test_too_few_points_show_nothing(count):
    values = [0.0] * (count // 2) + [1.0] * (count - count // 2)
    assert changepoints.largest_change(values) is None
    assert changepoints.steps(values, [0.1] * count) == []


def test_equal_points_show_nothing():
    assert changepoints.steps([1.0] * 12, [0.0] * 12) == []


def test_a_small_difference_is_no_step():
    values = [0.001 * (index >= 10) for index in range(20)]
    assert len(changepoints.steps(values)) == 1
    assert changepoints.steps(values, minimum=0.01) == []


def test_badly_known_points_count_less():
    """The same values: the three that make the step are noise if their intervals are wide."""
    values = [0.01 * (index % 3) for index in range(17)] + [0.5, 0.6, 0.7]
    sure, unsure = [0.01] * 20, [0.01] * 17 + [1.0] * 3
    p_values = [changepoints.largest_change(values, widths).p_value for widths in (sure, unsure)]
    assert p_values[0] < p_values[1]


# ------------------------------------------------------------------------------------------------------- the page


def record(run, contender, samples_ns, *, n=64, commit="abc", machine=MACHINE):
    problem = {"m": n, "n": n, "k": n, "semiring": "plus_times", "dtype": "float64"}
    case = content_hash([n, "case"])
    return cell(
        contender,
        n,
        experiment="sizes",
        case=case,
        axes=problem,
        arguments={"backend": contender},
        reference="cpu-naive",
        samples_ns=[samples_ns],
        facts={"operations": 2 * n**3, "problem": problem},
        machine=machine.key,
        key=content_hash([case, contender]),
        run=run,
        time=f"2026-01-{int(run[6:8]):02d}T00:00:00+00:00",
        commit=commit,
    )


@pytest.fixture
def results(tmp_path):
    """Return results of 14 runs of two sizes: from run 8 on cpu-simd is 30 % slower, and the machine drifts."""
    rng = np.random.default_rng(7)
    newer = dataclasses.replace(MACHINE, packages={"numpy": "3.0"})
    store = Store(tmp_path / MACHINE.slug / "quick")
    for index in range(14):
        run = f"202601{index + 1:02d}T000000.000000Z"
        machine = newer if index >= 8 else MACHINE
        drift = 1.0 + rng.random()
        store.append({"kind": "run", "run": run, "machine": machine.key, "time": "", "experiments": ["sizes"]})
        for n in (64, 128):
            naive = 1000.0 * drift * (1 + 0.01 * rng.normal(size=10))
            simd = naive * 0.1 * (1.3 if index >= 8 else 1.0) * (1 + 0.01 * rng.normal(size=10))
            steady = naive * 0.5 * (1 + 0.01 * rng.normal(size=10))
            times = {"cpu-naive": naive, "cpu-simd": simd, "cpu-packed": steady}
            options = {"n": n, "commit": f"{index:012x}", "machine": machine}
            cells = [record(run, name, samples.tolist(), **options) for name, samples in times.items()]
            store.append(*cells, machine=machine)
        store.append({"kind": "done", "run": run, "time": "", "experiments": ["sizes"]})
    return tmp_path


def test_every_run_is_a_point_of_its_series(results):
    series = history.collect(results, MACHINE.slug)
    assert {(own.contender, own.specimen.axes["n"]) for own in series} == set(
        itertools.product(["cpu-simd", "cpu-packed"], [64, 128])
    )
    for own in series:
        assert [point.commit for point in own.points] == [f"{index:012x}" for index in range(14)]
        assert own.specimen.samples_ns == []  # all samples of all runs at once would not fit into memory
        usual = 0.1 if own.contender == "cpu-simd" else 0.5
        assert all(point.ratio.estimate == pytest.approx(usual, rel=0.05) for point in own.points[:8])


def test_a_summary_is_the_geometric_mean_over_the_cells(results):
    series = [own for own in history.collect(results, MACHINE.slug) if own.contender == "cpu-simd"]
    (total,) = history.summaries(series)
    first = [own.points[0].ratio for own in series]
    assert total.points[0].ratio.estimate == pytest.approx(math.sqrt(first[0].estimate * first[1].estimate))
    assert len(total.points) == 14
    assert total.points[0].ratio.high / total.points[0].ratio.low < max(r.high / r.low for r in first)


def test_a_place_that_most_runs_lack_is_not_in_the_summary(results):
    store = Store(results / MACHINE.slug / "quick")
    run = "20260114T000000.000000Z"
    store.append(record(run, "cpu-naive", [1000.0] * 8, n=9), record(run, "cpu-simd", [1.0] * 8, n=9), machine=MACHINE)
    (total,) = history.summaries(own for own in history.collect(results, MACHINE.slug) if own.contender == "cpu-simd")
    assert total.where == "geometric mean of 2 cells"
    assert total.points[-1].ratio.estimate > 0.1


def test_a_summary_of_places_without_a_common_run_is_that_of_most_places_or_of_the_last_run(results, tmp_path):
    results, store = tmp_path / "others", Store(tmp_path / "others" / MACHINE.slug / "quick")
    days_of = {64: (1, 2), 128: (1, 2), 63: (3, 4), 127: (3, 4), 129: (3, 4), 256: (5, 6)}  # of each size
    for n, days in days_of.items():
        for day in days:
            run = f"202601{day:02d}T000000.000000Z"
            store.append(
                *(record(run, name, [float(n)] * 8, n=n) for name in ("cpu-naive", "cpu-simd")), machine=MACHINE
            )
    (total,) = history.summaries(history.collect(results, MACHINE.slug))
    assert (total.where, [point.run[7] for point in total.points]) == ("geometric mean of 3 cells", ["3", "4"])
    few = [one for one in history.collect(results, MACHINE.slug) if one.specimen.axes["n"] in {64, 256}]
    (total,) = history.summaries(few)
    assert [point.run[7] for point in total.points] == ["5", "6"]
    assert "geometric mean of 3 cells" in history_page.write(results, tmp_path, MACHINE.slug, MACHINE)[0].read_text()


def test_the_page_names_the_run_where_the_level_changed_and_whether_the_machine_did(results, tmp_path):
    page, changes = history_page.write(results, tmp_path / "figures", MACHINE.slug, MACHINE)
    text = page.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| 2026-")]
    assert changes == len(rows) == 3  # two cells and their mean
    for row in rows:
        assert row.startswith("| 2026-01-09 | 000000000008 | sizes (quick) |")
        assert "cpu-simd" in row
        assert "machine changed too" in row
        assert float(re.search(r"\| \+([\d.]+) % \|", row)[1]) == pytest.approx(30, abs=3)
    (figure,) = re.findall(r"!\[sizes \(quick\)\]\((.+)\)", text)
    assert (page.parent / figure).exists()


def test_the_same_results_make_the_same_page_and_figure(results, tmp_path):
    first, second = ((tmp_path / name) for name in ("a", "b"))
    texts = [
        history_page.write(results, folder, MACHINE.slug, MACHINE)[0].read_text().replace(f"{folder.name}/", "/")
        for folder in (first, second)
    ]
    assert texts[0] == texts[1]
    (drawn,) = first.glob("*.svg")
    assert drawn.read_bytes() == (second / drawn.name).read_bytes()


def test_steps_are_corrected_for_the_number_of_series():
    """A step that is believed alone is not, as the best of a hundred series of noise."""
    values = [0.0, 0.1, 0.05, 0.02, 1.0, 1.1, 1.05, 1.02]
    rng = np.random.default_rng(8)

    def series(logs):
        points = [
            history.HistoryPoint(str(index), "", "", "", history.Interval(*[math.exp(value)] * 3))
            for index, value in enumerate(logs)
        ]
        return history.Series("e", "quick", "", "c", "r", None, points)

    alone, many = [series(values)], [series(values), *(series(rng.normal(size=8)) for _ in range(100))]
    history.find_steps(alone)
    history.find_steps(many)
    assert [step.start for step in alone[0].steps] == [4]
    assert sum(len(own.steps) for own in many) == 0


def test_revisions_compared_are_on_the_page_even_if_nothing_else_is(tmp_path):
    store = Store(tmp_path / MACHINE.slug / REVISIONS)
    axes = {"m": 64, "n": 64, "k": 64, "dtype": "float32", "semiring": "min_plus", "threads": 1}
    for backend, factor in (("cpu-simd", 1.21), ("cpu-naive", 1.0)):
        where = {**axes, "backend": backend, "base": "aaa", "head": "bbb-dirty"}
        own = {"experiment": REVISIONS, "case": content_hash(where), "axes": where, "reference": "base"}
        samples = {"base": [100.0 + i % 3 for i in range(20)], "head": [factor * (100 + i % 3) for i in range(20)]}
        run = "20260203T000000.000000Z"
        cells = [{**record(run, label, ns), **own, "samples_ns": [ns] * 4} for label, ns in samples.items()]
        store.append(*cells, machine=MACHINE)
    ((slug, machine),) = history_page.machines(tmp_path)
    page, _ = history_page.write(tmp_path, tmp_path / "figures", slug, machine)
    row = "| 2026-01-03 | aaa | bbb-dirty | 1 | 0 | 1 | 0 | cpu-simd min_plus float32 64x64x64 1.21 |"
    assert row in page.read_text()


def test_without_results_there_is_no_history(tmp_path):
    with pytest.raises(StoreError, match="no results"):
        list(history_page.machines(tmp_path))
