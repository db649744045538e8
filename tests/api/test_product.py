"""The public call: what it takes, what it returns, and how it says no before any work."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import hypothesis
import numba
import numpy as np
import pytest
from hypothesis import strategies as st

from harness import SEMIRINGS, BackendUnavailable, Operands, Problem, ProblemError, Semiring, gemm, machine, registry
from harness.api.choice import choose
from harness.proof.reference import product
from harness.proof.verify import verify
from harness.tuning import static_order
from tests._support.bools import assert_bools, bools_of_any_byte, truth

EITHER = pytest.mark.parametrize("backend", ["cpu-naive", "auto"])


def _reference(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, **options: Any) -> np.ndarray:
    problem = Problem(a.shape[0], b.shape[1], a.shape[1], dtype=a.dtype, accumulate=c is not None, **options)
    return product(problem, a, b, c)


def _numbers(*shape: int, dtype: str = "float64", seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


# ------------------------------------------------------------------------------------------------ what it takes


def _unaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


VIEWS = {
    "C order": lambda x: x.copy(),
    "Fortran order": np.asfortranarray,
    "transposed": lambda x: x.T.copy().T,
    "sliced": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "negative strides": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "a row repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "unaligned": _unaligned,
    "list": lambda x: x.tolist(),
    "matrix": lambda x: x.view(np.matrix),
}


@EITHER
@pytest.mark.parametrize("of_b", VIEWS)
@pytest.mark.parametrize("of_a", VIEWS)
def test_any_view_gives_the_same_product(of_a: str, of_b: str, backend: str) -> None:
    a, b = VIEWS[of_a](_numbers(5, 7)), VIEWS[of_b](_numbers(7, 6, seed=2))
    before = np.array(a), np.array(b)
    got = gemm(a, b, semiring="min_plus", backend=backend)
    assert got.flags.c_contiguous
    assert got.dtype == np.float64
    assert type(got) is np.ndarray
    assert np.array_equal(got, _reference(np.array(a, float), np.array(b, float), semiring="min_plus"))
    assert np.array_equal(before[0], a)
    assert np.array_equal(before[1], b)


@EITHER
def test_read_only_operands_are_taken(backend: str) -> None:
    a, b, c = _numbers(5, 7), _numbers(7, 6), _numbers(5, 6)
    for x in (a, b, c):
        x.flags.writeable = False
    got = gemm(a, b, c, alpha=2, beta=3, backend=backend)
    assert np.array_equal(got, _reference(a, b, c, alpha=2, beta=3))


@EITHER
@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_sizes(m: int, n: int, k: int, backend: str) -> None:
    for name in ("plus_times", "min_plus"):
        got = gemm(np.ones((m, k)), np.ones((k, n)), semiring=name, backend=backend)
        assert got.shape == (m, n)
        if k == 0:
            assert (got == SEMIRINGS[name].zero(np.dtype(np.float64))).all()
        c = np.full((m, n), 4.0)
        assert gemm(np.ones((m, k)), np.ones((k, n)), c, semiring=name, backend=backend).shape == (m, n)
        if k == 0:
            assert (gemm(np.ones((m, k)), np.ones((k, n)), c, semiring=name, backend=backend) == 4).all()


@EITHER
def test_leading_dimensions_broadcast_as_in_matmul(backend: str) -> None:
    for shape_a, shape_b in (((4, 3, 5), (5, 2)), ((3, 5), (4, 5, 2)), ((2, 1, 3, 5), (4, 5, 2)), ((0, 3, 5), (5, 2))):
        a, b = _numbers(*shape_a), _numbers(*shape_b, seed=2)
        assert np.array_equal(gemm(a, b, backend=backend), a @ b)
    a, b, c = _numbers(3, 5), _numbers(5, 2), _numbers(4, 3, 2)
    assert np.array_equal(gemm(a, b, c, backend=backend), a @ b + c)
    out = np.full((4, 3, 2), np.nan)
    assert gemm(a, b, c, out=out, backend=backend) is out
    assert np.array_equal(out, a @ b + c)


@EITHER
def test_alpha_beta_and_c(backend: str) -> None:
    a, b, c = _numbers(5, 7), _numbers(7, 6), _numbers(5, 6)
    assert np.array_equal(gemm(a, b, c, backend=backend), a @ b + c)
    assert np.array_equal(gemm(a, b, c, alpha=2, beta=-3, backend=backend), 2 * (a @ b) - 3 * c)
    assert np.array_equal(gemm(a, b, np.full((5, 6), np.nan), beta=0, backend=backend), a @ b)
    for alpha, beta in ((4.0, None), (None, -2.0), (np.inf, -2.0), (3.0, np.inf)):
        got = gemm(a, b, c, semiring="min_plus", alpha=alpha, beta=beta, backend=backend)
        assert np.array_equal(got, _reference(a, b, c, semiring="min_plus", alpha=alpha, beta=beta))


@EITHER
def test_out_may_be_or_overlap_any_operand(backend: str) -> None:
    a, b, c = _numbers(6, 6), _numbers(6, 6, seed=2), _numbers(6, 6, seed=3)
    expected = 2 * (a @ b) + 3 * c
    for place in "abc":
        operands = {"a": a.copy(), "b": b.copy(), "c": c.copy()}
        out = operands[place]
        assert gemm(**operands, alpha=2, beta=3, out=out, backend=backend) is out
        assert np.array_equal(out, expected)
    buffer = np.zeros((9, 6))
    buffer[:6] = a
    gemm(buffer[:6], b, out=buffer[3:], backend=backend)
    assert np.array_equal(buffer[3:], a @ b)
    turned = a.copy()
    gemm(turned, b, out=turned.T, backend=backend)
    assert np.array_equal(turned.T, a @ b)
    backwards = c.copy()
    gemm(a, b, backwards, out=backwards[::-1], backend=backend)
    assert np.array_equal(backwards[::-1], a @ b + c)


@EITHER
def test_out_of_any_strides_is_written_in_place(backend: str) -> None:
    a, b = _numbers(5, 7), _numbers(7, 6)
    wide = np.full((10, 18), -1.0)
    for out in (np.full((5, 6), np.nan, order="F"), wide[::2, ::-3], _unaligned(np.zeros((5, 6)))):
        assert gemm(a, b, out=out, backend=backend) is out
        assert np.array_equal(out, a @ b)
    assert (wide[1::2] == -1).all()


def test_result_never_aliases_an_input() -> None:
    a, b, c = _numbers(4, 4), np.eye(4), np.zeros((4, 4))
    result = gemm(a, b, c)
    assert not any(np.shares_memory(result, x) for x in (a, b, c))


@pytest.mark.parametrize(
    ("of_a", "of_b", "expected"),
    [
        ("int8", "int8", "int8"),
        ("int8", "uint8", "int16"),
        ("int32", "float32", "float64"),
        ("bool", "uint8", "uint8"),
        ("float32", "float64", "float64"),
        ("uint64", "int64", "float64"),
    ],
)
def test_result_has_the_promoted_dtype(of_a: str, of_b: str, expected: str) -> None:
    a, b = np.ones((2, 3), of_a), np.ones((3, 2), of_b)
    got = gemm(a, b)
    assert got.dtype == expected
    assert (got == 3).all()
    assert gemm(a, b, np.ones((2, 2))).dtype == np.float64


def test_integers_wrap_in_sums_and_saturate_in_paths() -> None:
    x = np.full((1, 1), 100, np.int8)
    assert gemm(x, x)[0, 0] == 10000 - 39 * 256
    assert gemm(x, x, semiring="min_plus")[0, 0] == 127
    assert gemm(-x, -x, semiring="min_plus")[0, 0] == -128
    assert gemm(x * 0 + 127, -x, semiring="min_plus")[0, 0] == 127


# ---------------------------------------------------------------------------------------------- what it refuses

TWO = np.ones((2, 2))


class Unreadable:
    """What refuses to be an array of NumPy, as a tensor of PyTorch that requires gradients."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("can't call numpy()")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "inner sizes": ({"a": np.ones((2, 3)), "b": np.ones((2, 3))}, "inner sizes of a and b differ"),
    "one-dimensional a": ({"a": np.ones(2)}, "a is not a matrix"),
    "scalar b": ({"b": 3.0}, "b is not a matrix"),
    "shape of c": ({"c": np.ones((2, 3))}, "c does not have the shape"),
    "batches": ({"a": np.ones((2, 2, 2)), "b": np.ones((3, 2, 2))}, "leading dimensions do not broadcast"),
    "complex a": ({"a": TWO * 1j}, "out cannot take the result"),
    "object": ({"a": TWO.astype(object)}, "does not hold numbers"),
    "strings": ({"b": [["x"]]}, "does not hold numbers"),
    "dates": ({"b": TWO.astype("datetime64[s]")}, "does not hold numbers"),
    "ragged list": ({"a": [[1], [1, 2]]}, "(?s)a is no array.*rows of one length"),
    "nothing": ({"a": None}, "does not hold numbers"),
    "masked": ({"a": np.ma.masked_equal(TWO, 3)}, "masked array"),
    "float16": ({"a": TWO.astype(np.float16), "b": TWO.astype(np.float16)}, "does not take float16"),
    "longdouble": ({"a": TWO.astype(np.longdouble)}, "not supported"),
    "bool in plus_times": ({"a": TWO > 0, "b": TWO > 0}, "does not take bool"),
    "floats in lor_land": ({"semiring": "lor_land"}, "lor_land does not take float64"),
    "unknown semiring": ({"semiring": "min_pluss"}, "unknown semiring"),
    "no semiring": ({"semiring": 3}, "neither a name nor a Semiring"),
    "beta without c": ({"beta": 2.0}, "beta is given without a C"),
    "NaN alpha": ({"alpha": np.nan}, "alpha is NaN"),
    "array alpha": ({"alpha": [1.0, 2.0]}, "alpha is no value"),
    "complex alpha": ({"alpha": 1j}, "alpha is no value"),
    "alpha of another library": ({"alpha": Unreadable()}, "alpha is no value"),
    "alpha that does not fit": ({"a": TWO.astype(int), "b": TWO.astype(int), "alpha": 0.5}, "alpha is no value"),
    "out of another shape": ({"out": np.empty((2, 3))}, "out cannot take the result"),
    "out of another dtype": ({"out": np.empty((2, 2), np.float32)}, "out cannot take the result"),
    "big-endian out": ({"out": np.empty((2, 2), ">f8")}, "out cannot take the result"),
    "out that is masked": ({"out": np.ma.zeros((2, 2))}, "out cannot take the result"),
    "out that is a list": ({"out": [[0.0, 0.0]] * 2}, "out cannot take the result"),
    "out that repeats": (
        {"out": np.lib.stride_tricks.as_strided(np.empty(2), (2, 2), (0, 8))},
        "elements that share memory",
    ),
    "out that overlaps itself": (
        {"out": np.lib.stride_tricks.as_strided(np.empty(3), (2, 2), (8, 8))},
        "elements that share memory",
    ),
    "a list of triangles": ({"triangle": ["a"]}, "triangle is not understood"),
    "no threads": ({"threads": 0}, "threads is no number of threads"),
    "negative threads": ({"threads": -1}, "threads is no number of threads"),
    "too many threads": ({"threads": 10**6}, "threads is no number of threads"),
    "half a thread": ({"threads": 1.5}, "threads is no number of threads"),
    "true threads": ({"threads": True}, "threads is no number of threads"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_done_raises_before_any_work(what: str) -> None:
    changed, says = REFUSED[what]
    out = np.full((2, 2), 7.0)
    arguments = {"a": TWO, "b": TWO, "out": out, **changed}
    with pytest.raises(ProblemError, match=says):
        gemm(**arguments)
    assert (out == 7).all()


@pytest.mark.parametrize("triangle", [None, False, 0, (), []])
def test_what_is_no_triangle_is_refused_in_later_calls_too(triangle: Any) -> None:
    gemm(TWO, TWO)  # from now on such a product needs no checks
    with pytest.raises(ProblemError, match="triangle is not understood") as caught:
        gemm(TWO, TWO, triangle=triangle)
    assert caught.value.fix == "leave triangle out"


class Sparse:
    """What NumPy takes for one object, as it does sparse matrices."""

    def toarray(self) -> np.ndarray:
        """Return the matrix."""
        return TWO


@pytest.mark.parametrize(
    ("b", "fix"),
    [
        (np.ones(2), "gemv for a matrix by a vector; b[None, :]"),
        (3.0, "numpy.multiply for a scalar"),
        (Sparse(), "b.toarray()"),
        (TWO.astype(object), "b.astype(float), if its elements are numbers"),
        (None, "give b"),
        ((row for row in TWO), "numpy.array(list(b), float), if its elements are numbers"),
        ({1.0, 2.0}, "numpy.array(list(b), float)"),
        ([["1", "2"], ["3", "4"]], "numpy.array(b, float), if its elements are numbers"),
        (np.zeros((2, 2), [("x", "f4")]), "b['x'] for a field; numpy.lib.recfunctions.structured_to_unstructured(b)"),
    ],
)
def test_a_refused_operand_comes_with_what_would_do(b: Any, fix: str) -> None:
    with pytest.raises(ProblemError) as caught:
        gemm(TWO, b)
    assert caught.value.fix.startswith(fix)


def test_read_only_out_is_refused() -> None:
    out = np.empty((2, 2))
    out.flags.writeable = False
    with pytest.raises(ProblemError, match="out cannot take the result") as caught:
        gemm(TWO, TWO, out=out)
    assert "read-only" in caught.value.got


def test_unknown_backends_are_refused_with_the_closest() -> None:
    with pytest.raises(BackendUnavailable, match="unknown backend 'cpu-naiv'") as caught:
        gemm(TWO, TWO, backend="cpu-naiv")
    assert caught.value.fix == "did you mean 'cpu-naive'?"
    for name in (["cpu-naive"], None, np.array(["auto", "auto"])):
        with pytest.raises(BackendUnavailable, match="backend is no name"):
            gemm(TWO, TWO, backend=name)  # type: ignore[arg-type]


def test_a_transposed_operand_is_suggested() -> None:
    with pytest.raises(ProblemError) as caught:
        gemm(np.ones((2, 3)), np.ones((4, 3)))
    assert "b.T" in caught.value.fix


def test_every_legal_number_of_threads_gives_the_same() -> None:
    a, b = _numbers(17, 19), _numbers(19, 13)
    for threads in range(1, machine.detect().cores + 1):
        assert np.array_equal(gemm(a, b, threads=threads, semiring="max_plus"), _reference(a, b, semiring="max_plus"))


# ------------------------------------------------------------------------------------------- semirings of the user


def _longest(c: float, t: float) -> float:
    return t if t > c else c  # noqa: FURB136 max() is not what kernels compile


def _difference(x: float, y: float) -> float:
    return x - y


@EITHER
def test_semirings_of_named_operations(backend: str) -> None:
    a, b = _numbers(5, 7), _numbers(7, 6, seed=2)
    manhattan = gemm(a, b, semiring=Semiring.of("plus", "absdiff"), backend=backend)
    assert np.array_equal(manhattan, np.abs(a[:, :, None] - b[None]).sum(1))
    chebyshev = gemm(a, b, semiring=Semiring.of("max", "absdiff"), backend=backend)
    assert np.array_equal(chebyshev, np.abs(a[:, :, None] - b[None]).max(1))


@EITHER
def test_semirings_of_functions(backend: str) -> None:
    a, b = _numbers(5, 7), _numbers(7, 6, seed=2)
    own = Semiring.from_functions("longest", _longest, _difference, zero=-np.inf, kinds="f", is_selective=True)
    got = gemm(a, b, semiring=own, backend=backend)
    assert np.array_equal(got, (a[:, :, None] - b[None]).max(1))


def test_semirings_of_functions_that_numba_has_compiled() -> None:
    a, b = _numbers(5, 7), _numbers(7, 6, seed=2)
    own = Semiring.from_functions("compiled", numba.njit(_longest), numba.njit(_difference), zero=-np.inf)
    assert np.array_equal(gemm(a, b, semiring=own), (a[:, :, None] - b[None]).max(1))


def _unnamed(x: Any, y: Any) -> Any:
    return a_name_that_nobody_has(x, y)  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("add", "multiply", "who", "got"),
    [
        (_longest, _unnamed, "multiply", "a_name_that_nobody_has"),
        (_longest, lambda x, y: np.linalg.nothing(x), "multiply", "has no attribute 'nothing'"),
        (lambda c, t: "text", _difference, "add", "No implementation"),
    ],
)
def test_functions_that_cannot_be_compiled_are_one_message(add: Any, multiply: Any, who: str, got: str) -> None:
    own = Semiring.from_functions("mine", add, multiply, zero=0)
    with pytest.raises(ProblemError, match=f"semiring 'mine': {who} cannot be compiled by Numba for float64") as caught:
        gemm(_numbers(3, 4), _numbers(4, 5), semiring=own, backend="cpu-naive")
    assert got in caught.value.got
    assert "\n" not in caught.value.got
    assert caught.value.fix.startswith("leave texts")  # it is Python already, and `got` says what is wrong


def _raises(x: float, y: float) -> float:
    if x > 2:
        raise ValueError(x)
    return x * y


def _indexes(x: float, y: float) -> float:
    return (1.0, 2.0)[int(x)] * y


@pytest.mark.parametrize("multiply", [_raises, _indexes])
def test_functions_that_may_raise_are_refused(multiply: Callable[[float, float], float]) -> None:
    own = Semiring.from_functions("own", lambda c, t: c + t, multiply, zero=0.0)
    with pytest.raises(ProblemError, match="multiply may raise an exception for float64"):
        gemm(np.ones((2, 2)), np.ones((2, 2)), semiring=own)


# What a user writes is compiled in each process: by the smallest kernel, and once as it is chosen.
@pytest.mark.deep(but=1)
@pytest.mark.parametrize(
    ("multiply", "dtype", "backend"),
    [
        (lambda x, y: x / y, "float64", "auto"),
        *((lambda x, y: x / y + x // y + x**2 + y % 3, dtype, "cpu-naive") for dtype in ("float64", "int32")),
    ],
)
def test_functions_that_divide_are_compiled(
    multiply: Callable[[float, float], float], dtype: str, backend: str
) -> None:
    own = Semiring.from_functions("own", lambda c, t: c + t, multiply, zero=0)
    ones = np.ones((2, 2), dtype)
    assert (gemm(ones, ones, semiring=own, backend=backend) == 2 * multiply(1, 1)).all()


@pytest.mark.parametrize(("add", "multiply"), [(np.maximum, _difference), (_longest, np.add), (max, _difference)])
def test_functions_that_are_not_python_come_with_the_python_to_write(add: Any, multiply: Any) -> None:
    own = Semiring.from_functions("mine", add, multiply, zero=0)
    with pytest.raises(ProblemError, match="cannot be compiled by Numba") as caught:
        gemm(_numbers(3, 4), _numbers(4, 5), semiring=own)
    assert "lambda x, y: max(x, y) for numpy.maximum" in caught.value.fix


# -------------------------------------------------------------------------------------- everything at once, drawn

# Each kernel is compiled once; few of them, and every shape, layout and value.
DRAWN = [("plus_times", "float64"), ("min_plus", "float32"), ("min_plus", "int16"), ("lor_land", "bool")]


def _lay_out(x: np.ndarray, how: str) -> np.ndarray:
    if how == "A":
        wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
        wide[::2, ::3][:, ::-1] = x
        return wide[::2, ::3][:, ::-1]
    return np.asarray(x, order=how)  # type: ignore[call-overload]


def _able(problem: Problem) -> list[str]:
    """Return the slowest backend for `problem`, and the one that would be chosen for its step."""
    names = [backend.name for backend in registry.able(problem) if backend.name.startswith("cpu")]
    return ["cpu-naive", *[name for name in ("cpu-packed", "cpu-numpy") if name in names][:1]]


@pytest.mark.deep
@hypothesis.given(
    kernel=st.sampled_from(DRAWN),
    size=st.tuples(st.integers(0, 21), st.integers(0, 21), st.integers(0, 21)),
    layout=st.text("CFA", min_size=3, max_size=3),
    accumulate=st.booleans(),
    scales=st.booleans(),
    seed=st.integers(0, 99),
)
def test_drawn_products_equal_their_definition(
    kernel: tuple[str, str],
    size: tuple[int, int, int],
    layout: str,
    accumulate: bool,
    scales: bool,
    seed: int,
) -> None:
    name, dtype = kernel
    alpha = 3 if scales and dtype != "bool" else None
    beta = 2 if scales and accumulate and dtype != "bool" else None
    problem = Problem(*size, name, np.dtype(dtype), alpha, beta, accumulate)
    drawn = Operands.generate(problem, seed)
    a, b = _lay_out(drawn.a, layout[0]), _lay_out(drawn.b, layout[1])
    c = None if drawn.c is None else _lay_out(drawn.c, layout[2])
    for backend in _able(problem):
        got = gemm(a, b, c, semiring=name, alpha=alpha, beta=beta, backend=backend)
        verify(problem, drawn, got, seed=seed)


# Of a rung, those that tests/test_contract.py compiles.
OF_RUNGS = {"cpu-tiled": (), "cpu-packed": ("lxor_land",), "cpu-simd": ("lor_land", "lxor_land", "land_lor")}
OF_BOOLS = [
    (name, backend.name)
    for backend in registry.able(Problem(3, 3, 3, "lor_land", "bool"))
    if backend.name.startswith("cpu")
    for name in OF_RUNGS.get(backend.name, ("lor_land",))
]


@pytest.mark.deep(but=3)
@pytest.mark.parametrize(("name", "backend"), OF_BOOLS)
def test_any_byte_but_0_of_a_bool_is_true(name: str, backend: str, rng: np.random.Generator) -> None:
    semiring = Semiring.of(*name.split("_"))
    one = bools_of_any_byte(rng, (1,), share=1)[0] if semiring.one(np.dtype(bool)) else False
    how: dict[str, Any] = {"semiring": semiring, "backend": backend}
    sizes = ((1, 1, 1), (1, 40, 33), (40, 1, 33), (9, 70, 0), (33, 66, 31))
    for m, n, k in sizes if backend == "cpu-simd" else sizes[-1:]:  # other shapes are other kernels of cpu-simd alone
        a, b, c = (bools_of_any_byte(rng, shape) for shape in ((m, k), (k, n), (m, n)))
        if registry.find(backend).declines(Problem(m, n, k, semiring, a.dtype, accumulate=True)):
            continue
        x, y, z = truth(a), truth(b), truth(c)
        expected = _reference(x, y, z, semiring=semiring)
        assert_bools(gemm(a, b, **how), _reference(x, y, semiring=semiring))
        assert_bools(gemm(np.asfortranarray(a), b, c, alpha=one, beta=one, **how), expected)
        assert_bools(gemm(a, b, c, out=c, **how), expected)


def test_a_nan_of_c_is_absent_where_there_are_no_terms() -> None:
    c = np.array([[np.nan, 2.0]])
    gemm(np.empty((1, 0)), np.empty((0, 2)), c, out=c, semiring="min_plus")
    assert c.tolist() == [[np.inf, 2.0]]


def test_an_empty_out_of_any_strides_is_taken():
    for out in (np.empty((63, 0)).T, np.empty((0, 63)), np.empty((0, 126))[:, ::2]):
        assert gemm(np.empty((0, 3)), np.empty((3, 63)), out=out) is out


def test_the_first_choice_is_taken_before_any_other_backend_is_asked(monkeypatch):
    problem = Problem(9, 9, 9)

    def ask(problem, **_):
        raise AssertionError("the others are asked")

    monkeypatch.setattr(registry, "able", ask)
    assert choose(problem, "auto").name == static_order.AUTO_FIRST[0]
    for elsewhere in ("nobody", "cpu-mkl", "gpu-tuned"):  # unknown, or not here, or else it is taken
        monkeypatch.setattr(static_order, "AUTO_FIRST", (elsewhere,))
        monkeypatch.setattr(registry, "able", lambda problem, **_: iter([registry.find("cpu-naive")]))
        known = {entry.name for entry in registry.discover() if not entry.unavailable()}
        assert choose(problem, "auto").name == (elsewhere if elsewhere in known else "cpu-naive")


def test_a_conversion_that_helps_is_named_where_no_backend_computes(monkeypatch):
    monkeypatch.setattr(registry, "able", lambda problem, **_: iter(()))  # a GPU may be able to
    half, infinite = TWO.astype(np.float16), {"dtype": "float32", "alpha": np.inf}
    for options in ({"semiring": "min_plus", "triangle": "d"}, infinite):
        with pytest.raises(BackendUnavailable, match="no backend here") as caught:
            gemm(half, half, **options)
        assert caught.value.fix == "convert with astype('float32')"
        gemm(half.astype("float32"), half.astype("float32"), **options)


def test_what_the_first_choice_declines_others_compute(monkeypatch):
    problem = Problem(9, 9, 9)
    monkeypatch.setattr(type(registry.find(static_order.AUTO_FIRST[0])), "refuses", lambda self, problem: "not today")
    assert choose(problem, "auto").name != static_order.AUTO_FIRST[0]
    monkeypatch.setattr(registry, "able", lambda problem, **_: iter(()))
    with pytest.raises(BackendUnavailable, match="no backend here"):
        choose(problem, "auto")


def test_a_module_of_masked_arrays_that_another_thread_is_loading_is_no_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert np.array_equal(gemm([[2.0]], [[3.0]]), [[6.0]])
