"""The fastest library and the fastest other kernel; places, and shares that hold, of the cells of a figure."""

import dataclasses

from harness import registry
from harness.analysis import answers, rivals, shares
from harness.catalogue import load_all
from harness.report.figures.rows import LAST_COLUMNS
from tests._support import synthetic
from tests._support.findings import found, numbers

EXPERIMENTS = load_all()


def at_rates(name, rates, **where):
    return synthetic.at_rates(EXPERIMENTS[name], rates, **where)


def test_a_kernel_of_ours_is_no_peer_and_counts_only_among_others():
    own = at_rates("size_sweep", {"cpu-numpy": 10.0, "cpu-packed": 20.0, "cpu-simd": 40.0}, n=64)
    library, kernel = (found("speed", own, subject="cpu-simd", over=over) for over in ("library", "kernel"))
    assert (library.over, numbers(library.values)) == ("NumPy", [4.0])
    assert numbers(kernel.values) == [2.0]
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


def test_of_several_semirings_expressions_stand_apart_and_the_named_one_is_told_by_dtype():
    case = {"shared_by": "one thread", "dtype": "float64"}
    plain = at_rates("vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 10.0}, n=257, semiring="plus_times", **case)
    tropical = at_rates("vs_peers", {"cpu-simd": 50.0, "cpu-numpy": 1.0}, n=257, semiring="min_plus", **case)
    shown = [*plain, *tropical]
    named = found("speed", shown, subject="cpu-simd", over="library", named="min_plus")
    assert (named.scope, named.over, numbers(named.values)) == ("min_plus", "a NumPy expression", [50.0])
    assert numbers(named.others["all 2 products"]) == [0.8, 50.0]
    assert (named.slower, len(named.judged)) == (1, 2)
    every = found("speed", shown, subject="cpu-simd", over="library")
    assert (every.over, numbers(every.values)) == ("NumPy", [0.8])
    assert numbers(every.others["over expressions"]) == [50.0]


def test_a_library_that_has_the_product_is_no_expression_of_its_operations():
    """NumPy has no min_plus: what its ufuncs take says nothing about a library."""
    case = {"shared_by": "one thread"}
    double, integer = (
        at_rates("vs_peers", {"cpu-simd": 50.0, name: rate}, n=257, semiring="min_plus", **case)
        for name, rate in (("cpu-tropical-gemm", 10.0), ("cpu-numpy", 1.0))
    )
    integer = [dataclasses.replace(c, axes={**c.axes, "dtype": "int32"}, case="int32") for c in integer]
    assert [rivals.is_expression(cell) for cell in (*double, *integer)] == [False, False, False, True]
    plain = at_rates(
        "vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 4.0}, n=257, semiring="plus_times", dtype="float64", **case
    )
    assert not rivals.is_expression(plain[1]), "the ordinary product of floats is NumPy's own"
    named = found("speed", [*double, *integer, *plain], subject="cpu-simd", over="library", named="min_plus")
    assert (named.over, numbers(named.values), len(named.judged)) == ("tropical-gemm", [5.0], 3)
    alone = found("speed", integer, subject="cpu-simd", over="library")
    assert (alone.over, numbers(alone.values)) == ("a NumPy expression", [50.0])


def test_a_tie_is_no_loss():
    case = {"shared_by": "one thread", "semiring": "plus_times", "dtype": "float64"}
    level = at_rates("vs_peers", {"cpu-simd": 9.9, "cpu-numpy": 10.0}, n=257, **case)
    slow = at_rates("vs_peers", {"cpu-simd": 8.0, "cpu-numpy": 10.0}, n=512, **case)
    assert found("speed", [*level, *slow], subject="cpu-simd", over="library").slower == 1


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
