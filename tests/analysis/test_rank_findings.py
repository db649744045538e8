"""Findings in titles: the numbers are those of planted cells, and too few samples are named."""

import dataclasses
import re

import pytest

from experiments._parts import ranks as parts
from harness.analysis.findings.ranks import DETAILS, FINDINGS, JUDGED
from harness.experiment import load_all
from tests._support.planted_rank_cells import TWO_GPUS, planted
from tests._support.synthetic import MACHINE

EXPERIMENTS = load_all()


@pytest.fixture(autouse=True)
def with_mpi(monkeypatch):
    """Ask as on a machine that has MPI, whatever this one has."""
    monkeypatch.setattr(parts, "missing", lambda: None)


def found(name, cells, **options):
    return FINDINGS[name](cells, options)


def strong(off, mode="strong", machine=MACHINE):
    cells = planted(EXPERIMENTS["dist_scaling"], off=off, machine=machine)
    return [cell for cell in cells if cell.axes.get("mode") in (mode, None)]


def speed(sentence):
    return float(sentence.split("have ")[1].split(" times")[0])


def test_the_speed_is_that_of_the_most_ranks_beside_as_many_threads():
    whole = [speed(found("scaling", strong(off))) for off in (1.0, 1.25)]
    assert whole[0] == pytest.approx(1.25 * whole[1], abs=0.02)
    assert re.match(
        r"4 ranks have 3\.08 times the speed of one \(dist-2d, plus_times float64, n=1024; 4 threads \d\.\d\d\); least",
        found("scaling", strong(1.25)),
    )
    on_gpus = found("scaling", strong(1.25, "strong, on GPUs", TWO_GPUS))
    assert on_gpus.startswith("2 GPUs have 1.60 times the speed of one (n=")
    alone = [cell for cell in strong(1.0) if cell.arguments.get("parameters", {}).get("ranks", 1) == 1]
    assert found("scaling", alone) == ""


def test_of_few_samples_a_title_says_so():
    few = [dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:2]]) for cell in strong(1.0)]
    assert "; 2 samples" in found("scaling", few)
    assert "samples" not in found("scaling", strong(1.0))


def test_the_best_split_at_the_largest_product_is_named_and_where_the_best_is_least():
    cells = planted(EXPERIMENTS["dist_ranks_threads"])
    sizes = sorted({cell.axes["n"] for cell in cells})

    def at(cell, milliseconds):
        return dataclasses.replace(cell, samples_ns=[[milliseconds * 1e6] * 6])

    times = {"cpu-simd": 10.0, "2 x 2": 8.0}
    timed = [at(cell, times.get(cell.contender, 20.0)) for cell in cells]
    small = [
        at(c, 16.0) if c.axes["n"] == sizes[0] and c.axes["semiring"] == "min_plus" and c.contender == "2 x 2" else c
        for c in timed
    ]
    assert found("splits", small) == (
        f"2 ranks of 2 threads have 1.25 times the speed of one process (plus_times, float64, n={sizes[-1]}), "
        f"1 rank of 4 threads 0.50; the best elsewhere at least 0.62 (min_plus{f', n={sizes[0]}' * (len(sizes) > 1)})"
    )
    assert found("strategies", small).startswith("2 x 2 has 1.25 times the speed of one process (plus_times,")
    assert found("over_reference", small).startswith("2 x 2 has 1.25 times the speed of cpu-simd (plus_times,")
    shared = f", n={sizes[0]}" * (len(sizes) > 1)
    assert found("over_reference", small).endswith(f"the best elsewhere at least 0.62 (2 x 2, min_plus{shared})")
    assert found("splits", [cell for cell in timed if cell.contender == "cpu-simd"]) == ""


def test_peers_are_compared_with_the_fastest_of_ours():
    cells = planted(EXPERIMENTS["dist_peers"], machine=TWO_GPUS)
    on_gpus = [cell for cell in cells if cell.axes.get("device") == "gpu"]
    times = {"PyTorch": 30.0, "JAX": 20.0, "dist-2d, tensor-core": 8.0, "dist-2d, cublas": 16.0}

    def timed(cell):
        milliseconds = next(value for name, value in times.items() if cell.contender.startswith(name))
        return dataclasses.replace(cell, samples_ns=[[milliseconds * 1e6] * 6])

    assert found("peers", list(map(timed, on_gpus))) == (
        "dist-2d, tensor-core, 2 GPUs has 2.50 times the speed of JAX NamedSharding, 2 GPUs "
        "(plus_times, float32, n=16384); least 1.25 (float64)"
    )
    few = [dataclasses.replace(cell, samples_ns=[[*cell.samples_ns[0][:2]]]) for cell in map(timed, on_gpus)]
    judged = JUDGED["peers"](few, {})
    assert (judged.undecided, judged.ratios) == (2, 2)
    assert found("peers", [cell for cell in on_gpus if "package" not in cell.arguments]) == ""


def test_counts_that_differ_from_the_formula_are_not_called_equal():
    cells = planted(EXPERIMENTS["dist_volume"])
    said = r"A rank receives 1\.00 \(2x2x2\) to 2\.33 times what it must \(1x1x8\); all \d+ counts equal the formula"
    assert re.fullmatch(said, found("counts", cells, counts="words"))
    assert "times its part of one copy" in found("counts", planted(EXPERIMENTS["dist_memory"]), counts="bytes")
    counts = [{**count, "words": 0.5 * count["words"]} for count in cells[0].facts["grids"]]
    off = [dataclasses.replace(cells[0], facts={**cells[0].facts, "grids": counts}), *cells[1:]]
    halves = r"; \d+ of \d+ counts equal the formula, the others are 0.50 of it$"
    assert re.search(halves, found("counts", off, counts="words"))
    assert DETAILS["counts"](off, {"counts": "words"}) == ""


def test_a_formula_that_has_a_block_of_sums_too_many_is_said_to():
    (cell, *_) = planted(EXPERIMENTS["dist_memory"])
    blocks = {}
    for count in cell.facts["grids"]:
        pm, pn, _ = map(int, count["grid"].split("x"))
        blocks[count["grid"]] = (96 // pm) * (96 // pn) * 8
    counts = [
        {**count, "formula_bytes": count["bytes"] + blocks[count["grid"]] * (count["panel"] > 0)}
        for count in cell.facts["grids"]
    ]
    older = [dataclasses.replace(cell, facts={**cell.facts, "grids": counts})]
    said = r"; 12 of 18 counts equal the formula, those in panels of 8 are 0\.\d+ to 0\.\d+ of it$"
    assert re.search(said, found("counts", older, counts="bytes"))
    assert "one block of sums each" in DETAILS["counts"](older, {"counts": "bytes"})
    assert DETAILS["counts"]([cell], {"counts": "bytes"}) == ""
    counts[-1] = {**counts[-1], "bytes": counts[-1]["bytes"] - 8}
    assert DETAILS["counts"](older, {"counts": "bytes"}) == "", "another difference has another reason"


@pytest.mark.parametrize("name", FINDINGS)
def test_without_a_time_nothing_is_said(name):
    for experiment in ("dist_scaling", "dist_peers", "dist_breakdown", "dist_projection"):
        cells = [
            dataclasses.replace(c, status="missing", samples_ns=[], facts={}) for c in planted(EXPERIMENTS[experiment])
        ]
        assert found(name, cells, counts="words", links={}) == ""


def test_a_share_of_a_call_says_where_the_operands_are_when_it_begins():
    cells = planted(EXPERIMENTS["dist_breakdown"])
    both = found("stages", cells)
    assert re.match(r"dist-\w+.* \(operands on the ranks\) spends \d+ % of a warm call computing, dist-", both)
    assert re.search(r", dist-root \(operands on rank 0\) \d+ % \(plus_times, float64, n=1024\)$", both)
    alike = found("stages", [cell for cell in cells if cell.contender != "dist-root"])
    assert re.search(r" \(plus_times, float64, n=1024, operands on the ranks\)$", alike)
    assert alike.count("operands") == 1


def test_strategies_of_one_product_are_compared_though_each_has_a_case_of_its_own():
    together = [c for c in planted(EXPERIMENTS["dist_scaling"]) if c.axes.get("mode") == "all cores"]
    (place, *_) = {(c.axes["m"], c.axes["semiring"]) for c in together}
    own = [c for c in together if (c.axes["m"], c.axes["semiring"]) == place]
    reference = next(cell for cell in own if cell.contender == "cpu-simd")
    times = {"dist-root": 25.0, "dist-1d": 12.5, "dist-2d": 8.0, "dist-3d": 10.0}
    pairs = [
        dataclasses.replace(cell, case=strategy, samples_ns=[[1e6 * milliseconds] * 6])
        for strategy, taken in times.items()
        for cell, milliseconds in ((reference, 10.0), (next(c for c in own if c.contender == strategy), taken))
    ]
    assert re.match(
        r"dist-2d has 1\.25 times the speed of one process \(.*\), dist-root 0\.40$", found("strategies", pairs)
    )
