"""Findings in titles: the numbers are those of the cells that a figure shows, and where they hold is said."""

import dataclasses
import re

import pytest

from harness.analysis import answers, caveats, rates, read_rates, shares
from harness.analysis.findings import (
    DETAILS,
    FINDINGS,
    PLACES,
    contenders,
    fastest,
    kernels,
    libraries,
    over_rivals,
    pays,
    ranks,
    regret,
    stages,
    switches,
    traffic,
)
from harness.experiment import load_all
from tests._support import synthetic
from tests._support.synthetic import cells

EXPERIMENTS = load_all()


def at_rates(name, rates, **where):
    return synthetic.at_rates(EXPERIMENTS[name], rates, **where)


def found(kind, shown, **options):
    return FINDINGS[kind](shown, options)


def test_the_fastest_peer_counts_and_the_ends_are_named():
    case = {"preset": "full", "shared_by": "one thread", "semiring": "plus_times", "dtype": "float64"}
    small = at_rates("vs_peers", {"cpu-simd": 40.0, "cpu-numpy": 10.0, "cpu-scipy": 20.0}, n=257, **case)
    large = at_rates("vs_peers", {"cpu-simd": 40.0, "cpu-numpy": 80.0}, n=1025, **case)
    sentence = found("over_fastest", [*small, *large], subject="cpu-simd")
    assert sentence == (
        "cpu-simd is 1.00 times as fast as the fastest library "
        "(geometric mean of 2 products on 1 thread, 0.50 to 2.00, slower in 1)"
    )
    assert PLACES["over_fastest"]([*small, *large], {"subject": "cpu-simd"}) == "Least 0.50 (n=1025), most 2.00 (n=257)"
    told = [dataclasses.replace(c, facts={**c.facts, "kernels": "wide"}) for c in [*small[:2], *large]]
    assert " as fast as NumPy with wide kernels (geometric" in found("over_fastest", told, subject="cpu-simd")
    slower = dataclasses.replace(
        small[2], contender="cpu-mkl", arguments={"backend": "cpu-mkl"}, samples_ns=[[1e9] * 8]
    )
    assert "the fastest library, here NumPy with wide kernels (geometric" in found(
        "over_fastest", [*told, slower], subject="cpu-simd"
    )
    assert found("over_fastest", small, subject="cpu-simd") == (
        "cpu-simd is 2.00 times as fast as cpu-scipy (plus_times, float64, n=257)"
    )
    assert found("over_fastest", small[:1], subject="cpu-simd") == ""


def test_a_ladder_names_its_share_its_gain_and_its_largest_step():
    case = {"semiring": "plus_times", "dtype": "float64"}
    rates = {"cpu-naive": 1.0, "cpu-transposed": 4.0, "cpu-packed": 10.0, "cpu-simd": 40.0, "cpu-numpy": 400.0}
    rungs = at_rates("ladder", rates, n=1000, **case)
    peak = [cell for cell in cells(EXPERIMENTS["ladder"]) if cell.axes.get("role") == "peak"]
    sentence = found("ladder", [*rungs, *peak], subject="cpu-simd", beside=["cpu-numpy"], panels="semiring")
    assert re.match(
        r"cpu-simd reaches \d+ % of the peak over plus_times \(0.10 times cpu-numpy, 40 times cpu-naive\)", sentence
    )
    assert sentence.endswith("largest step: cpu-transposed over cpu-naive (4 times)"), "the library is no step"


ABLATION = EXPERIMENTS["ablation"].figures[0].options
RATES_OF_RUNGS = {
    "whole path": {"cpu-packed": 40.0, "cpu-transposed, no SIMD": 2.0, "cpu-naive": 1.0},
    "cpu-transposed": {"cpu-transposed": 16.0, "no SIMD": 2.0},
    "cpu-tiled": {"cpu-tiled": 24.0, "no SIMD": 8.0, "no 2x2 reuse": 12.0, "cpu-transposed": 16.0},
    "cpu-packed": {"cpu-packed": 40.0, "no SIMD": 20.0, "no packing": 32.0, "cpu-tiled": 24.0},
}


class TestAblation:
    def sentence(self, *, say=FINDINGS, **changed):
        shown = [
            cell
            for rung, speeds in RATES_OF_RUNGS.items()
            for cell in at_rates(
                "ablation", {**speeds, **changed.get(rung[4:], {})}, rung=rung, panel=rung.removeprefix("cpu-")
            )
        ]
        return say["ablation"](shown, ABLATION)

    def test_factors_multiply_to_the_whole_and_what_interacts_is_named(self):
        assert self.sentence() == "cpu-packed is 40 times as fast as the definition, most by SIMD (8 times)"
        assert self.sentence(say=DETAILS) == (
            "The factors of all ideas multiply to 40; slower by cache tiles (1.3 times); "
            "SIMD gains 8 times in cpu-transposed, 2 times in cpu-packed: it depends on the other ideas"
        )

    def test_all_that_cost_are_named_and_nothing_where_none_does(self):
        slow_tile = self.sentence(say=DETAILS, packed={"no packing": 9.6})
        assert "; slower by cache tiles (1.3 times) and register tile (2.5 times); " in slow_tile
        assert "slower" not in self.sentence(say=DETAILS, tiled={"no 2x2 reuse": 18.0})

    def test_a_product_that_is_more_than_a_tenth_off_is_said(self):
        off = self.sentence(say=DETAILS, tiled={"cpu-tiled": 27.0})
        assert "factors of all ideas do not multiply: their product is 45" in off
        assert "do not multiply" not in self.sentence(say=DETAILS, tiled={"cpu-tiled": 26.0})

    def test_a_product_that_only_the_spread_allows_is_said_so(self):
        shown = [
            cell
            for rung, speeds in RATES_OF_RUNGS.items()
            for cell in at_rates("ablation", speeds, rung=rung, panel=rung.removeprefix("cpu-"))
        ]
        for cell in shown:
            if cell.axes["rung"] == "cpu-tiled" and cell.contender == "cpu-tiled":
                (times,) = cell.samples_ns
                cell.samples_ns[0][:] = [time * (0.5 + 0.2 * i) for i, time in enumerate(times)]
        assert "within the spread of the samples" in DETAILS["ablation"](shown, ABLATION)

    def test_nothing_is_said_of_interaction_where_factors_agree_or_at_all_where_one_is_missing(self):
        alike = {"tiled": {"no SIMD": 3.0}, "packed": {"no SIMD": 5.0}}
        assert "depends on the other ideas" not in self.sentence(say=DETAILS, **alike)
        assert found("ablation", at_rates("ablation", RATES_OF_RUNGS["cpu-tiled"], rung="cpu-tiled"), **ABLATION) == ""

    def test_orders_of_loops_are_held_against_the_definition(self):
        rates = {"cpu-naive": 2.0, "ikj: rows of C": 8.0, "jki: columns of C": 0.5}
        assert found("orders", at_rates("ablation", rates, role="order")) == (
            "The order ikj (rows of C) has 4.00 times the speed of the definition, jki (columns of C) 0.25 times"
        )


def test_orders_in_memory_cost_the_subject_and_others():
    rates = {"NN: all by rows": 10.0, "TN: A by columns": 8.0, "NT: B by columns": 10.0}
    own = at_rates("cpu_layout", rates, backend="cpu-simd")
    assert found("memory_orders", own, subject="cpu-simd") == (
        "cpu-simd takes at most 1.25 times as long in another order (A by columns)"
    )
    faster = at_rates("cpu_layout", {**rates, "TN: A by columns": 10.5}, backend="cpu-simd")
    assert found("memory_orders", faster, subject="cpu-simd").startswith("cpu-simd takes no longer in another order; ")
    naive = at_rates("cpu_layout", {**rates, "TN: A by columns": 5.0, "NT: B by columns": 40.0}, backend="cpu-naive")
    assert found("memory_orders", [*own, *naive], subject="cpu-simd").endswith(
        ", cpu-naive 2.00 times (A by columns); cpu-naive gains most, 4.00 times (B by columns)"
    )


def test_a_choice_is_named_with_how_many_are_as_good():
    rates = {"cpu-naive": 10.0, "cpu-packed": 40.0, "cpu-simd": 39.0}
    own = at_rates("ladder", rates, n=1000, semiring="plus_times")
    assert found("best", own) == "cpu-packed is fastest, 4 times the speed of cpu-naive (1 other within 5 %)"


def test_paying_begins_behind_the_last_size_that_does_not():
    sweep = [cell for cell in cells(EXPERIMENTS["strassen"]) if cell.is_ok]
    setting = sweep[0].axes["setting"]
    faster = {1024: 0.9, 2048: 1.1}

    def at(cell):
        gain = 1.0 if cell.contender == cell.reference else faster[cell.axes["n"]]
        return dataclasses.replace(cell, samples_ns=[[1e6 / gain] * 8])

    own = [at(cell) for cell in sweep if cell.axes["setting"] == setting]
    assert found("pays", own, panels="setting").endswith(" are faster than cpu-simd from n=2048 on")
    words = {"1 level": "one Strassen level"}
    assert found("pays", own, panels="setting", words=words).startswith("One Strassen level and ")
    slow = dict.fromkeys(faster, 0.9)
    faster.update(slow)
    sentence = found("pays", [at(cell) for cell in own], panels="setting")
    assert sentence.startswith("Nothing is faster than cpu-simd up to n=2048: not 1 level nor ")
    faster.update({1024: 1.1})
    sentence = found("pays", [at(cell) for cell in own], panels="setting")
    assert "are faster than cpu-simd only up to n=1024" in sentence, "small sizes are not forgotten"
    assert sentence.endswith(" only up to n=1024")


def test_of_several_panels_those_that_pay_somewhere_are_named():
    panels = [cell for cell in cells(EXPERIMENTS["strassen"], "full") if cell.is_ok and cell.axes["dtype"] == "float64"]

    def at(cell):
        is_faster = cell.contender == "1 level" and cell.threads == 1 and cell.axes["n"] >= 2048
        return dataclasses.replace(cell, samples_ns=[[1e6 / (1.1 if is_faster else 1.0)] * 8])

    assert found("pays", list(map(at, panels)), panels="setting") == (
        "1 thread: 1 level is faster than cpu-simd from n=2048 on; 4 threads: nothing up to n=4096"
    )
    further = [cell for cell in cells(EXPERIMENTS["strassen"], "full") if cell.is_ok]
    sentence = found("pays", list(map(at, further)), panels="setting")
    assert sentence.startswith("float64, 1 thread: 1 level is faster"), "nothing is said of float32"


def test_who_is_fastest_in_how_many_cases_is_said_of_all_where_nobody_is_in_most():
    first = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 2.0}, n=64)
    second = at_rates("size_sweep", {"cpu-numpy": 2.0, "cpu-simd": 1.0}, n=128)
    wins = "cpu-simd is fastest in 1 of 2 cases, cpu-numpy in 1; the fastest "
    assert found("fastest", [*first, *second]) == f"{wins}has 1.00 to 2.00 times the speed of cpu-numpy"
    assert found("fastest", [*first, *second], value="time_ratio", reference_words="the base") == (
        f"{wins}takes 0.50 to 1.00 of the time of the base"
    )


def test_a_win_over_one_that_is_level_is_a_tie_and_one_of_two_samples_is_none():
    sure = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 2.0}, n=64)
    level = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 1.001}, n=128)
    few = [dataclasses.replace(c, case="few", samples_ns=[c.samples_ns[0][:2]]) for c in sure]
    assert found("fastest", [*sure, *level, *few]).startswith(
        "cpu-simd is fastest in all 3 cases, 1 of them a tie, at 1"
    )
    assert found("fastest", level).startswith("cpu-simd is fastest in 1 of 1 case, a tie, at 1.00")


def test_what_beats_the_reference_is_named_with_by_how_much_at_most():
    first = at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-simd": 1.25}, n=64)
    second = at_rates("size_sweep", {"cpu-numpy": 2.0, "cpu-simd": 1.0}, n=128)
    assert found("beaten", [*first, *second]) == (
        "Nothing is more than 25 % faster than cpu-numpy (cpu-simd, plus_times, float64, n=64)"
    )
    assert found("beaten", second) == "Nothing is faster than cpu-numpy"
    assert found("beaten", []) == ""


def test_a_cost_says_over_which_dtype_it_is():
    (first, *_) = [cell for cell in cells(EXPERIMENTS["semiring_cost"]) if cell.contender == "plus_times"]
    other = dataclasses.replace(first, contender="max_min", samples_ns=[[2 * ns for ns in first.samples_ns[0]]])
    assert found("cost", [first, other]).startswith("max_min takes 2.00 times as long as plus_times over float64")


def lost_at(rates, few=()):
    """Return cells of two contenders at sizes of whole tiles, 32 and 64, and at 33; those in `few` have two samples."""
    case = {"preset": "full", "semiring": "plus_times"}
    cells_of = [cell for n in (32, 33, 64) for cell in at_rates("size_sweep", rates[n], n=n, **case)]
    return [
        dataclasses.replace(c, samples_ns=[c.samples_ns[0][:2]]) if (c.contender, c.axes["n"]) in few else c
        for c in cells_of
    ]


def test_losses_are_those_of_the_figure_even_beside_sizes_of_few_samples():
    whole = {"cpu-transposed": 10.0, "cpu-simd": 40.0}
    own = {32: whole, 33: {"cpu-transposed": 8.0, "cpu-simd": 30.0}, 64: {"cpu-transposed": 40.0, "cpu-simd": 40.0}}
    shown = lost_at(own, few=[("cpu-transposed", 32)])
    sentence = found("losses", shown, subject="cpu-simd")
    assert sentence.startswith("Sizes that fit no tile cost cpu-simd 25.0 % of its rate, at worst 25 % (n=33); ")
    assert re.search(r"; cpu-transposed loses most, (2\d|3\d) % \(n=33\)$", sentence), "not held against n=64"


def test_only_who_loses_more_than_the_subject_loses_most():
    whole = {"cpu-transposed": 40.0, "cpu-simd": 40.0}
    own = {32: whole, 33: {"cpu-transposed": 36.0, "cpu-simd": 30.0}, 64: whole}
    assert found("losses", lost_at(own), subject="cpu-simd").endswith("; cpu-transposed at most 10 % (n=33)")


def test_who_loses_nothing_is_said_to_lose_nothing():
    whole = {"cpu-transposed": 40.0, "cpu-simd": 40.0}
    own = {32: whole, 33: {"cpu-transposed": 48.0, "cpu-simd": 44.0}, 64: whole}
    assert found("losses", lost_at(own), subject="cpu-simd") == (
        "Sizes that fit no tile cost cpu-simd nothing at the median, at worst nothing (n=33); "
        "cpu-transposed at most nothing (n=33)"
    )


def test_losses_at_worst_are_no_less_than_in_the_middle_whatever_few_samples_say():
    regular = [cell for n in (64, 128) for cell in at_rates("size_sweep", {"cpu-simd": 40.0}, n=n)]
    (ragged,) = at_rates("size_sweep", {"cpu-simd": 20.0}, n=65)
    few = [
        dataclasses.replace(ragged, axes={**ragged.axes, "n": n}, samples_ns=[ragged.samples_ns[0][:2]])
        for n in (66, 67)
    ]
    firm = dataclasses.replace(ragged, axes={**ragged.axes, "n": 127}, samples_ns=[[ragged.median_ns / 1.99] * 8])
    sentence = found("losses", [*regular, *few, firm], subject="cpu-simd")
    assert "cost cpu-simd 50.0 % of its rate, at worst 50 % (n=66)" in sentence, "the only firm size loses 0.5 %"


def test_speeds_over_references_are_told_apart_by_where_they_compute():
    cpu = at_rates("size_sweep", {"cpu-numpy": 10.0, "cpu-simd": 8.0, "cpu-packed": 5.0}, n=64)
    larger = at_rates("size_sweep", {"cpu-numpy": 10.0, "cpu-simd": 9.0, "cpu-packed": 125.0}, n=128)
    assert found("speeds", [*cpu, *larger]) == (
        "cpu-simd has 0.80 to 0.90 times the speed of cpu-numpy, cpu-packed 0.50 to 12.5"
    )
    on_device = [
        dataclasses.replace(c, run="other", case="other", arguments={**c.arguments, "backend": "gpu-x"}) for c in larger
    ]
    assert found("speeds", [*cpu, *on_device]).endswith("; on the GPU cpu-packed has 12.5 times, cpu-simd 0.90")
    first = found("speeds", [*on_device, *cpu])
    assert first.startswith("On the GPU cpu-simd has 0.90 times the speed of cpu-numpy, ")
    assert first.endswith("; on the CPU cpu-simd has 0.80 times, cpu-packed 0.50")
    assert found("speeds", on_device).startswith("cpu-simd has 0.90 times")
    assert found("speeds", []) == ""
    renamed = [dataclasses.replace(c, contender=c.contender.replace("packed", "packed, by jc")) for c in cpu]
    assert "; cpu-packed, by jc" in found("speeds", renamed), "a comma does not part names that have one"


def test_cold_caches_are_held_against_hot_ones_at_both_ends():
    series = cells(EXPERIMENTS["cold_caches"])
    own = [
        dataclasses.replace(
            c, samples_ns=[[{"hot": 1.0, "cold": {32: 10.0, 128: 4.0, 512: 2.0}[c.axes["n"]]}[kind]] * 8]
        )
        for c in series
        if (kind := c.axes.get("series", "hot")) and c.axes["n"] in (32, 128, 512)
    ]
    assert found("cold", own, subject="cpu-simd") == (
        "With operands in main memory cpu-simd loses 90 % of its rate at n=32, 50 % at n=512"
    )
    gained = [
        dataclasses.replace(c, samples_ns=[[0.5] * 8]) if c.axes.get("series") == "cold" and c.axes["n"] == 512 else c
        for c in own
    ]
    assert found("cold", gained, subject="cpu-simd").endswith("loses 90 % of its rate at n=32, nothing at n=512")
    alone = [cell for cell in own if cell.axes["n"] == 32]
    assert found("cold", alone, subject="cpu-simd").endswith("loses 90 % of its rate at n=32"), "one size is said once"


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


@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        ("1.04 times (3 of 24 undecided)", 0.125),
        ("1.04 times (2 samples) (9 of 36 undecided)", 0.25),
        ("a (1 of 2 undecided), b (undecided)", 1.0),
        ("1.04 times (n=512; disturbed)", 0.0),
    ],
)
def test_the_greatest_doubt_of_a_sentence_is_read_from_its_marks(sentence, part):
    assert caveats.greatest_doubt(sentence)[0] == part
    assert caveats.speaks_of_doubt(sentence) == (part > 0)


def test_of_two_presets_a_panel_shows_the_larger_product_alone():
    (figure,) = EXPERIMENTS["block_size"].figures
    both = [cell for preset in ("quick", "full") for cell in cells(EXPERIMENTS["block_size"], preset)]
    shown = [cell for cell in answers.shown(figure, "block_size", both).cells if not rates.is_roof(cell)]
    assert {cell.preset for cell in shown} == {"full"}
    assert {cell.axes["sweep"] for cell in shown} == {cell.axes["sweep"] for cell in both if "sweep" in cell.axes}


@pytest.mark.parametrize("kind", [kind for kind in FINDINGS if kind != "extra_work"])  # that is computed
def test_of_nothing_nothing_is_said(kind):
    options = {"subject": "x", "library": "y", "x": "n", "panels": "problem", "counts": "words", "tiles": (4,)}
    assert FINDINGS[kind]([], {**options, "place": "n", "links": {}}) == ""


def test_the_best_configuration_of_each_library_counts_and_what_is_installed_is_said_too():
    case = {"preset": "full", "shared_by": "one thread", "semiring": "plus_times", "dtype": "float64"}
    sizes = [
        at_rates("vs_peers", {"cpu-simd": 40.0, "cpu-numpy": 20.0, "cpu-scipy": 32.0}, n=n, **case) for n in (257, 1025)
    ]
    told = [
        dataclasses.replace(cell, record={**cell.record, "environment": {"CORE": "wide"}})
        if cell.contender == "cpu-scipy"
        else cell
        for shown in sizes
        for cell in shown
    ]
    sentence = found("over_fastest", told, subject="cpu-simd")
    assert sentence.startswith("cpu-simd is 1.25 times as fast as the fastest library, here SciPy ")
    assert sentence.endswith("2.00 as installed)")
    plain = found("over_fastest", [cell for shown in sizes for cell in shown], subject="cpu-simd")
    assert "installed" not in plain


OFF = (-0.9, 0.2, 0.7, -0.4, 1.0, -0.1, -0.8, 0.5, 0.3, -0.6)  # of a spread, by sample


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


def test_scaling_says_what_each_thread_keeps_of_one_kind_of_work():
    assert found("threads", scaled("strong", 0.8)) == ""
    two = [*scaled("weak", 0.8), *(c for c in cells(EXPERIMENTS["thread_scaling"]) if c.axes["mode"] == "weak")]
    sentence = found("threads", [c for c in two if c.axes["work"] == "whole tiles"], subject="cpu-numpy")
    assert sentence.startswith("Each of 4 threads of cpu-numpy keeps ")
    assert " of the rate of one on as much work each; others " in sentence


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


def test_a_place_of_few_samples_is_no_mark_of_doubt():
    assert not caveats.speaks_of_doubt("the largest median is 1.04 (n=64; 2 samples)")


OPENBLAS = {"cpu-simd": 40.0, "cpu-numpy": 20.0, "cpu-scipy": 22.0, "cpu-openblas": 21.0}


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
    assert found("over_fastest", merged, subject="cpu-simd").startswith(
        "cpu-simd is 1.74 times as fast as OpenBLAS with SkylakeX kernels ("
    )


def test_contenders_with_other_kernels_or_unknown_ones_stay_apart():
    told = {"cpu-numpy": "Haswell", "cpu-scipy": "Haswell", "cpu-openblas as SkylakeX": "SkylakeX"}
    names = [cell.contender for cell in libraries.merged(with_kernels(told))]
    assert names == ["cpu-simd", "cpu-numpy = scipy", "cpu-openblas", "cpu-openblas as SkylakeX"] * 2
    assert libraries.merged([]) == []


def test_no_name_stands_for_two_findings():
    modules = (
        *(contenders, fastest, kernels, over_rivals, pays, ranks),
        *(read_rates, regret, shares, stages, switches, traffic),
    )
    assert sum(len(module.FINDINGS) for module in modules) == len(FINDINGS)


def test_a_figure_whose_subject_has_no_time_invents_no_finding():
    experiment = EXPERIMENTS["workloads"]
    (figure,) = experiment.figures
    own = [cell for cell in cells(experiment) if cell.contender != figure.options["subject"]]
    assert FINDINGS[figure.options["finding"]](own, figure.options) == ""
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
