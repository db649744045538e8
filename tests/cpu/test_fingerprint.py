"""What kernels are made of, as digests: what differs in any way differs, what is made again does not."""

import itertools
import pickle
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

from backends.cpu._cache.fingerprint import Uncertain, digest
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.numpy_object import OBJECT, ObjectType
from harness import SEMIRINGS, Semiring

ROOT = Path(__file__).resolve().parents[2]


def ours(source, **names):
    """Return the function `f` that `source` defines, as if it stood in the folder of the kernels."""
    namespace = {"__name__": "backends.cpu._made_up", "np": np, "numba": numba, **names}
    exec(compile(source, str(ROOT / "backends" / "cpu" / "_made_up.py"), "exec"), namespace)
    return namespace["f"]


def closure(value):
    return ours("def make(x):\n    def f(y):\n        return x\n    return f\nf = make")(value)


def intrinsic(x):
    source = """
from numba.extending import intrinsic
def make(x):
    @intrinsic
    def generated(typing_context, y):
        def emit(context, builder, signature, values):
            return helper(builder, x)
        return y(y), emit
    return generated
f = make
"""
    return ours(source, helper=ours("def f(b, x): return b.add(x, x)"))(x)


def reading_global(value):
    return ours("def f(y): return y + X", X=value)


def emitting_through(value):
    source = "from numba.extending import intrinsic\n@intrinsic\ndef f(typing_context, y): return helper(y)"
    return ours(source, helper=value)


VALUES = (
    *(1, 2, True, 1.0, 0.0, -0.0, float("nan"), "1", b"1", None, (1,), [1], ((1,),), (1, 1), {"a": 1}),
    *(np.float32(1), np.float64(1), np.int64(1), np.uint64(1), np.dtype("f4"), np.dtype("f8"), np.float32, np.float64),
    *(frozenset({1}), types.intp, types.int32, types.Array(types.intp, 2, "C"), types.Array(types.intp, 2, "A")),
    *(SEMIRINGS[name] for name in ("min_plus", "max_plus", "plus_times")),
)
PAIRS = {
    "functions": [ours("def f(x): return x + 1"), ours("def f(x): return x + 2"), ours("def f(x): return x - 1")],
    "defaults": [ours("def f(x=1): return x"), ours("def f(x=2): return x")],
    "inner functions": [ours("def f(x): return (lambda: 1)()"), ours("def f(x): return (lambda: 2)()")],
    "globals": [reading_global(1), reading_global(2), reading_global(1.0)],
    "closures of closures": [closure(closure(1)), closure(closure(2))],
    "dispatchers": [closure(numba.njit(closure(1))), closure(numba.njit(closure(2)))],
    "options": [numba.njit(closure(1)), numba.njit(fastmath=True)(closure(1)), numba.njit(parallel=True)(closure(1))],
    "intrinsics": [intrinsic(1), intrinsic(2)],
    "what emitters call": [
        emitting_through(ours("def f(y): return y")),
        emitting_through(ours("def f(y): return -y")),
    ],
    "operators": [
        operators(SEMIRINGS[name], np.dtype(dtype)).multiply
        for name, dtype in itertools.product(("min_plus", "plus_times", "max_plus"), ("i4", "i8", "f4"))
    ][:7],
}


def test_values_that_differ_have_digests_that_differ():
    digests = {digest(closure(value)): value for value in VALUES}
    assert len(digests) == len(VALUES)


@pytest.mark.parametrize("what", PAIRS)
def test_functions_that_differ_have_digests_that_differ(what):
    assert len({digest(value) for value in PAIRS[what]}) == len(PAIRS[what])


def test_what_is_made_again_has_the_same_digest():
    for make in (lambda: closure((1, "a", np.float32(2))), lambda: intrinsic(1), lambda: numba.njit(closure(1))):
        assert digest(make()) == digest(make())


def test_a_function_that_refers_to_itself_has_a_digest():
    source = "def make():\n    def f(x):\n        return f(x - {0})\n    return f\nf = make()"
    first, again, other = (digest(ours(source.format(step))) for step in (1, 1, 2))
    assert first == again != other


UNCERTAIN = {
    "function of a user": lambda x: x,
    "semiring of a user": Semiring.from_functions("mine", min, lambda x, y: x, zero=0),
    "compiled function of a user": numba.njit(lambda x: x),
    "perhaps an address": 0x7F3A_0000_1000,
    "perhaps an address, by NumPy": np.uint64(0x7F3A_0000_1000),
    "object": object(),
    "array": np.zeros(3),
    "record": np.dtype([("x", "f4")]),
    "function type": types.FunctionType(types.void()),
    "method of an object": [].append,
    "module of a user": sys.modules[__name__],
}


@pytest.mark.parametrize("what", UNCERTAIN)
def test_what_cannot_be_told_is_refused(what):
    value = UNCERTAIN[what]
    for user in (closure(value), closure((1, value)), numba.njit(closure(value))):
        with pytest.raises(Uncertain):
            digest(user)


def test_a_class_stays_the_same_when_an_object_of_it_is_kept(monkeypatch):
    monkeypatch.delattr(ObjectType, "__slotnames__", raising=False)
    before = digest(OBJECT)
    pickle.dumps(OBJECT)
    assert "__slotnames__" in vars(ObjectType)  # Python's own note
    assert digest(OBJECT) == before
