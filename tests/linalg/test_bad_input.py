"""Bad input of the algorithms: one message each, which names the argument, what was expected and what came."""

import numpy as np
import pytest

from harness import BackendUnavailable, ConvergenceError, HarnessError, ProblemError
from harness.linalg import hessenberg, qr, refine, trsm

EYE, NAN, NONE = np.eye(3), np.diag([1.0, np.nan, 2.0]), np.empty((0, 0))


class Sparse:
    """What NumPy takes for one object, as it does sparse matrices."""

    def toarray(self):
        return EYE


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: trsm(np.ones((2, 3)), np.ones(3)), "trsm: a is not square"),
        (lambda: trsm(EYE, np.ones(4)), "(?s)trsm: b does not have as many rows as a.*got .*\\(4,\\)"),
        (lambda: trsm(EYE, np.ones((2, 3))), "(?s)trsm: b does not have.*fix .*b.T"),
        (lambda: trsm(EYE, 3.0), "trsm: b is not a matrix"),
        (lambda: trsm(np.diag([1.0, 0, 2]), np.ones(3)), "(?s)trsm: the triangle is singular.*got .*0.0 in row 1"),
        (lambda: trsm(NAN, np.ones(3), method="substitution"), "(?s)trsm: .*singular.*nan in row 1"),
        (lambda: trsm(np.diag([1.0, 2, np.inf]), np.ones(3)), "inf in row 2"),
        (lambda: trsm(np.diag([1.0, 1e-310, 2]), np.ones(3)), "1e-310 in row 1"),
        (lambda: trsm(np.stack([EYE, NAN]), np.ones((3, 1))), r"nan in row 1 of matrix \(1,\)"),
        (lambda: trsm(np.stack([EYE] * 2), np.ones((3, 3, 1))), "trsm: the leading dimensions"),
        (lambda: trsm(EYE.astype(int), np.ones(3)), "(?s)trsm: a has a dtype.*got .*int64"),
        (lambda: trsm([[1]], np.ones(1)), r"(?s)trsm: a has a dtype.*numpy\.array\(a, 'float64'\)"),
        (lambda: trsm(None, np.ones(1)), "(?s)trsm: a has a dtype.*give a"),
        (lambda: trsm(EYE, np.ones(3, "float16")), "(?s)trsm: b has a dtype.*float16"),
        (
            lambda: trsm(EYE, np.ones(3), method="guess"),
            "(?s)trsm: unknown method.*blocks or corrected or substitution.*'guess'",
        ),
        (lambda: trsm(EYE, EYE, threads=0), "trsm: threads is no number"),
        (lambda: qr(EYE, threads=-1), "qr: threads is no number"),
        (lambda: refine(EYE, EYE, threads=1.5), "refine: threads is no number"),
        (lambda: hessenberg(EYE, threads="2"), "hessenberg: threads is no number"),
        (lambda: trsm(EYE, np.ones(3), inverses="gpu"), "(?s)trsm: unknown inverses.*device or host or gemm"),
        (lambda: trsm(EYE, np.ones(3), lower="upper"), "(?s)trsm: lower is no flag.*True or False.*'upper'"),
        (lambda: trsm(EYE, np.ones(3), transposed="N"), "trsm: transposed is no flag"),
        (lambda: trsm(EYE, np.ones(3), unit_diagonal=1), "trsm: unit_diagonal is no flag"),
        (lambda: trsm(EYE, np.ones(3), block=0), "(?s)trsm: block is no count.*integer >= 1"),
        (lambda: trsm(np.ma.masked_array(EYE), np.ones(3)), "trsm: a is a masked array"),
        (lambda: qr(np.ones(3)), "qr: a is not a matrix"),
        (lambda: qr(np.ones((2, 3, 3))), "qr: a is not one matrix"),
        (lambda: refine(EYE.astype(complex), np.ones(3)), "(?s)refine: a has a dtype.*complex128"),
        (lambda: qr(NAN), r"(?s)qr: a holds NaN or infinity.*nan at \(1, 1\)"),
        (lambda: qr(EYE, panel="gpu"), "(?s)qr: unknown panel.*library or host or recursive"),
        (lambda: qr(EYE, block=2.5), "qr: block is no count"),
        (lambda: qr(EYE).apply_q(np.ones(2)), "qr: b does not have as many rows"),
        (lambda: qr(EYE.astype("f4")).apply_q(np.ones(3)), "qr: b does not fit Q"),
        (lambda: hessenberg(np.ones((2, 3))), "hessenberg: a is not square"),
        (lambda: hessenberg(np.ones((2, 3, 3))), "hessenberg: a is not square"),
        (lambda: hessenberg(NAN), "hessenberg: a holds NaN"),
        (lambda: hessenberg(EYE.astype("float16")), "hessenberg: a has a dtype"),
        (lambda: hessenberg(EYE, block=True), "hessenberg: block is no count"),
        (lambda: refine(np.ones((2, 3)), np.ones(2)), "refine: a is not square"),
        (lambda: refine(EYE, np.ones(2)), "refine: b does not have as many rows"),
        (lambda: refine(EYE, np.ones((2, 3, 1))), "refine: b is not one matrix"),
        (lambda: refine(EYE, np.array([1, np.inf, 0])), r"(?s)refine: b holds NaN or infinity.*inf at \(1,\)"),
        (lambda: refine(1e39 * EYE, np.ones(3)), "(?s)refine: a in float32 holds NaN or infinity.*='float64'"),
        (lambda: refine(np.ones((3, 3)), np.ones(3)), "(?s)refine: the matrix is singular in float32.*column 1"),
        (
            lambda: refine(EYE, np.ones(3), factor_dtype="int8"),
            "(?s)unknown factor_dtype.*float64 or float32 or bfloat16",
        ),
        (lambda: refine(EYE, np.ones(3), most_steps=-1), "refine: most_steps is no count"),
        (lambda: refine(EYE, np.ones(3), factor_dtype=["float32"]), "unknown factor_dtype"),
        (lambda: refine(EYE, np.ones(3), tolerance=float("nan")), "refine: tolerance"),
        (lambda: refine(EYE, np.ones(3), tolerance="x"), "refine: tolerance"),
        (lambda: refine(EYE, np.ones(3), tolerance=[1e-3]), "refine: tolerance"),
        (lambda: qr(Sparse()), r"(?s)qr: a has a dtype.*a\.toarray\(\)"),
        (lambda: hessenberg(EYE * 1j), "(?s)hessenberg: a has a dtype.*complex128$"),
    ],
)
def test_one_clear_message(call, said):
    with pytest.raises(ProblemError, match=said):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda **x: trsm(EYE, EYE, **x),
        lambda **x: qr(EYE, **x),
        lambda **x: refine(EYE, EYE, **x),
        lambda **x: trsm(NONE, NONE, **x),  # without a product that would say it
        lambda **x: qr(NONE, **x),
        lambda **x: hessenberg(NONE, **x),
        lambda **x: refine(NONE, NONE, **x),
    ],
)
def test_backends_and_threads_are_those_of_gemm(call):
    with pytest.raises(BackendUnavailable, match="cpu-nothing"):
        call(backend="cpu-nothing")
    with pytest.raises(ProblemError, match="threads"):
        call(threads=0)


def _everything_of_qr(a):
    factors = qr(a, panel="recursive")
    return factors.r, factors.q(), factors.apply_q_transposed(a)


def test_the_fix_of_what_is_subnormal_is_one(rng):
    """Of matrices whose pivots, or whose diagonal, have no finite inverse in the dtype that is computed in."""
    b, q = rng.standard_normal(12), np.linalg.qr(rng.standard_normal((12, 12)))[0]
    for a in (q * 1e-40, q * 1e-60, (q * 1e-40).astype("float32")):
        with pytest.raises(ProblemError, match="refine: the matrix is singular in float32") as caught:
            refine(a, b)
        x = refine(a, b, **eval(f"dict({caught.value.fix})")).x
        np.testing.assert_allclose(x, np.linalg.solve(a.astype(float), b), rtol=1e-9)
    with pytest.raises(ConvergenceError, match=r"float64\n.*\n.*nan after 0 steps") as caught:
        refine(1e-300 * q, 1e20 * b, factor_dtype="float64")  # X is infinite
    assert caught.value.fix == ""
    a = (np.eye(3) * 1e-40).astype("float32")
    with pytest.raises(ProblemError, match="trsm: the triangle is singular") as caught:
        trsm(a, a)
    assert np.array_equal(trsm(eval(caught.value.fix, {"a": a}), a), np.eye(3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["graded", "graded columns", "subnormal", "huge", "infinity", "signalling NaN"])
@pytest.mark.parametrize(
    "call",
    [
        lambda a: tuple(qr(a, panel=panel).r for panel in ("library", "host")),
        _everything_of_qr,
        lambda a: hessenberg(a)[:2],
        lambda a: refine(a, a[0])[:2],
        lambda a: refine(a, a, factor_dtype="float64")[:2],
        *(
            lambda a, method=method, inverses=inverses: trsm(a, a, block=16, method=method, inverses=inverses)
            for method in ("blocks", "corrected", "substitution")
            for inverses in ("device", "host", "gemm")
        ),
        lambda a: trsm(a, a[0], unit_diagonal=True, transposed=True),
    ],
)
def test_no_step_inside_is_reported_by_numpy(call, kind, dtype, rng):
    a, limits = rng.standard_normal((20, 20)), np.finfo(dtype)
    with np.errstate(all="ignore"):
        scales = np.geomspace(float(limits.max) / 4, float(limits.tiny), 20)
        a *= {"graded": scales[:, None], "graded columns": scales, "subnormal": limits.tiny / 1e3}.get(kind, 1.0)
        a = (a * limits.max / 4 if kind == "huge" else a).astype(dtype)
    if kind == "infinity":
        a[0, 1] = np.inf
    elif kind == "signalling NaN":
        a.view(f"u{a.itemsize}")[0, 1] = np.array(np.inf, dtype).view(f"u{a.itemsize}") + 1

    def outcome(**state):
        with np.errstate(**state):
            before = np.geterr()
            try:
                return call(a)
            except HarnessError as error:
                return (str(error),)
            finally:
                assert np.geterr() == before

    for quiet, loud in zip(outcome(all="ignore"), outcome(all="raise"), strict=True):
        np.testing.assert_array_equal(loud, quiet)
