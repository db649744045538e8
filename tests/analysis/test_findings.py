"""Findings as data: the numbers are those of the cells that a figure shows, and what is compared is told."""

import dataclasses

import pytest

from harness.analysis import answers, caveats, rates
from harness.analysis.findings import FINDINGS, libraries
from harness.catalogue import load_all
from tests._support import synthetic
from tests._support.findings import found, numbers, of_figure
from tests._support.synthetic import cells

EXPERIMENTS = load_all()
CASE = {"preset": "full", "shared_by": "one thread", "semiring": "plus_times", "dtype": "float64"}


def at_rates(name, rates, **where):
    return synthetic.at_rates(EXPERIMENTS[name], rates, **where)


def test_the_fastest_peer_of_each_case_counts_and_who_it_is_mostly():
    small = at_rates("vs_peers", {"cpu-simd": 40.0, "cpu-numpy": 10.0, "cpu-scipy": 20.0}, n=257, **CASE)
    large = at_rates("vs_peers", {"cpu-simd": 40.0, "cpu-numpy": 80.0}, n=1025, **CASE)
    both = found("speed", [*small, *large], subject="cpu-simd", over="library")
    assert (numbers(both.values), both.slower, both.over) == ([2.0, 0.5], 1, "the fastest library")
    assert [rival.contender for _, rival in both.judged] == ["cpu-scipy", "cpu-numpy"]
    told = [dataclasses.replace(c, facts={**c.facts, "kernels": "wide"}) for c in [*small[:2], *large]]
    assert found("speed", told, subject="cpu-simd", over="library").over == "NumPy with wide kernels"
    slow = dataclasses.replace(small[2], contender="cpu-mkl", arguments={"backend": "cpu-mkl"}, samples_ns=[[1e9] * 8])
    several = found("speed", [*told, slow], subject="cpu-simd", over="library")
    assert several.over == "the fastest library, here NumPy with wide kernels"
    assert found("speed", small[:1], subject="cpu-simd", over="library") is None


def test_the_best_configuration_of_each_library_counts_and_what_is_installed_is_noted():
    own = {"cpu-simd": 40.0, "cpu-numpy": 20.0, "cpu-scipy": 32.0}
    plain = [cell for n in (257, 1025) for cell in at_rates("vs_peers", own, n=n, **CASE)]
    told = [
        dataclasses.replace(c, record={**c.record, "environment": {"CORE": "x"}}) if c.contender == "cpu-scipy" else c
        for c in plain
    ]
    best = found("speed", told, subject="cpu-simd", over="library")
    assert (numbers(best.values), best.note[:5]) == ([1.25, 1.25], "2.00 ")
    assert found("speed", plain, subject="cpu-simd", over="library").note == ""


def test_without_a_subject_it_is_the_best_kernel_of_ours_and_others_stand_beside():
    own = at_rates("size_sweep", {"cpu-numpy": 10.0, "cpu-simd": 8.0, "cpu-packed": 5.0}, n=64)
    larger = at_rates("size_sweep", {"cpu-numpy": 10.0, "cpu-simd": 9.0, "cpu-packed": 125.0}, n=128)
    speed = found("speed", [*own, *larger])
    assert (speed.subject, speed.over, numbers(speed.values)) == ("cpu-packed", "cpu-numpy", [0.5, 12.5])
    assert {name: numbers(values) for name, values in speed.others.items()} == {"cpu-simd": [0.8, 0.9]}
    least = found("time", own, pick="least", reference_words="the base")
    assert (least.subject, least.over, numbers(least.values)) == ("cpu-simd", "the base", [1.25])
    by_libraries = [dataclasses.replace(cell, facts={**cell.facts, "project": "MKL"}) for cell in own]
    assert found("speed", by_libraries[:2]).subject == "cpu-simd", "where there is no other"


def test_time_by_backend_names_the_order_as_a_place():
    orders = {"NN: all by rows": 10.0, "TN: A by columns": 8.0, "NT: B by columns": 10.0}
    time = of_figure(EXPERIMENTS["cpu_layout"], "cpu_layout", at_rates("cpu_layout", orders, backend="cpu-simd"))
    assert (time.subject, numbers(time.values)) == ("cpu-simd", [1.25, 1.0])
    assert time.values[0].place == "TN: A by columns"


@pytest.mark.parametrize(("name", "fact"), [("error", "greatest_error"), ("residual", "residual")])
def test_errors_are_those_over_the_reference(name, fact):
    own = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 1.0, "cpu-packed": 1.0}, n=64)
    told = [
        dataclasses.replace(c, facts={**c.facts, fact: worth}) for c, worth in zip(own, (1e-9, 7e-9, 2e-9), strict=True)
    ]
    error = found(name, told)
    assert (error.subject, numbers(error.values), numbers(error.others["cpu-packed"])) == ("cpu-simd", [7.0], [2.0])
    assert found(name, own) is None, "older results have no errors"


def test_a_ladder_tells_its_share_by_panel_and_its_gain_over_the_lowest_rung_or_the_library():
    rates_of = {"cpu-naive": 1.0, "cpu-packed": 10.0, "cpu-simd": 40.0, "cpu-numpy": 400.0}
    rungs = at_rates("ladder", rates_of, n=800, semiring="plus_times", dtype="float64")
    peak = [cell for cell in cells(EXPERIMENTS["ladder"]) if cell.axes.get("role") == "peak"]
    ladder = found("ladder", [*rungs, *peak], subject="cpu-simd", panels="semiring")
    assert [value.place for value in ladder.values] == ["plus_times"]
    assert 75 < ladder.values[0].number.estimate < 85
    assert (numbers(ladder.others["at"]), ladder.others["at"][0].words) == ([40.0], "40.0 times the speed of cpu-naive")
    alone = found("ladder", [*rungs, *peak], subject="cpu-simd", panels="semiring", over_reference=False)
    assert numbers(alone.others["at"]) == [0.1]


def test_the_best_choice_of_a_panel_is_held_against_the_slowest():
    own = at_rates("ladder", {"cpu-naive": 10.0, "cpu-packed": 40.0, "cpu-simd": 39.0}, n=800, semiring="plus_times")
    best = found("best", own)
    assert (best.subject, best.over, numbers(best.values)) == ("cpu-packed", "cpu-naive", [4.0])
    small = at_rates("ladder", {"cpu-naive": 1.0, "cpu-packed": 9.0}, n=500, semiring="plus_times")
    assert numbers(found("best", [*own, *small], by="n", pick="most").values) == [9.0]


def sweep_of(gain_of, preset="quick"):
    """Return the cells of Strassen's algorithm, each so much faster than its base."""
    own = [cell for cell in cells(EXPERIMENTS["strassen"], preset) if cell.is_ok and cell.axes["dtype"] == "float64"]
    return [
        dataclasses.replace(c, samples_ns=[[1e6 / (1.0 if c.contender == c.reference else gain_of(c))] * 8])
        for c in own
    ]


@pytest.mark.parametrize(
    ("faster", "words"),
    [
        ({1536}, "from n=1536 on"),
        ({1024}, "only up to n=1024"),
        ({1024, 1536}, "from n=1024 on"),
        (set(), "nowhere up to n=1536"),
    ],
)
def test_paying_begins_behind_the_last_size_that_does_not(faster, words):
    own = sweep_of(lambda cell: 1.1 if cell.axes["n"] in faster else 0.9)
    pays = found("pays", [cell for cell in own if cell.threads == 1], panels="setting", words={"1 level": "One level"})
    assert (pays.over, pays.values[0].words) == ("cpu-simd", words)
    assert {value.words for values in pays.others.values() for value in values} == {words}
    assert "One level" in (pays.subject, *pays.others)


def test_of_several_panels_the_first_that_pays_is_told_and_the_others_beside():
    own = sweep_of(lambda c: 1.1 if (c.contender, c.threads) == ("1 level", 1) and c.axes["n"] >= 2048 else 1.0, "full")
    pays = found("pays", own, panels="setting")
    assert (pays.subject, pays.values[0].place, pays.values[0].words) == ("1 level", "1 thread", "from n=2048 on")
    assert pays.others["1 level"][0].words == "nowhere up to n=4096"


def test_who_is_fastest_in_most_cases_is_told_with_its_range_and_ties():
    sure = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 2.0}, n=64)
    level = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 1.001}, n=128)
    few = [dataclasses.replace(c, case="few", samples_ns=[c.samples_ns[0][:2]]) for c in sure]
    lost = at_rates("size_sweep", {"cpu-numpy": 4.0, "cpu-simd": 1.0}, n=512)
    wins = found("fastest", [*sure, *level, *few, *lost])
    assert (wins.subject, wins.values[0].words, wins.others["cpu-numpy"][0].words) == ("cpu-simd", "3 of 4", "1 of 4")
    assert wins.note.startswith("1 of its wins is a tie; cpu-simd is 0.25 (n=512) to 2.00 (n=64")
    times = found("fastest", [*lost, *sure], value="time_ratio", reference_words="the base")
    assert "times as long as" in times.note


def lost_at(rates, few=()):
    """Return cells of two contenders at sizes of whole tiles, 32 and 64, and at 33; those in `few` have two samples."""
    case = {"preset": "full", "semiring": "plus_times"}
    cells_of = [cell for n in (32, 33, 64) for cell in at_rates("size_sweep", rates[n], n=n, **case)]
    return [
        dataclasses.replace(c, samples_ns=[c.samples_ns[0][:2]]) if (c.contender, c.axes["n"]) in few else c
        for c in cells_of
    ]


@pytest.mark.parametrize(
    ("ragged", "few", "loss", "note"),
    [
        ((8.0, 30.0), [("cpu-transposed", 32)], 25.0, "cpu-transposed loses at most "),  # held against n=64 too
        ((48.0, 44.0), [], 0.0, "In the median cpu-simd loses 0.0 %; cpu-transposed loses at most 0 % (n=33)"),
    ],
)
def test_losses_are_those_of_the_figure_and_who_gains_loses_nothing(ragged, few, loss, note):
    whole = {"cpu-transposed": 10.0 if few else 40.0, "cpu-simd": 40.0}
    own = {32: whole, 33: dict(zip(whole, ragged, strict=True)), 64: {"cpu-transposed": 40.0, "cpu-simd": 40.0}}
    losses = found("losses", lost_at(own, few), subject="cpu-simd")
    assert (numbers(losses.values), losses.values[0].place) == ([loss], "n=33")
    assert note in losses.note


def test_losses_at_worst_are_no_less_than_in_the_middle_whatever_few_samples_say():
    regular = [cell for n in (64, 128) for cell in at_rates("size_sweep", {"cpu-simd": 40.0}, n=n)]
    (ragged,) = at_rates("size_sweep", {"cpu-simd": 20.0}, n=65)
    few = [
        dataclasses.replace(ragged, axes={**ragged.axes, "n": n}, samples_ns=[ragged.samples_ns[0][:2]])
        for n in (66, 67)
    ]
    firm = dataclasses.replace(ragged, axes={**ragged.axes, "n": 127}, samples_ns=[[ragged.median_ns / 1.99] * 8])
    losses = found("losses", [*regular, *few, firm], subject="cpu-simd")
    assert (numbers(losses.values), losses.values[0].place) == ([50.0], "n=66"), "the only firm size loses 0.5 %"


@pytest.mark.parametrize("kind", FINDINGS)
def test_of_nothing_nothing_is_said(kind):
    assert found(kind, [], subject="x", x="n", panels="problem", algorithm="y") is None


def test_every_figure_has_a_finding_that_is_silent_without_cells():
    for experiment in EXPERIMENTS.values():
        for figure in experiment.figures:
            assert callable(FINDINGS.get(figure.options["finding"], figure.options["finding"])), figure.name
            assert answers.finding(figure, answers.Shown([], [])) is None, figure.name


def test_the_second_sentence_stands_below_a_title_and_in_pages():
    sizes = (257, 1025)
    own = [c for n in sizes for c in at_rates("vs_peers", {"cpu-simd": n / 257, "cpu-numpy": 1.0}, n=n, **CASE)]
    figure = next(figure for figure in EXPERIMENTS["vs_peers"].figures if figure.name == "vs_peers")
    of = answers.shown(figure, "vs_peers", own)
    title, spread = answers.of_figure(figure, of), answers.range_of_figure(figure, of)
    assert spread
    assert answers.below_title(figure, of) == f"{figure.title}. {spread}"
    assert answers.by_name(EXPERIMENTS["vs_peers"], own)["vs_peers"] == title
    in_full = answers.by_name(EXPERIMENTS["vs_peers"], own, answers.with_range)
    assert in_full["vs_peers"] == f"{title}. {spread}"


OFF = (-0.9, 0.2, 0.7, -0.4, 1.0, -0.1, -0.8, 0.5, 0.3, -0.6)  # of a spread, by sample
OPENBLAS = {"cpu-simd": 40.0, "cpu-numpy": 20.0, "cpu-scipy": 22.0, "cpu-openblas": 21.0}


def test_the_answer_of_an_experiment_is_that_of_its_first_figure_with_one():
    ladder = EXPERIMENTS["ladder"]
    assert answers.of_experiment(ladder, cells(ladder)).startswith("cpu-simd reaches")
    assert answers.of_experiment(ladder, []) == ""
    nothing = dataclasses.replace(ladder, figures=())
    assert answers.of_experiment(nothing, cells(ladder)) == ""


def test_a_figure_of_another_experiment_takes_its_cells_and_peaks_from_elsewhere():
    (error,) = [figure for figure in EXPERIMENTS["dist_projection"].figures if "of" in figure.options]
    own = [*cells(EXPERIMENTS["ladder"]), *cells(EXPERIMENTS["size_sweep"])]
    assert answers.shown(error, "dist_projection", own).cells == []
    (sweep, *_) = EXPERIMENTS["size_sweep"].figures
    shown = answers.shown(sweep, "size_sweep", own)
    assert {cell.experiment for cell in shown.cells} == {"size_sweep"}
    assert {cell.experiment for cell in shown.peaks} == {"ladder"}


def test_of_two_presets_a_panel_shows_the_larger_product_alone():
    (figure,) = EXPERIMENTS["block_size"].figures
    both = [cell for preset in ("quick", "full") for cell in cells(EXPERIMENTS["block_size"], preset)]
    shown = [cell for cell in answers.shown(figure, "block_size", both).cells if not rates.is_roof(cell)]
    assert {cell.preset for cell in shown} == {"full"}
    assert {cell.axes["sweep"] for cell in shown} == {cell.axes["sweep"] for cell in both if "sweep" in cell.axes}


def scaled(mode, efficiency, spread=0.0):
    """Return the cells of a method on one thread and on more, which keep `efficiency`, give or take `spread`."""
    own = [c for c in cells(EXPERIMENTS["thread_scaling"]) if c.axes["mode"] == mode and c.axes["method"] == "cpu-simd"]
    alone = min(cell.threads for cell in own)
    work = {cell.threads: cell.threads if mode == "weak" else 1 for cell in own}
    return [
        dataclasses.replace(
            cell,
            samples_ns=[
                [1e6 * work[cell.threads] / (cell.threads * efficiency) * (1 + spread * off) for off in OFF]
                if cell.threads > alone
                else [1e6] * len(OFF)
            ],
        )
        for cell in own
    ]


@pytest.mark.parametrize(
    ("mode", "efficiency", "spread", "is_known"),
    [
        *(("weak", 1.0, 0.06, True), ("weak", 1.0, 0.3, False), ("weak", 0.5, 0.06, True)),
        *(("strong", 0.25, 0.06, True), ("strong", 0.25, 0.3, False), ("strong", 0.8, 0.06, True)),
    ],
)
def test_a_speed_up_that_differs_or_is_surely_level_is_an_answer(mode, efficiency, spread, is_known):
    own = [cell for cell in scaled(mode, efficiency, spread) if cell.threads in {1, 4}]
    assert bool(caveats.doubts(own)) is not is_known


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((12, 4, 12, 2), " (undecided)"),
        ((7, 6, 12, 10), " (7 of 12 undecided)"),
        ((1, 0, 1, 8), " (undecided)"),
        ((12, 12, 12, 2), " (undecided)"),
        ((7, 7, 12, 5), " (7 of 12 undecided)"),
        ((9, 9, 9, 10), " (undecided)"),
        ((0, 0, 5, 0), ""),
    ],
)
def test_doubt_is_a_mark(counts, words):
    assert caveats.doubt(caveats.Undecided(*counts)) == words
    assert caveats.speaks_of_doubt(f"Ours is faster{words}") == bool(words)
    assert caveats.is_unsettled(f"Ours is faster{words}") == (words == " (undecided)")
    assert not caveats.speaks_of_doubt("Ours is 1.04 times as fast (n=64; 2 samples)")


def with_kernels(told):
    """Return the cells of two sizes, in each one of OpenBLAS told its processor; `told` are kernels by contender."""
    case = {"preset": "full", "semiring": "plus_times", "dtype": "float64", "shared_by": "one thread"}
    sizes = [at_rates("vs_peers", OPENBLAS, n=n, **case) for n in (257, 1025)]
    faster = [[ns * 20 / 23 for ns in size[1].all_samples_ns] for size in sizes]
    told_what = [
        dataclasses.replace(size[1], contender="cpu-openblas as SkylakeX", samples_ns=[samples])
        for size, samples in zip(sizes, faster, strict=True)
    ]
    own = [cell for size, last in zip(sizes, told_what, strict=True) for cell in (*size, last)]
    return [
        dataclasses.replace(
            cell,
            arguments={"backend": cell.contender.partition(" as ")[0]},
            facts={**cell.facts, "kernels": told.get(cell.contender, "")},
            record={**cell.record, "environment": {"CORE": "x"} if " as " in cell.contender else {}},
        )
        for cell in own
    ]


def test_contenders_with_equal_kernels_of_openblas_are_one_with_the_names_of_all():
    every = dict.fromkeys([*OPENBLAS, "cpu-openblas as SkylakeX"], "SkylakeX") | {"cpu-simd": "SkylakeX"}
    merged = libraries.merged(own := with_kernels(every))
    assert [cell.contender for cell in merged] == ["cpu-simd", "cpu-numpy = scipy = openblas"] * 2
    one = merged[1]
    assert one.rate == max(cell.rate for cell in own[1:5]), "the fastest of them"
    assert rates.axis(one, "backend") == "cpu-numpy", "it keeps one colour"
    assert libraries.is_as_installed(one)
    speed = found("speed", merged, subject="cpu-simd", over="library")
    assert (speed.over, numbers(speed.values)) == ("OpenBLAS with SkylakeX kernels", [1.74, 1.74])


def test_contenders_with_other_kernels_or_unknown_ones_stay_apart():
    told = {"cpu-numpy": "Haswell", "cpu-scipy": "Haswell", "cpu-openblas as SkylakeX": "SkylakeX"}
    names = [cell.contender for cell in libraries.merged(with_kernels(told))]
    assert names == ["cpu-simd", "cpu-numpy = scipy", "cpu-openblas", "cpu-openblas as SkylakeX"] * 2
    assert libraries.merged([]) == []


def test_a_figure_whose_subject_has_no_time_invents_no_finding():
    experiment = EXPERIMENTS["workloads"]
    (figure,) = experiment.figures
    own = [cell for cell in cells(experiment) if cell.contender != figure.options["subject"]]
    assert answers.of_figure(figure, answers.Shown(own, [])) == ""
    assert answers.is_without_subject(figure, answers.Shown(own, []))
    assert not answers.is_without_subject(figure, answers.Shown(cells(experiment), []))


def test_old_results_about_another_backend_answer_nothing():
    experiment = EXPERIMENTS["semiring_cost"]
    own = cells(experiment)
    old = [dataclasses.replace(c, axes={**c.axes, "backend": "cpu-packed"}) for c in own]
    assert answers.of_experiment(experiment, own) != ""
    assert answers.of_experiment(experiment, old) == ""
    assert set(answers.by_name(experiment, old).values()) == {""}
