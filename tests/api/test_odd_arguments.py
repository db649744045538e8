"""Whatever a caller gives for an argument: the right result, or one error of the project that says who and what."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import functools
import math
import re

import numpy as np
import pytest

import harness
from harness import Semiring, axpy, einsum, gemm, gemm_argk, gemv, ger, symv, syr, syrk
from harness.errors import HarnessError, ProblemError
from harness.linalg import hessenberg, qr, refine, trsm
from harness.paths import closure

X = np.array([[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]])
V = X[0]
LOWER = np.tril(X)


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return X


class NoUfuncs(np.ndarray):
    __array_ufunc__ = None


class NoFunctions(np.ndarray):
    def __array_function__(self, function, types, arguments, options):
        raise TypeError(f"{function.__name__} is not for this class")


def unaligned():
    return np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(float).reshape(3, 3)


# What is X to NumPy, and an operand.
EQUAL = {
    "list": X.tolist(),
    "deque": collections.deque(X.tolist()),
    "other byte order": X.astype(X.dtype.newbyteorder()),
    "matrix": X.view(np.matrix),
    "memory view": memoryview(X.copy()),
    "records": X.view(np.recarray),
    "own array": HasArray(),
    "no ufuncs": X.view(NoUfuncs),
    "no functions": X.view(NoFunctions),
    "unaligned": unaligned(),
    "read-only": np.broadcast_to(X, X.shape),
}
# What is no operand, of one message each.
OTHER = {
    "objects": X.astype(object),
    "fractions": [[fractions.Fraction(1, 2)] * 3] * 3,
    "texts": X.astype(str),
    "bytes": X.astype("S8"),
    "fields": np.zeros((3, 3), [("x", float), ("y", int)]),
    "void": np.zeros((3, 3), "V8"),
    "times": X.astype("datetime64[s]"),
    "time steps": X.astype("timedelta64[s]"),
    "ragged": [[1, 2, 3], [1, 2]],
    "masked": np.ma.masked_array(X, X > 5),
    "generator": (row for row in X),
    "set": {1, 2},
    "mapping": {0: 1},
    "text": "abc",
    "object": object(),
    "class": float,
    "function": math.hypot,
    "huge": [[2**70] * 3] * 3,
    "empty": [],
    "scalar": 3.0,
    "array of scalars": array.array("d", [1, 2]),
}
if np.longdouble(0).itemsize > 8:
    OTHER["long double"] = X.astype(np.longdouble)

OPERANDS = {
    "gemm a": lambda x: gemm(x, X),
    "gemm b": lambda x: gemm(X, x),
    "gemm c": lambda x: gemm(X, X, x),
    "gemm_argk a": lambda x: gemm_argk(x, X)[1],
    "gemm_argk b": lambda x: gemm_argk(X, x)[0],
    "einsum of one": lambda x: einsum("ij->ji", x),
    "einsum of two": lambda x: einsum("ij,jk->ik", x, X),
    "einsum of three": lambda x: einsum("ij,jk,kl->il", X, x, X),
    "gemv a": lambda x: gemv(x, V),
    "symv a": lambda x: symv(x, V),
    "ger c": lambda x: ger(V, V, x),
    "syr c": lambda x: syr(V, x),
    "syrk a": syrk,
    "closure": closure,
    "qr": lambda x: qr(x).r,
    "hessenberg": lambda x: hessenberg(x).h,
    "refine": lambda x: refine(x, V).x,
    "trsm b": lambda x: trsm(LOWER, x),
}


@pytest.mark.parametrize("call", OPERANDS)
@pytest.mark.parametrize("name", EQUAL)
def test_what_is_an_array_to_numpy_is_an_operand(call, name):
    np.testing.assert_array_equal(OPERANDS[call](EQUAL[name]), OPERANDS[call](X))


@pytest.mark.parametrize("call", OPERANDS)
def test_any_other_operand_is_one_error(call):
    for x in OTHER.values():
        with pytest.raises(ProblemError, match=f"^{call.split()[0]}") as caught:
            OPERANDS[call](x)
        assert caught.value.expected or caught.value.fix


OUTS = {
    "gemm": lambda out: gemm(X, X, out=out),
    "gemm and c": lambda out: gemm(X, X, out, out=out, semiring="min_plus"),
    "gemm of a triangle": lambda out: gemm(X, X, out=out, triangle="d"),
    "gemm into an operand": lambda out: gemm(out, out, out, out=out, alpha=2.0, beta=3.0),
    "einsum of one": lambda out: einsum("ij->ji", X, out=out),
    "einsum": lambda out: einsum("ij,jk->ik", X, X, out=out),
    "gemm_argk": lambda out: gemm_argk(X, X, out=(out, np.empty((3, 3), np.int32)))[0],
    "ger": lambda out: ger(V, V, out, out=out),
    "syrk": lambda out: syrk(X, out=out),
}


@pytest.mark.parametrize("call", OUTS)
@pytest.mark.parametrize("kind", [NoUfuncs, NoFunctions, np.matrix, np.recarray])
def test_a_subclass_takes_results_whatever_it_says_of_functions(call, kind):
    for _ in range(3):  # a call that is remembered, too
        expected, out = X.copy(), X.copy().view(kind)
        OUTS[call](expected)
        assert OUTS[call](out) is out
        np.testing.assert_array_equal(out.view(np.ndarray), expected)


def no_result(x, y):
    pass


def in_text(x, y):
    return float(f"{x:.3f}") * y


def of_text(x, y):
    return float(str(x)) * y


def keywords(x, y, **others):
    return x * y


def needs_keyword(x, y, *, z):
    return x * y


def imports(x, y):
    import cmath  # what no kernel does

    return cmath.pi * x * y


def recursive(x, y):
    return x if y <= 0 else recursive(x, y - 1)


class Callable:
    def __call__(self, x, y):
        return x * y


FUNCTIONS = (no_result, in_text, of_text, keywords, needs_keyword, imports, recursive, Callable(), Callable().__call__)
FUNCTIONS += (functools.partial(lambda z, x, y: x * y, 1), max, math.hypot, np.maximum, float, "x * y", None)


@pytest.mark.parametrize("role", ["add", "multiply"])
def test_a_function_that_cannot_be_compiled_is_one_error(role):
    for function in FUNCTIONS:
        functions = {"add": lambda c, t: c + t, "multiply": lambda x, y: x * y, role: function}
        with pytest.raises(ProblemError, match="own") as caught:
            gemm(X, X, semiring=Semiring.from_functions("own", zero=0, **functions), backend="cpu-naive")
        assert caught.value.got


# Scalars and names: of each option what is none.
OPTIONS = {
    "alpha": (decimal.Decimal(2), fractions.Fraction(1, 2), 1j, "2", [2.0], X, math.nan, memoryview(b"1"), object()),
    "beta": (1j, "2", X, math.nan),
    "semiring": ("plus_plus", X, memoryview(bytearray(2)), None, ["plus_times"]),
    "backend": ("cpu-none", X, memoryview(bytearray(2)), 3, None),
    "threads": (0, -1, 1.5, "2", X, memoryview(bytearray(2)), math.inf),
    "dtype": ("float31", X, memoryview(bytearray(2)), object(), "S3"),
    "triangle": ("upper", X, memoryview(bytearray(2)), None, 3),
    "out": (X.tolist(), X[:2], X.astype(np.float32), np.broadcast_to(X, X.shape), np.ma.masked_array(X), "abc"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_none_is_one_error(option):
    for value in OPTIONS[option]:
        with pytest.raises(HarnessError):
            gemm(X, X, X, **{option: value})
        if option in ("semiring", "backend", "threads"):
            for call in (gemm_argk, functools.partial(einsum, "ij,jk->ik")):
                with pytest.raises(HarnessError):
                    call(X, X, **{option: value})
    with pytest.raises(ProblemError, match="alpha"):
        gemm(X.astype(np.uint8), X.astype(np.uint8), alpha=-1)


@pytest.mark.parametrize("call", [gemm, gemm_argk, functools.partial(einsum, "ij,jk"), closure, syrk])
def test_bools_are_told_of_the_semiring_of_bools_and_of_a_conversion(call):
    bools = X > 3
    with pytest.raises(ProblemError) as caught:
        call(bools) if call in (closure, syrk) else call(bools, bools)
    assert re.search(r"semiring='lor_land'.*; or convert with astype\('float64'\)", caught.value.fix)


def test_other_names_that_are_none():
    for value in (X, 3, None, ["blocked"], memoryview(bytearray(2))):
        with pytest.raises(HarnessError):
            closure(X, method=value)
        with pytest.raises(HarnessError):
            harness.results(value)


def test_products_have_as_many_leading_dimensions_as_arrays():
    """Of NumPy 64 in all, two of which are the matrix; a vector is computed as a matrix of one column."""
    many, one = X.reshape((1,) * 62 + (3, 3)), (1,) * 62
    for semiring in ("plus_times", "min_plus"):
        expected = gemm(X, X, semiring=semiring)
        for a, b in ((many, many), (many, X), (X, many[0])):
            np.testing.assert_array_equal(gemm(a, b, semiring=semiring).reshape(3, 3), expected)
    product, argk = gemm_argk(many, many)
    assert product.shape == argk.shape == (*one, 3, 3)
    np.testing.assert_array_equal(gemm(many, X, many).reshape(3, 3), X @ X + X)
    np.testing.assert_array_equal(gemv(many, V).reshape(3), X @ V)
    np.testing.assert_array_equal(trsm(LOWER, many).reshape(3, 3), trsm(LOWER, X))
    vectors = V.reshape((1,) * 63 + (3,))
    for call in (lambda: gemv(X, vectors), lambda: axpy(V, vectors), lambda: syr(vectors), lambda: ger(vectors, V)):
        with pytest.raises(ProblemError, match=r"(?s)too many dimensions.*at most 63"):
            call()
    with pytest.raises(ProblemError, match="out cannot take the result"):
        gemv(X, V, out=vectors.copy())
    wrong = np.zeros((2,) + (1,) * 60 + (3, 3, 3))
    with pytest.raises(ProblemError, match="the leading dimensions do not broadcast"):
        gemm(np.zeros((3,) + (1,) * 60 + (2, 3, 3)), wrong)
