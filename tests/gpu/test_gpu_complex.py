"""Complex products on a GPU whose tiles the copy engine brings: too large for the host, and for the contract."""

import itertools

import pytest

from backends.gpu import four_m
from harness import registry
from harness.interface import prepare
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.verify import verify

pytestmark = pytest.mark.gpu

# Several rounds of tiles, edges of all kinds, rows whose lines are whole ones of a cache in each layout.
SIZES = {
    "CCC": (1003, 888, 72),
    "FFC": (1000, 901, 40),
    "CFF": (901, 1000, 136),
    "FCC": (1008, 1000, 37),
    "CFC": (2000, 2000, 520),
}


@pytest.mark.parametrize("layout", SIZES)
def test_complex_numbers_are_multiplied_as_they_lie(layout, monkeypatch):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    monkeypatch.setattr(four_m, "add_split", None)
    backend = registry.find("gpu-four-m")
    for conjugate, scalars in itertools.product(("", "a", "b", "ab"), ({}, {"accumulate": True, "beta": 0.5 - 1j})):
        problem = Problem(*SIZES[layout], dtype="complex128", layout=layout, conjugate=conjugate, **scalars)
        operands = Operands.generate(problem, 7)
        arrays = operands.a, operands.b, operands.c, operands.out
        there = Operands(*(None if x is None else cupy.asarray(x) for x in arrays))
        plan = backend.plan(problem, detect()).override({"base": "gpu-tensor-core"})
        product = prepare(backend, plan, there)
        for _ in range(2):
            there.out[...] = 77
            operands.out[...] = product.run_once().get()
            verify(problem, operands, operands.out, seed=1)
