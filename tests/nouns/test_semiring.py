"""How semirings are named, built, found and refused. The laws are in test_semiring_laws.py."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from backends.cpu._cache import cache
from harness import BINARY_OPS, MONOIDS, SEMIRINGS, Blocking, Plan, Problem, ProblemError, Semiring, gemm
from harness.semiring import as_semiring

FLOAT, INT, UNSIGNED, BOOL = (np.dtype(name) for name in ("float64", "int16", "uint8", "bool"))


def test_names_are_derived_from_the_operations() -> None:
    for name, semiring in SEMIRINGS.items():
        assert semiring.name == name == f"{semiring.add.name}_{semiring.multiply.name}"
        assert semiring.is_named
    assert not Semiring.of("max", "absdiff").is_named


def test_tables_hold_each_operation_under_its_name() -> None:
    for table in (MONOIDS, BINARY_OPS):
        assert all(op.name == name for name, op in table.items())


def test_only_plus_times_is_ordinary() -> None:
    assert [name for name, semiring in SEMIRINGS.items() if semiring.is_ordinary] == ["plus_times"]


def test_what_commutes_says_so() -> None:
    values = {"b": np.array([False, True, True, False]), "i": np.array([3, -5, 7, 2])}
    for op in BINARY_OPS.values():
        x = values["b" if op.kinds == "b" else "i"]
        assert op.ufunc is not None
        assert np.array_equal(op.ufunc(x[:, None], x), op.ufunc(x, x[:, None])) == op.is_commutative, op.name


def test_only_sums_of_exponentials_are_log_sums() -> None:
    assert [name for name, semiring in SEMIRINGS.items() if semiring.is_log_sum] == ["logaddexp_plus"]


def test_unknown_names_are_refused_with_the_closest() -> None:
    with pytest.raises(ProblemError, match="unknown semiring 'min_plsu'") as caught:
        as_semiring("min_plsu")
    assert caught.value.fix == "did you mean 'min_plus'?"
    with pytest.raises(ProblemError, match="unknown monoid 'pls'") as caught:
        Semiring.of("pls", "times")
    assert "plus" in caught.value.fix
    with pytest.raises(ProblemError, match="unknown binary operation"):
        Semiring.of("plus", "tims")
    with pytest.raises(ProblemError, match="unknown monoid"):
        Semiring.of(["plus"], "times")


@pytest.mark.parametrize(("parts", "who"), [(("plus", "times"), "add"), ((MONOIDS["plus"], max), "multiply")])
def test_a_semiring_of_other_parts_says_what_takes_them(parts: Any, who: str) -> None:
    with pytest.raises(ProblemError, match=f"Semiring: {who}") as caught:
        Semiring(*parts)
    assert "Semiring.of takes names" in caught.value.fix


@pytest.mark.parametrize("value", [None, 3, max, ("min", "plus"), np.array(["min_plus"])])
def test_what_is_no_semiring_is_refused(value: Any) -> None:
    with pytest.raises(ProblemError, match="neither a name nor a Semiring"):
        as_semiring(value)


def test_semirings_from_functions_carry_their_identities() -> None:
    own = Semiring.from_functions("own", lambda c, t: c + t, lambda x, y: x * y, zero=0, one=lambda d: d.type(1))
    assert own.zero(INT) == 0
    assert own.zero(INT).dtype == INT
    assert own.one(FLOAT) == 1.0
    assert not own.is_named
    assert not own.is_ordinary
    assert Semiring.from_functions("oneless", min, max, zero=0).one(FLOAT) is None


def test_semirings_from_functions_need_functions_and_a_free_name() -> None:
    with pytest.raises(ProblemError, match="in the table already"):
        Semiring.from_functions("min_plus", min, max, zero=0)
    with pytest.raises(ProblemError, match="multiply is not a function"):
        Semiring.from_functions("own", min, "max", zero=0)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="add does not take two scalars") as caught:
        Semiring.from_functions("own", lambda c: c, max, zero=0)
    assert caught.value.got == "a function of (c)"
    Semiring.from_functions("own", lambda *scalars: scalars[0], lambda x, y, z=0: x, zero=0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"zero": None}, "zero is no number"),
        ({"zero": "x"}, "zero is no number"),
        ({"one": [1, 2]}, "one is no number"),
        ({"kinds": None}, "kinds is not understood"),
        ({"kinds": ["f"]}, "kinds is not understood"),
        ({"kinds": "fx"}, "kinds is not understood"),
        ({"name": ["own"]}, "the name of a semiring is no word"),
        ({"name": ""}, "the name of a semiring is no word"),
        ({"name": "  "}, "the name of a semiring is no word"),
    ],
)
def test_semirings_from_functions_need_numbers_and_kinds(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        Semiring.from_functions(**{"name": "own", "add": max, "multiply": min, "zero": 0, **options})


def _fails(dtype: np.dtype) -> int:
    raise KeyError(dtype.name)


@pytest.mark.parametrize(
    ("dtype", "options", "reason"),
    [
        ("int64", {"zero": np.inf}, "its zero, inf, is no value of int64"),
        ("int8", {"zero": 300}, "its zero, 300, is no value of int8"),
        ("int64", {"zero": 0.5}, "its zero, 0.5, is no value of int64"),
        ("uint8", {"one": -1}, "its one, -1, is no value of uint8"),
        ("float64", {"zero": lambda dtype: "q"}, "its zero, 'q', is no value of float64"),
        ("float64", {"one": _fails}, "its one cannot be computed: KeyError: 'float64'"),
        ("float64", {"multiply": lambda x, y: (x, y)}, "multiply returns a tuple, and no scalar"),
        ("float32", {"zero": 0.1}, None),
        ("int8", {"zero": lambda dtype: np.iinfo(dtype).max, "add": min}, None),
        ("float64", {"add": min}, "its zero, 0.0, is no identity of add: add(0.0, 1.0) is 0.0"),
        ("float64", {"add": min, "zero": np.nan}, "its zero, nan, is no identity of add: add(nan, 1.0) is nan"),
        ("int32", {"one": 0}, "its one, 0, is no identity of multiply: multiply(0, 1) is 0"),
        ("bool", {"zero": 0, "kinds": "b"}, None),
        ("float64", {"add": lambda c, t: c.only_known_to_numba}, None),
    ],
)
def test_functions_of_the_users_own_have_values_of_the_dtype(dtype: str, options: dict[str, Any], reason: Any) -> None:
    own = Semiring.from_functions(**{"name": "own", "add": max, "multiply": min, "zero": 0, **options})
    assert own.unsupported(np.dtype(dtype)) == reason


def test_dtypes_are_refused_with_a_reason() -> None:
    assert "not defined for bool" in str(SEMIRINGS["min_plus"].unsupported(BOOL))
    assert "not defined for float64" in str(SEMIRINGS["lor_land"].unsupported(FLOAT))
    assert "not defined for int16" in str(SEMIRINGS["logaddexp_plus"].unsupported(INT))
    assert "absorbs" in str(SEMIRINGS["max_plus"].unsupported(UNSIGNED))
    assert SEMIRINGS["min_plus"].unsupported(UNSIGNED) is None


def test_only_selected_integer_sums_absorb() -> None:
    assert SEMIRINGS["min_plus"].absorbs(INT)
    assert not SEMIRINGS["min_plus"].absorbs(FLOAT)
    assert not SEMIRINGS["max_times"].absorbs(INT)
    assert not Semiring.of("plus", "plus").absorbs(INT)


def twice(x: Any, y: Any) -> Any:
    return x + 2 * y


OWN = Semiring.from_functions("own", max, twice, zero=-np.inf, is_selective=True)
COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_what_stands_in_the_table_is_the_same(how: str) -> None:
    for table in (SEMIRINGS, MONOIDS, BINARY_OPS):
        for x in table.values():
            assert COPIES[how](x) is x


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_made_semiring_equals_it_and_has_its_kernels(how: str) -> None:
    for semiring in (OWN, *(Semiring.of(add, multiply) for add in MONOIDS for multiply in BINARY_OPS)):
        twin = COPIES[how](semiring)
        assert twin == semiring
        assert hash(twin) == hash(semiring)  # caches know kernels by it
        assert twin.zero(FLOAT) == semiring.zero(FLOAT)
        assert twin.one(FLOAT) == semiring.one(FLOAT)


def test_a_twin_compiles_nothing_anew() -> None:
    semiring = Semiring.of("max", "absdiff")
    a = np.arange(12.0).reshape(3, 4)
    expected = gemm(a, a.T, semiring=semiring, backend="cpu-naive")
    before = dict(cache.counts)
    for how in COPIES.values():
        assert np.array_equal(gemm(a, a.T, semiring=how(semiring), backend="cpu-naive"), expected)
    assert dict(cache.counts) == before


@pytest.mark.parametrize("how", COPIES)
def test_problems_and_plans_are_copied_too(how: str) -> None:
    for semiring in ("min_plus", Semiring.of("max", "absdiff"), OWN):
        problem = Problem(3, 4, 5, semiring, FLOAT, alpha=2.0, accumulate=True)
        plan = Plan(problem, 2, Blocking(8, 8, 8, 4, 4), {"reuse": 2})
        assert COPIES[how](problem) == problem
        assert COPIES[how](plan) == plan


def test_a_name_that_another_version_does_not_know_is_told() -> None:
    data = pickle.dumps(SEMIRINGS["min_plus"]).replace(b"min_plus", b"min_plsu")
    with pytest.raises(ProblemError, match="unknown semiring 'min_plsu'"):
        pickle.loads(data)
