"""The fastest library and the fastest other kernel; places, and shares that hold, of the cells of a figure."""

import dataclasses

from harness import registry
from harness.analysis import answers, rivals, shares
from harness.analysis.findings import FINDINGS
from harness.analysis.places import where_in_words
from harness.experiment import load_all
from harness.report.figures.peers import LAST_COLUMNS
from tests._support import synthetic

EXPERIMENTS = load_all()


def at_rates(name, rates, **where):
    return synthetic.at_rates(EXPERIMENTS[name], rates, **where)


def found(kind, shown, **options):
    return FINDINGS[kind](shown, options)


def test_who_wins_most_cases_is_held_against_the_fastest_library_in_those_it_loses_too():
    won = [at_rates("size_sweep", {"cpu-numpy": 1.0, "cpu-packed": 1.9, "cpu-simd": 2.0}, n=n) for n in (64, 128)]
    lost = at_rates("size_sweep", {"cpu-numpy": 4.0, "cpu-simd": 1.0}, n=512)
    shown = [cell for own in (*won, lost) for cell in own]
    speeds = "0.25 (n=512) to 2.00 times the speed of the fastest library"
    assert found("fastest", shown) == f"cpu-simd is fastest in 2 of 3 cases; in all 3 it has {speeds}"
    ours = [cell for cell in shown if cell.contender != "cpu-numpy" and cell.axes["n"] != 512]
    assert found("fastest", [dataclasses.replace(c, reference="cpu-simd") for c in ours]) == (
        "cpu-simd is fastest in all 2 cases, at 1.05 times the speed of the next"
    )


def test_a_kernel_of_ours_is_no_peer_and_counts_only_among_others():
    own = at_rates("size_sweep", {"cpu-numpy": 10.0, "cpu-packed": 20.0, "cpu-simd": 40.0}, n=64)
    assert found("over_fastest", own, subject="cpu-simd").startswith("cpu-simd is 4.00 times as fast as cpu-numpy")
    assert found("over_other", own, subject="cpu-simd").startswith("cpu-simd is 2.00 times as fast as cpu-packed")
    assert [rivals.is_peer(cell) for cell in own] == [True, False, False]


def test_a_peer_is_what_its_backend_its_task_or_an_older_result_says():
    (own,) = at_rates("size_sweep", {"cpu-simd": 40.0}, n=64)
    told = dataclasses.replace(own, contender="a new peer", arguments={}, facts={**own.facts, "project": "Another"})
    assert [rivals.project_of(cell) for cell in (own, told)] == ["", "Another"]
    older = dataclasses.replace(own, contender="scipy dijkstra", arguments={})
    assert rivals.project_of(older) == "SciPy"
    by_its_kernel = dataclasses.replace(own, contender="blocked, MKL", arguments={"backend": "cpu-mkl"})
    assert rivals.project_of(by_its_kernel) == "MKL"


def test_every_backend_of_a_library_and_no_other_declares_a_project():
    loaded = [entry for entry in registry.discover() if entry.backend]
    of_others = {entry.name for entry in loaded if entry.backend.project}
    in_their_folder = {entry.name for entry in loaded if ".libraries." in entry.origin}
    assert of_others == {*in_their_folder, "cpu-numpy"}


def test_of_several_semirings_the_ends_over_all_cases_are_told_and_the_mean_of_the_named_one():
    case = {"shared_by": "one thread", "dtype": "float64"}
    plain = at_rates("vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 10.0}, n=257, semiring="plus_times", **case)
    tropical = at_rates("vs_peers", {"cpu-simd": 50.0, "cpu-numpy": 1.0}, n=257, semiring="min_plus", **case)
    shown = [*plain, *tropical]
    assert found("over_fastest", shown, subject="cpu-simd", named="min_plus") == (
        "cpu-simd is 50 times as fast as a NumPy expression over min_plus; of all products up to 50 times "
        "a NumPy expression (min_plus float64), slower in 1 of 2 (0.80 times NumPy, plus_times float64)"
    )
    assert found("over_fastest", shown, subject="cpu-simd") == (
        "cpu-simd is 0.80 times as fast as NumPy (plus_times float64); "
        "50 times as fast as a NumPy expression (min_plus float64)"
    )


def test_a_library_that_has_the_product_is_no_expression_of_its_operations():
    """NumPy has no min_plus: what its ufuncs take says nothing about a library."""
    case = {"shared_by": "one thread"}
    double, integer = (
        at_rates("vs_peers", {"cpu-simd": 50.0, name: rate}, n=257, semiring="min_plus", **case)
        for name, rate in (("cpu-tropical-gemm", 10.0), ("cpu-numpy", 1.0))
    )
    integer = [dataclasses.replace(c, axes={**c.axes, "dtype": "int32"}, case="int32") for c in integer]
    assert [rivals.is_expression(cell) for cell in (*double, *integer)] == [False, False, False, True]
    plain = at_rates("vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 4.0}, n=257, semiring="plus_times", **case)
    assert not rivals.is_expression(plain[1]), "the ordinary product of floats is NumPy's own"
    assert found("over_fastest", [*double, *integer, *plain], subject="cpu-simd", named="min_plus") == (
        "cpu-simd is 5.00 times as fast as tropical-gemm over min_plus; of all products "
        "2.00 times NumPy (plus_times float32) to 50 times a NumPy expression (min_plus int32)"
    )
    assert found("over_fastest", integer, subject="cpu-simd") == (
        "cpu-simd is 50 times as fast as a NumPy expression (min_plus, int32, n=257)"
    )


def test_a_tie_is_no_loss():
    case = {"shared_by": "one thread", "semiring": "plus_times", "dtype": "float64"}
    level = at_rates("vs_peers", {"cpu-simd": 9.9, "cpu-numpy": 10.0}, n=257, **case)
    slow = at_rates("vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 10.0}, n=512, **case)
    assert "0.80 to 0.99, slower in 1)" in found("over_fastest", [*level, *slow], subject="cpu-simd")


def test_narrow_operands_are_said_where_a_row_is_named_after_them():
    own = at_rates("size_sweep", {"cpu-simd": 40.0}, n=64)[0]
    narrow = dataclasses.replace(own, axes={**own.axes, "operands": "int8"})
    assert where_in_words(own) == "plus_times, float64, n=64"
    assert where_in_words(narrow) == "plus_times, int8, n=64"
    assert where_in_words(narrow, [narrow]) == "int8, n=64", "the dtype of sums is shared, that of operands is said"


def test_a_share_of_a_run_far_slower_than_a_plain_one_is_none():
    (own,) = at_rates("size_sweep", {"cpu-simd": 40.0}, n=64)
    plain = own.median_ns / 1e9
    told = [
        dataclasses.replace(own, facts={**own.facts, "share": 0.5, "seconds": {"products": seconds}})
        for seconds in (1.4 * plain, 1.6 * plain)
    ]
    assert [shares.share(cell) for cell in (*told, own)] == [0.5, None, None]
    assert shares.of_slow_runs([*told, own]) == (1, 2)
    figure = EXPERIMENTS["qr"].figures[1]
    assert answers.doubt(figure, answers.Shown(told, [])) == " (1 of 2 from slow runs)"
    assert answers.doubt(figure, answers.Shown(told[:1], [])) == ""
    assert answers.details_of_figure(figure, answers.Shown(told, [])) == (
        "Parts of the time left out, 1 of 2: waiting for each product made the run more than 1.5 times as long "
        "(cpu-simd at n=64)"
    )
    assert answers.details_of_figure(figure, answers.Shown(told[:1], [])) == ""


def test_a_library_of_older_results_that_was_not_told_the_processor_is_left_out():
    figure = next(figure for figure in EXPERIMENTS["vs_peers"].figures if figure.name == "vs_peers_rates")
    case = {"shared_by": "one thread", "semiring": "plus_times", "dtype": "float64"}
    own = at_rates("vs_peers", {"cpu-simd": 40.0, "cpu-numpy": 20.0, "cpu-blis": 10.0}, preset="full", n=257, **case)

    def names(cells):
        of = answers.shown(figure, "vs_peers", cells)
        return {cell.contender for cell in of.cells}, of.left_out

    assert names(own) == ({"cpu-simd", "cpu-numpy"}, ("cpu-blis",))
    newer = [dataclasses.replace(c, facts={**c.facts, "project": "x"}) for c in own]
    assert names(newer) == ({"cpu-simd", "cpu-numpy", "cpu-blis"}, ())
    blis = own[-1]
    told = dataclasses.replace(blis, contender="cpu-blis as skx", record={**blis.record, "environment": {"A": "b"}})
    assert "cpu-blis" in names([*own, told])[0], "it stands beside what it can do"


def test_the_column_of_rivals_says_what_is_an_expression():
    case = {"shared_by": "one thread", "n": 257, "dtype": "float64"}
    own = at_rates("vs_peers", {"cpu-simd": 50.0, "cpu-numpy": 1.0}, semiring="min_plus", **case)
    plain = at_rates("vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 4.0}, semiring="plus_times", **case)
    _, names = LAST_COLUMNS["over_fastest"]
    assert [names(some[:1], some) for some in (own, plain)] == ["numpy expression", "numpy"]
