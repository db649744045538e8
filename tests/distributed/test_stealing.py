"""Ranks that are done compute parts of the blocks of others."""

from __future__ import annotations

import math
import os
import threading

import numpy as np
import pytest

from backends.distributed._job import jobs
from backends.distributed._job.strategy import schedule_of
from harness import machine, registry
from harness.distributed.grid import Decomposition, Grid, Rectangle
from harness.distributed.stages import Stages
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.claims import Claims
from harness.distributed.transport.stealing import StealingProduct, cut, steals
from harness.operands import Operands
from harness.problem import Problem
from harness.tuning import distributed as tuning
from tests._support import planted_ranks, ranks
from tests._support.local_function import LocalFunction


class OfOneProcess:
    """A communicator whose ranks are threads of one process."""

    def __init__(self, rank: int, said: list, barrier: threading.Barrier) -> None:
        self._rank, self._said, self._barrier = rank, said, barrier

    def Get_rank(self) -> int:  # noqa: N802
        return self._rank

    def Get_size(self) -> int:  # noqa: N802
        return len(self._said)

    def Barrier(self) -> None:  # noqa: N802
        self._barrier.wait()

    def allgather(self, value):
        self._said[self._rank] = value
        self._barrier.wait()
        return list(self._said)


def multiply(a, b, c, alpha, beta, out):
    """Compute ``out := a b + beta c``."""
    out[...] = a @ b + (0 if c is None else (1 if beta is None else beta) * c)


def on_each_rank(sizes, wholes):
    """Return the products of all ranks, with what each has counted."""
    count = sizes.grid.size
    said, barrier, made = [None] * count, threading.Barrier(count), {}

    def make(rank: int) -> None:
        stages = Stages()
        made[rank] = (
            StealingProduct(OfOneProcess(rank, said, barrier), sizes, wholes, LocalFunction(multiply), stages),
            stages,
        )

    makers = [threading.Thread(target=make, args=(rank,)) for rank in range(count)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    return [made[rank] for rank in range(count)]


@pytest.mark.parametrize("shape", [(1, 1), (0, 5), (3, 0), (2, 1), (5, 7), (64, 200), (97, 193), (1024, 1024)])
def test_parts_cover_a_block_once_and_those_that_may_be_stolen_are_small(shape):
    block = Rectangle(7, 7 + shape[0], 3, 3 + shape[1])
    parts, held = cut(block), np.zeros((block.row_end, block.column_end), int)
    for part in parts:
        held[part.slices] += 1
    assert held.sum() == math.prod(shape)
    assert (held[block.slices] == 1).all()
    assert len(parts) <= 1 + tuning.STOLEN_PARTS
    assert min(shape) < 64 or all(part.words <= 0.15 * math.prod(shape) for part in parts[1:]), "the last are small"


def test_each_number_is_given_to_one_process_alone_in_order():
    own, count = Claims(), 200
    own.put(count)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        other = Claims(own.path)
        taken = list(iter(other.take, None))
        os.write(write, bytes(taken))
        os._exit(0)
    mine = list(iter(own.take, None))
    assert os.waitpid(child, 0)[1] == 0
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        others = list(answers.read())
    assert mine == sorted(mine)
    assert others == sorted(others)
    assert sorted(mine + others) == list(range(count))
    assert own.take() is None
    own.put(1)
    assert (own.take(), own.take()) == (0, None)
    own.close()


def test_a_queue_whose_maker_has_gone_is_empty():
    maker = Claims()
    other = Claims(maker.path)
    maker.close()
    assert other.take() is None
    other.close()


@pytest.mark.parametrize("adds", [False, True])
def test_a_rank_that_is_done_computes_what_the_others_have_not_begun(adds, rng):
    m, n, k = 203, 150, 9
    sizes = Decomposition(m, n, k, Grid(2, 2, 1))
    wholes = {"a": rng.random((m, k)), "b": rng.random((k, n)), "c": rng.random((m, n)), "d": np.full((m, n), np.nan)}
    made = on_each_rank(sizes, wholes)
    blocks = [sizes.d(rank) for rank in range(4)]
    for rank in (1, 3):  # these have begun, and compute nothing
        made[rank][0]._claims[rank].put(len(cut(blocks[rank])))
    first, stages = made[0]
    d, c = wholes["d"], wholes["c"] if adds else None
    first.ready(wholes["a"][blocks[0].slices[0]], None, c, None, 3.0 if adds else None, d[blocks[0].slices])()
    expected = wholes["a"] @ wholes["b"] + (3 * wholes["c"] if adds else 0)
    done = [np.allclose(d[block.slices], expected[block.slices]) for block in blocks]
    assert done == [True, True, False, True]
    assert np.isnan(d[blocks[2].slices]).all(), "it had not begun, so its operands may not be there"
    assert stages.words == {"steal": sum(sum(part.shape) * k for rank in (1, 3) for part in cut(blocks[rank]))}
    for product, _ in made:
        product.close()


def test_no_rank_steals_what_it_could_not_compute_as_its_owner_does():
    problem, many = Problem(64, 64, 64), tuning.STEAL_FROM_RANKS
    large = tuning.STEAL_FROM_PAIRS // (64 * 64 // many)

    def asked(grid, ranks=4, problem=problem, k=64, **options):
        return steals(Decomposition(64, 64, k, Grid.parse(grid)), problem, Schedule(**options), ranks)

    assert asked("2x2x1", steal=1)
    assert not asked("2x2x1")
    assert asked(f"{many}x1x1", many, k=large)
    assert not asked(f"{many}x1x1", many)
    assert not asked("2x2x1", k=large)
    assert not asked(f"{many}x1x1", many, k=large, steal=0)
    assert not asked("2x1x2", steal=1), "each has a partial sum"
    assert not asked("2x2x1", steal=1, panel=8), "panels are added up one after the other"
    assert not asked("1x1x1", 1, steal=1), "there is nobody"
    assert not asked("3x1x1", 4, steal=1), "a rank is idle"
    assert not asked("2x2x1", steal=1, problem=Problem(64, 64, 64, alpha=2.0)), "each part would scale its rows"


def test_ranks_of_several_threads_steal_only_if_they_are_asked_to():
    strategy = registry.find("dist-2d")
    plan = strategy.plan(Problem(64, 64, 64), machine.detect())
    for options, expected in (({}, "auto"), ({"rank_threads": 2}, 0), ({"rank_threads": 2, "steal": 1}, 1)):
        assert schedule_of(plan.override(options)).steal == expected


@pytest.mark.mpi
def test_a_slow_rank_of_a_job_is_helped(rng):
    ranks.need_mpi()
    problem = Problem(96, 80, 7)
    a, b = (rng.integers(-9, 9, shape).astype(float) for shape in ((96, 7), (7, 80)))
    operands, strategy = Operands(a, b, None, np.empty((96, 80))), registry.find("dist-2d")
    plan = strategy.plan(problem, machine.detect()).override({"base": "cpu-numpy", "ranks": 2, "steal": 1})
    try:
        job = strategy.prepare(plan, operands)
        job.apply(planted_ranks.slow_down, seconds=(0.01, 0.2))
        for _ in range(2):
            job.run()
            reports = job.report()
            assert np.array_equal(job.result(), a @ b)
            assert {report["steals"] for report in reports} == {True}
            assert reports[0]["words"]["steal"] > 0
            for report, words in zip(reports, map(strategy.sizes(plan).words, range(2)), strict=True):
                gathered = {"a": report["words"].get("gather A", 0), "b": report["words"].get("gather B", 0), "d": 0}
                assert gathered == words, "what is stolen is counted apart"
    finally:
        jobs.close_all()
