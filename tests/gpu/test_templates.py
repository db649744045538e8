"""Programs that are described once for many sizes hold what a description of each size holds."""

import dataclasses
import types

import numpy as np
import pytest

from backends.gpu._program import packed, templates
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Matrix, Place
from backends.gpu._program.symbols import Recording
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from tests.gpu.host_gpu import install
from tests.gpu.on_cpu import RUNGS

KINDS = {
    "gpu-tuned": (("plus_times", "float32", None), ("min_plus", "float64", None), ("max_plus", "int32", None)),
    "gpu-tensor-core": (("plus_times", "float64", None), ("plus_times", "float32", "float16"),
                        ("plus_times", "float32", None), ("plus_times", "int32", None)),
    "gpu-tiled": (("min_plus", "float32", None),),
}  # fmt: skip


def launches(program):
    """Return kernels, grids and arguments, addresses by number of the buffer and offset."""
    numbers, (steps, arguments) = program.numbers, program.packing._steps
    places = {slot: ("address", *rest) for slot, *rest in numbers.addresses}
    maps = {position: (tensor_map, places[slot]) for position, tensor_map, slot in numbers.maps}
    values = dict(enumerate(numbers.slots)) | places | maps
    each = [[values[slot] for slot in slots] for slots in arguments]
    return numbers.scratch_bytes, numbers.zeroed_bytes, steps, numbers.grids, each


@pytest.mark.deep(but=10)
@pytest.mark.parametrize("order", ("CC", "FC", "CF", "FF"))
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in KINDS.items() for kind in kinds])
def test_a_template_is_what_its_sizes_are_described_by(monkeypatch, name, kind, order):
    install(monkeypatch)
    monkeypatch.setattr(packed, "load_kernel", lambda *_: types.SimpleNamespace(ptr=1))
    semiring, dtype, narrow = kind
    rung, rng = RUNGS[name], np.random.default_rng(7)
    hits = 0
    like = Problem(
        9, 9, 9, SEMIRINGS[semiring], np.dtype(dtype), operand_dtype=narrow and np.dtype(narrow), layout=order + "C"
    )
    for number in range(60):
        m, n, k = (int(x) for x in rng.integers(1, (60, 400, 3000)[number % 3], 3))
        problem = like.laid_out(order + "C", m=m, n=n, k=k)
        sides, gap, matrices = {"a": (m, k), "b": (k, n), "out": (m, n)}, int(rng.choice([0, 0, 1, 4])), []
        plan = rung.plan(problem, detect())
        taken = rung.columns_taken(plan)
        for (buffer, (rows, columns)), letter in zip(sides.items(), order + "C", strict=True):
            by_columns = letter == "F" and buffer in taken
            line = rows if by_columns else columns
            matrices.append(Matrix(Place(buffer), line + gap, 16, by_columns, line=line))
        itemsizes = dict.fromkeys(sides, 4)
        described, of_self = rung._described(plan, *matrices)
        for _ in range(3):  # it is described for any sizes when its kind comes again
            found = templates.find(rung._described, plan, matrices, itemsizes)
        if found is not None:
            assert of_self is None
            assert launches(found) == launches(PackedProgram.of(described, itemsizes))
            hits += 1
    assert hits >= 40


class TestSymbols:
    def function(self, compute, **values):
        recording = Recording(values)
        return recording.function(compute(**recording.symbols))

    def test_arithmetic_holds_for_other_values(self):
        function = self.function(lambda m, n: (-(-m // 4) * n, 7 - m % 3, (m << 1) | 1, max(m, n)), m=9, n=5)
        for m, n in ((9, 5), (100, 5), (31, 30)):
            assert function(m, n) == (-(-m // 4) * n, 7 - m % 3, (m << 1) | 1, max(m, n))

    def test_other_decisions_are_none(self):
        function = self.function(lambda m, n: (max(n, m), 0), m=9, n=5)
        assert function(6, 5) == (6, 0)
        assert function(5, 6) is None

    @pytest.mark.parametrize(
        "use",
        (
            lambda m: [0] * 50 + list(range(m)),
            lambda m: f"{m}",
            str,
            float,
            lambda m: m / 2,
            lambda m: 3.5 * m,
            np.int64,
            np.float32,
        ),
    )
    def test_what_asks_the_value_holds_for_no_other(self, use):
        function = self.function(lambda m: (use(m), m), m=9)
        assert function(9)[1] == 9
        assert function(10) is None

    def test_nothing_is_kept_by_a_symbol(self):
        with pytest.raises(TypeError):
            self.function(lambda m: {m: 1}, m=9)

    def test_zero_is_a_value(self):
        assert self.function(lambda m, n: (m - n, 1), m=5, n=5)(8, 6) == (2, 1)


def test_a_plan_is_not_changed(monkeypatch):
    install(monkeypatch)
    rung = RUNGS["gpu-tuned"]
    problem = Problem(90, 80, 70, SEMIRINGS["plus_times"], np.dtype("float32"))
    plan = rung.plan(problem, detect())
    matrices = Matrix(Place("a"), 70, line=70), Matrix(Place("b"), 80, line=80), Matrix(Place("out"), 80, line=80)
    for _ in range(3):
        templates.find(rung._described, plan, matrices, dict.fromkeys(("a", "b", "out"), 4))
    assert plan == dataclasses.replace(plan)
    assert type(plan.problem.m) is int
