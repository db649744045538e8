"""Loads by formula, against loads that are counted by running the loops, through a cache of what was used last."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import OrderedDict

import pytest

from backends.gpu._program.nest import warp_tile
from harness import registry
from harness.analysis import rates
from harness.analysis.traffic import bounds, model
from harness.analysis.traffic.loads import depth_in, depth_of, loads
from harness.catalogue import load_all
from harness.interface.nest import Nest
from harness.problem import Problem
from tests._support.findings import of_figure
from tests._support.synthetic import MACHINE, cells

N = 16
PLAIN = Nest.of(("i", 1), ("j", 1), ("p", 1, "registers"))
A_ROW_A_THREAD = Nest.of(("j", 1), ("i", 1), ("p", 1, "registers"))
TILES = Nest.of(("i", 4), ("j", 4), ("p", 4, "shared"), ("i", 1), ("j", 1), ("p", 1, "registers"))
REGISTER_TILE = Nest.of(("i", 4), ("j", 3), ("p", 1, "registers"))
FIVE_LOOPS = Nest.of(("j", 8), ("p", 8), ("i", 6), ("j", 3), ("i", 2), ("p", 1, "registers"))
RANK_1 = Nest.of(("p", 1), ("i", 1), ("j", 1, "registers"))
NESTS = {
    "plain": PLAIN, "a row a thread": A_ROW_A_THREAD, "tiles": TILES, "register tile": REGISTER_TILE,
    "five loops": FIVE_LOOPS, "rank-1 updates": RANK_1,
}  # fmt: skip


def ranges(nest: Nest, sizes: dict[str, int]):
    """Yield every iteration of the loops as (depth that changed, range of each index): by running them."""

    def inside(depth, begin, end):
        if depth == len(nest.loops):
            yield dict(begin), dict(end)
            return
        index, step, _ = nest.loops[depth]
        for first in range(begin[index], end[index], step):
            yield from inside(depth + 1, {**begin, index: first}, {**end, index: min(first + step, end[index])})

    yield from inside(0, dict.fromkeys("ijp", 0), dict(sizes))


def accesses(nest: Nest, sizes: dict[str, int]):
    """Yield the operand and place of every element that each innermost iteration uses."""
    orders = {"a": nest.order_a, "b": nest.order_b, "c": "ij"}
    for begin, end in ranges(nest, sizes):
        for name, order in orders.items():
            for row, column in itertools.product(*(range(begin[index], end[index]) for index in order)):
                yield name, row, column


def counted(nest: Nest, sizes: dict[str, int], capacity: int, line: int = 1) -> dict[str, int]:
    """Count the elements that a cache of `capacity` elements, in lines of `line`, loads if it forgets the oldest."""
    held: OrderedDict[tuple, None] = OrderedDict()
    missed = dict.fromkeys("abc", 0)
    for name, row, column in accesses(nest, sizes):
        place = name, row, column // line
        if place in held:
            held.move_to_end(place)
            continue
        missed[name] += line
        held[place] = None
        if len(held) > capacity // line:
            held.popitem(last=False)
    return missed


def by_formula(nest: Nest, sizes: dict[str, int], depth: int, line: int = 1) -> dict[str, float]:
    found = loads(nest, sizes, 1, depth, line)
    return {"a": found.a, "b": found.b, "c": found.stores}  # a line of C is met as often as it is stored


CUBE = {"i": N, "j": N, "p": N}
OBLONG = {"i": 8, "j": 18, "p": 11}


@pytest.mark.parametrize("sizes", [CUBE, OBLONG], ids=["cube", "oblong"])
@pytest.mark.parametrize("name", NESTS)
def test_loads_into_registers_are_those_of_the_loops(name, sizes):
    """Through the smallest memory that holds one iteration, and the part of the next that is new."""
    nest = NESTS[name]
    depth = depth_of(nest, "registers")
    steps = {loop.over: loop.step for loop in nest.loops}  # the innermost of each
    i, j, p = (steps[index] for index in "ijp")
    once = i * p + p * j + i * j
    assert by_formula(nest, sizes, depth) == counted(nest, sizes, once)


@pytest.mark.parametrize("capacity", [40, 100, 200, 450, 900])
@pytest.mark.parametrize("name", NESTS)
def test_loads_into_a_cache_are_counted_within_what_a_cache_keeps_by_chance(name, capacity):
    """The formula has whole depths; a cache also keeps parts, and forgets parts. Totals stay within that."""
    nest = NESTS[name]
    own = sum(counted(nest, CUBE, capacity).values())
    ends = [
        sum(by_formula(nest, CUBE, depth_in(nest, CUBE, 1, room, 1)).values())
        for room in (2 * capacity, capacity / 2.2)
    ]
    assert ends[0] <= own <= ends[1]


@pytest.mark.parametrize(
    ("name", "capacity"), [("five loops", 130), ("tiles", 90), ("a row a thread", 50), ("plain", 400)]
)
def test_where_a_cache_has_room_to_spare_the_formula_is_exact(name, capacity):
    nest = NESTS[name]
    depth = depth_in(nest, CUBE, 1, capacity / 1.25, 1)
    assert 0 < depth < len(nest.loops)
    assert by_formula(nest, CUBE, depth) == pytest.approx(counted(nest, CUBE, capacity), rel=0.07)


def test_lines_are_wasted_down_a_column_that_no_cache_keeps():
    line = 8
    for capacity in (48, 1000):  # too few lines for a column of B; enough
        depth = depth_in(PLAIN, CUBE, 1, capacity / 1.25, line)
        assert by_formula(PLAIN, CUBE, depth, line) == counted(PLAIN, CUBE, capacity, line), capacity
    few, many = (sum(by_formula(PLAIN, CUBE, depth_in(PLAIN, CUBE, 1, c, line), line).values()) for c in (40, 800))
    assert few > 7 * many


def test_the_formulas_of_the_lectures():
    n, tile = 1024, 16
    cube = {"i": n, "j": n, "p": n}

    def elements(nest, memory="registers"):
        found = loads(nest, cube, 1, depth_of(nest, memory))
        return found.a + found.b

    assert elements(PLAIN) == 2 * n**3
    column_in_shared = Nest.of(("j", 1), ("i", 1, "shared"), ("p", 1, "registers"))
    assert elements(column_in_shared, "shared") == n**3 + n**2
    tiled = Nest.of(("i", tile), ("j", tile), ("p", tile, "shared"), ("i", 1), ("j", 1), ("p", 1, "registers"))
    assert elements(tiled, "shared") == 2 * n**3 / tile
    assert elements(Nest.of(("i", 8), ("j", 4), ("p", 1, "registers"))) == n**3 / 8 + n**3 / 4


def test_all_that_fits_is_not_loaded_again():
    assert depth_in(FIVE_LOOPS, CUBE, 8, 8 * 3 * N * N, 8) == 0
    assert depth_in(FIVE_LOOPS, CUBE, 8, 8 * 3 * N * N - 1, 8) > 0


def test_sums_that_stay_in_registers_are_written_once():
    nest = Nest.of(("i", 8), ("j", 8), ("p", 8, "shared"), ("i", 2), ("j", 2), ("p", 1, "registers"), keeps_sums=True)
    for memory in ("shared", "registers"):
        found = loads(nest, CUBE, 4, depth_of(nest, memory))
        assert (found.c, found.stores) == (0, 4 * N * N)


def test_a_warp_takes_a_whole_row_of_shared_memory_for_one_word():
    one_row = Nest.of(("i", 1), ("j", 32), ("p", 1, "registers"), keeps_sums=True)
    sizes = {"i": 64, "j": 64, "p": 64}
    found = loads(one_row, sizes, 4, depth_of(one_row, "registers"), 128, is_packed=True)
    assert found.a == found.b == 64**3 * 4  # 128 bytes for 32 pairs each


def test_a_warp_that_reads_rows_apart_takes_a_row_of_banks_for_each_word():
    column = Nest.of(("j", 1), ("i", 32), ("p", 1, "registers"), keeps_sums=True)
    sizes = {"i": 64, "j": 64, "p": 64}
    apart = dataclasses.replace(column, scattered="a")
    near, far = (loads(nest, sizes, 4, 3, 128, is_packed=True) for nest in (column, apart))
    assert far.a == 32 * near.a
    assert far.b == near.b
    assert Nest.from_json(apart.to_json()) == apart


def test_sizes_of_no_whole_blocks_are_counted_block_by_block():
    sizes = {"i": 13, "j": 11, "p": 9}
    found = loads(FIVE_LOOPS, sizes, 1, depth_of(FIVE_LOOPS, "registers"))
    blocks_of_j, blocks_of_i = 4, 3 + 3 + 1  # 3 3 3 2 of n; 2 2 2, 2 2 2 and 1 of m
    assert (found.a, found.b) == (13 * 9 * blocks_of_j, 9 * 11 * blocks_of_i)


def test_no_schedule_loads_less_than_the_bounds():
    for nest, capacity in itertools.product(NESTS.values(), (3, 12, 27, 48, 108, 192, 400)):
        own = sum(counted(nest, CUBE, capacity).values())
        assert own >= bounds.least_loads(N, N, N, capacity) >= 0


def test_a_tile_of_c_that_fills_the_memory_attains_the_bound():
    n, side = 3000, 100
    nest = Nest.of(("i", side), ("j", side), ("p", 1, "registers"))
    found = loads(nest, {"i": n, "j": n, "p": n}, 1, depth_of(nest, "registers"))
    elements = side * side + 2 * side
    assert 1 <= found.total / bounds.least_loads(n, n, n, elements) < 1.05
    assert 2 * n**3 / found.total <= math.sqrt(elements)  # operations a load


def test_balance_is_that_of_the_lecture():
    assert bounds.balance(2000, 200, 4) == 40  # 2 TFLOP/s, 200 GB/s, float32
    tile = bounds.balance(110, 14, 8)
    time_of_loads = 2 * N**3 / tile * 8 / 14
    assert math.isclose(time_of_loads, 2 * N**3 / 110)


def test_a_nest_survives_the_store():
    assert Nest.from_json(FIVE_LOOPS.to_json()) == FIVE_LOOPS


RUNGS = {
    "cpu-naive": 2,
    "cpu-transposed": 2,
    "cpu-tiled": 1,
    "gpu-naive": 2 / 32 + 31 / 32,  # of a warp's tile of 1 x 32
    "gpu-row": 1 + 1 / 32,  # of a tile of 32 x 1
    "gpu-tiled": 1 + 1 / 32,
}


@pytest.mark.parametrize(
    "name", [*RUNGS, "cpu-packed", "cpu-simd", "gpu-register-tiled", "gpu-warp-tiled", "gpu-pipelined", "gpu-tuned"]
)
def test_every_rung_states_the_loops_of_its_plan(name):
    n = 1024
    backend = next(entry.backend for entry in registry.discover() if entry.name == name)
    assert backend is not None
    plan = backend.plan(Problem(n, n, n, "plus_times", "float32"), MACHINE)
    nest = backend.loops(plan)
    assert nest is not None
    found = loads(nest, {"i": n, "j": n, "p": n}, 1, depth_of(nest, "registers"))
    each = (found.a + found.b) / n**3
    tile = (plan.blocking.mr, plan.blocking.nr) if plan.blocking else plan.launch and warp_tile(plan.launch)
    assert each == pytest.approx(RUNGS.get(name) or 1 / tile[0] + 1 / tile[1], rel=0.02)


def test_a_library_states_no_loops_and_an_order_of_loops_is_stated():
    entries = {entry.name: entry.backend for entry in registry.discover()}
    problem = Problem(64, 64, 64)
    assert entries["cpu-numpy"].loops(entries["cpu-numpy"].plan(problem, MACHINE)) is None
    naive = entries["cpu-naive"]
    plan = dataclasses.replace(naive.plan(problem, MACHINE), options={"loops": "ikj"})
    assert [loop.over for loop in naive.loops(plan).loops] == ["i", "p", "j"]


class TestPredictions:
    """Of planted cells: the model is min(peak, intensity x bandwidth) of the memory that allows least."""

    def cells(self):
        return cells(load_all()["intensity"])

    def test_the_memory_that_allows_least_bounds(self):
        everything = self.cells()
        packed = next(cell for cell in everything if cell.contender == "cpu-packed" and cell.axes["n"] == 512)
        names = [level.name for level in model.levels(packed, everything)]
        assert names == ["L1", "L2", "L3", "memory"]
        found = model.predict(packed, everything)
        assert found.level.name == "L1"  # all bandwidths are alike, and most passes from L1
        assert found.intensity == pytest.approx(2 / (8 * 0.53), rel=0.03)  # 1/4 + 1/4, and C in blocks of 64 steps
        assert found.rate == pytest.approx(found.intensity * found.level.bandwidth)
        assert model.over_measured(packed, everything) == pytest.approx(found.rate / packed.rate)

    def test_a_peak_below_all_roofs_bounds(self):
        everything = [
            dataclasses.replace(cell, samples_ns=[[1e-3 * ns for ns in cell.all_samples_ns]])
            if cell.axes.get("role") == "bandwidth"
            else cell
            for cell in self.cells()
        ]
        packed = next(cell for cell in everything if cell.contender == "cpu-packed")
        assert model.predict(packed, everything).bound == "peak"

    def test_without_loops_or_without_the_nearest_roof_nothing_is_predicted(self):
        everything = self.cells()
        packed = next(cell for cell in everything if cell.contender == "cpu-packed")
        silent = dataclasses.replace(packed, facts={k: v for k, v in packed.facts.items() if k != "nest"})
        assert model.predict(silent, everything) is None
        assert model.roof_of(silent, everything).level.name == "L3"  # 6 MiB of operands
        far = [cell for cell in everything if cell.axes.get("level") != "L1"]
        assert model.predict(packed, far) is None

    def test_bytes_of_both_rungs_of_a_sentence_come_from_the_memory_that_holds_the_first_back(self):
        nests = {
            "cpu-naive": PLAIN,
            "cpu-simd": Nest.of(("i", 64), ("j", 64), ("i", 8), ("j", 8), ("p", 1, "registers")),
        }
        everything = cells(load_all()["roofline"])
        shown = [
            dataclasses.replace(cell, facts={**cell.facts, "nest": nests[cell.contender].to_json()})
            if cell.contender in nests
            else cell
            for cell in everything
            if rates.is_roof(cell) or (cell.axes["shape"] == "square" and cell.contender in nests)
        ]
        first, subject = rates.contenders(shown)
        held_back_by = [model.predict(cell, shown).level.name for cell in (first, subject)]
        assert held_back_by == ["L2", "L1"]  # a column of B has too many lines for L1
        of_first, of_subject = (model.bytes_from(cell, shown) for cell in (first, subject))
        saved = {level.name: f"{of_first[level] / of_subject[level]:.3g}" for level in of_first}
        assert len(set(saved.values())) > 1
        found = of_figure(load_all()["roofline"], "roofline", shown)
        assert (found.subject, found.over) == ("cpu-simd", "cpu-naive")
        assert f"{saved['L1']} from L1, {saved['L2']} from L2 (which holds it back)" in found.note
