"""Findings about kernels without an idea, and with other stages: planted rates give known sentences."""

import dataclasses

from harness.analysis.findings import DETAILS, FINDINGS
from harness.experiment import load_all
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = [load_all()[name] for name in ("gpu_ablation", "gpu_tile_size", "gpu_ladder")]
WITH_GPU = dataclasses.replace(MACHINE, gpu={"name": "NVIDIA H200"})
CELLS = [cell for experiment in EXPERIMENTS for cell in cells(experiment, machine=WITH_GPU)]
FIGURES = {figure.name: figure.options for experiment in EXPERIMENTS for figure in experiment.figures}


def at_rates(rates, blocks=None, **where):
    """Return the cells of one case, each contender at its rate; `blocks` are those that a multiprocessor holds."""
    found = {c.contender: c for c in CELLS if all(c.axes.get(name) == value for name, value in where.items())}
    return [
        dataclasses.replace(
            found[name],
            samples_ns=[[found[name].facts["operations"] / rate] * 8],
            facts={**found[name].facts, "kernel": {"blocks": (blocks or {}).get(name, 1)}},
        )
        for name, rate in rates.items()
    ]


def test_factors_of_ideas_stand_beside_the_step_of_all_of_them():
    options, where = FIGURES["gpu_ablation"], {"rung": "gpu-warp-tiled", "n": 4096, "dtype": "float64"}
    ideas = dict(zip(options["ideas"], (20.0, 10.0, 40.0), strict=True))
    rates = {"gpu-warp-tiled": 40.0, **ideas, options["all"]: 5.0}
    assert FINDINGS["left_out"](at_rates(rates, **where), options) == (
        "Without any of its ideas gpu-warp-tiled takes 8.00 times as long (float64); "
        "scalar shared loads alone costs most (4.00)"
    )
    assert DETAILS["left_out"](at_rates(rates, **where), options) == "float64: the factors multiply to 8.00"
    slow = at_rates({**rates, options["pair"]: 20.0, options["all"]: 10.0}, **where)
    assert DETAILS["left_out"](slow, options).endswith(
        "multiply to 8.00, but scalar shared loads and A in rows together take 2.00 times as long, not 4.00"
    )


def test_a_second_stage_is_named_where_it_pays_most_and_least_with_its_blocks():
    where = {"role": "stages", "n": 4096, "dtype": "float64"}
    large = at_rates({"1 stage": 10.0, "2 stages": 15.0}, tile="128 x 128 x 16", **where)
    small = at_rates({"1 stage": 10.0, "2 stages": 9.0}, {"1 stage": 3}, tile="64 x 64 x 32", **where)
    assert FINDINGS["kernel_stages"]([*large, *small], {}) == (
        "A second stage gains most with tiles of 128 x 128 x 16, 1.50 times the speed (1 block either way), "
        "least with 64 x 64 x 32, 0.90 times the speed (3 blocks become 1)"
    )
    assert FINDINGS["kernel_stages"](large[:1], {}) == ""


def test_one_thread_a_row_stands_beside_one_an_element():
    options = FIGURES["gpu_rows"]
    rates = {"gpu-naive": 10.0, "gpu-row, 1 of B": 1.0, "gpu-row, 4 of B": 4.0, "gpu-row, 16 of B": 20.0}
    own = at_rates(rates, role="rows", a="A by rows")
    assert FINDINGS["rows"](own, options) == (
        "A thread for each row takes 10 times as long as a thread for each element with 1 column of B in shared "
        "memory, 0.5 times with 16 (A by rows)"
    )


def test_tiles_stand_beside_none_and_beside_their_own_loop():
    options, where = FIGURES["gpu_tile_size"], {"kernel": "classic", "semiring": "plus_times"}
    rates = {"untiled": 10.0, "4 x 4": 5.0, "32 x 32": 20.0, "32 x 32, rolled": 16.0}
    assert FINDINGS["tiles"](at_rates(rates, **where), options) == (
        "Tiles of 32 x 32 are 2.00 times as fast as no tiles (1.25 times the same tiles with a rolled loop); "
        "4 x 4 are slower than none"
    )


def test_rungs_of_one_block_are_held_against_each_other_at_each_size():
    rates, where = {"gpu-naive-block": 1.0, "gpu-naive": 2.0}, {"role": "one block"}
    own = [*at_rates(rates, n=16, **where), *at_rates({**rates, "gpu-naive": 1.25}, n=32, **where)]
    assert (
        FINDINGS["alike"](own, {})
        == "All rungs take 4.1 to 65.5 us up to n=32, and differ by 2.00 times at most (n=16)"
    )


def test_the_size_from_which_on_the_rate_is_near_its_best_is_said_by_problem():
    sweep = [cell for cell in cells(load_all()["gpu_sizes"], machine=WITH_GPU) if cell.contender == "gpu-tuned"]

    def at(cell):
        rate = 10.0 if cell.axes["n"] >= (2048 if cell.axes["semiring"] == "plus_times" else 4096) else 5.0
        return dataclasses.replace(cell, samples_ns=[[cell.facts["operations"] / rate] * 8])

    assert FINDINGS["grows"](list(map(at, sweep)), {"subject": "gpu-tuned"}) == (
        "gpu-tuned has 90 % of its best rate from n=2048 on over plus_times float32 and plus_times float64, "
        "from n=4096 on over min_plus float32"
    )
    assert FINDINGS["grows"]([], {"subject": "gpu-tuned"}) == ""
