"""Products by the engines between GPUs: on GPUs that do not exist, whose streams run ahead, and on real ones.

On a machine with one GPU several ranks share it, which all engines but NCCL allow.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from backends.distributed._job import launcher
from harness import registry
from harness.distributed.grid import Decomposition, Grid
from harness.distributed.transport import choice, gpus
from harness.dtypes import named_dtype
from harness.errors import Declined, PlanError
from harness.machine import detect
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from tests._support.processes import ROOT
from tests._support.processes import run as start


def run(ranks: int, *arguments: str, program: str = "gpu_ranks") -> str:
    """Run the program of a rank on so many, and return what it printed; it must end well."""
    module = f"tests._support.{program}"
    command = [str(launcher.mpiexec()), "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module]
    own = {**launcher.PERMISSIONS, **os.environ}
    return start(*command, *arguments, env=own, PYTHONPATH=str(ROOT), NCCL_NVLS_ENABLE="0").stdout


@pytest.mark.parametrize(
    ("ranks", "order"), [(1, "newest"), (3, "fake"), pytest.param(4, "newest", marks=pytest.mark.deep)]
)
def test_engines_give_the_product_and_the_words_of_the_formula_whichever_stream_is_ahead(ranks, order):
    assert " 0 wrong" in run(ranks, order, "copy", "staged")


@pytest.mark.parametrize(("lost", "order"), [("arrival", "fake"), ("release", "newest")])
def test_a_missing_event_is_found(lost, order):
    with pytest.raises(AssertionError, match="expected"):
        run(4, order, "copy", f"lose-{lost}")


def test_operands_are_drawn_on_the_devices_and_proven_there():
    assert run(2, "newest", "copy", "staged", program="drawn_on_gpus") == "12 products, 0 wrong\n"


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_engines_give_the_product_on_gpus(ranks):
    if not gpus.count():
        pytest.skip("no CUDA device")
    engines = ["copy", "staged"] + (["nccl"] if ranks <= gpus.count() else [])
    assert " 0 wrong" in run(ranks, "real", *engines)


def test_more_ranks_than_gpus_are_refused_unless_they_may_share(monkeypatch):
    monkeypatch.setattr(gpus, "count", lambda: 2)
    on_gpus = next(entry.backend for entry in registry.discover() if entry.name == "gpu-cublas")
    monkeypatch.setattr(registry, "admit", lambda name, problem: on_gpus)  # as if CuPy were installed
    strategy = registry.find("dist-2d")
    plan = strategy.plan(Problem(64, 64, 64, SEMIRINGS["plus_times"]), detect())
    assert strategy.sizes(plan.override({"base": "gpu-cublas"})).grid.size == 2
    with pytest.raises(PlanError, match="4 ranks would share 2 GPUs"):
        strategy.sizes(plan.override({"base": "gpu-cublas", "ranks": 4}))
    assert strategy.sizes(plan.override({"base": "gpu-cublas", "ranks": 4, "share_gpu": 1})).grid.size == 4


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2"])
def test_pieces_of_what_cupy_cannot_make_are_declined_on_gpus_in_one_sentence(name):
    strategy = registry.find("dist-2d")
    problem = Problem(64, 64, 64, SEMIRINGS["plus_times"], np.dtype("float32"), operand_dtype=named_dtype(name))
    plan = strategy.plan(problem, detect())
    with pytest.raises(Declined, match=f"^dist-2d: pieces on GPUs are not {name}: float16 operands, or a base on pro"):
        strategy.assignment(plan.override({"base": "gpu-cublas", "ranks": 1}))


@pytest.mark.parametrize("grid", ["2x3x1", "3x2x2", "1x1x4", "1x1x1"])
@pytest.mark.parametrize(("panel", "in_flight"), [(0, 4), (5, 1), (7, 3)])
def test_panels_that_end_with_pieces_are_predicted_as_they_are_allocated(grid, panel, in_flight):
    sizes = Decomposition(24, 36, 60, Grid.parse(grid))
    for rank in range(sizes.grid.size):
        panels = sizes.panels(rank, panel, at_pieces=True)
        for cuts in (sizes.a_cuts(rank), sizes.b_cuts(rank)):
            for begin, end in panels:
                assert not any(begin < cut < end for cut in cuts)
        gathered = (24 // sizes.grid.pm) * (sizes.grid.pn > 1) + (36 // sizes.grid.pn) * (sizes.grid.pm > 1)
        room = min(in_flight, len(panels)) * max(end - begin for begin, end in panels) * gathered
        held = sizes.a(rank).words + sizes.b(rank).words
        assert sizes.input_words(rank, panel, in_flight, at_pieces=True) == held + room
        is_one = grid in ("1x1x4", "1x1x1")  # nothing is gathered, so nothing is gained by panels
        assert (len(panels) == 1) == is_one


def test_an_engine_is_an_option_with_legal_values():
    strategy = registry.find("dist-2d")
    plan = strategy.plan(Problem(64, 64, 64, SEMIRINGS["plus_times"]), detect())
    for engine in ("auto", "shared"):
        assert set(strategy.sizes(plan.override({"transport": engine})).hosts) == {0}
    assert strategy.sizes(plan.override({"transport": "mpi"})).hosts == ()
    for engine in set(choice.ENGINES) - {"auto", "shared", "mpi"}:
        with pytest.raises(PlanError, match=r"cannot work between processors\n.*'shared' or 'mpi'"):
            strategy.sizes(plan.override({"transport": engine}))
    with pytest.raises(PlanError, match="transport has no such value"):
        strategy.sizes(plan.override({"transport": "pigeon"}))


def test_ranks_share_memory_with_those_of_their_host():
    domains = ["one", "one", "two", "two", ""]
    assert choice.hosts_of(domains, "auto", on_device=False) == (0, 0, 2, 2, 4)
    assert choice.hosts_of(domains, "mpi", on_device=False) == ()
    assert choice.hosts_of(domains, "auto", on_device=True) == ()
    with pytest.raises(PlanError, match=r"the ranks share no memory\n.*\n.*3 hosts"):
        choice.hosts_of(domains, "shared", on_device=False)
    with pytest.raises(PlanError, match="'mpi' cannot work between GPUs"):
        choice.hosts_of(domains, "mpi", on_device=True)
    sizes = Decomposition(8, 8, 8, Grid(2, 2, 1), hosts=(0, 0, 2, 2))
    assert [sizes.shared(rank) for rank in range(4)] == [{"a"}] * 4, "rows of the grid lie on one host, columns do not"
    assert Decomposition(8, 8, 8, Grid(1, 1, 4), hosts=(0,) * 4).shared(3) == {"d"}
