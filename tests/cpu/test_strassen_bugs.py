"""Bugs planted into a model of Strassen's algorithm: its own error bound must not let one of them pass."""

import numpy as np
import pytest

from harness import Operands, Problem, VerificationError
from harness.proof.verify import verify
from tests._support.pairs import pairs
from tests._support.strassen_products import BACKEND, compute, plan_of, whole_numbers

SUMS = tuple("S1 S2 S3 S4 T1 T2 T3 T4 C11 U2 U3 U4 C12 C21 C22".split())
DTYPES, LEVELS = ("float32", "float64"), (1, 2)
LOST_EDGES = ("last row of A", "last column of A", "last column of B", "last row of B")


def model(a, b, levels, bug):
    """Return a b by Winograd's form in NumPy; the sum that `bug` names has a wrong sign, or the edge is lost, once."""
    if levels == 0:
        return a @ b
    (m, k), n = a.shape, b.shape[1]
    a = np.pad(a, ((0, m % 2), (0, k % 2)))
    b = np.pad(b, ((0, k % 2), (0, n % 2)))
    edges = {"last row of A": a[m - 1], "last column of A": a[:, k - 1], "last column of B": b[:, n - 1]}
    edges["last row of B"] = b[k - 1]
    if bug in edges:
        edges[bug][...] = 0
    a11, a12, a21, a22 = (a[i, j] for i in halves(a.shape[0]) for j in halves(a.shape[1]))
    b11, b12, b21, b22 = (b[i, j] for i in halves(b.shape[0]) for j in halves(b.shape[1]))

    def add(name, x, y):
        return x - y if bug == name else x + y

    def subtract(name, x, y):
        return x + y if bug == name else x - y

    def times(x, y):
        return model(x, y, levels - 1, None)

    s1, s3 = add("S1", a21, a22), subtract("S3", a11, a21)
    s2 = subtract("S2", s1, a11)
    s4 = subtract("S4", a12, s2)
    t1, t3 = subtract("T1", b12, b11), subtract("T3", b22, b12)
    t2 = subtract("T2", b22, t1)
    t4 = subtract("T4", t2, b21)
    p1, p2, p3, p4 = times(a11, b11), times(a12, b21), times(s4, b22), times(a22, t4)
    p5, p6, p7 = times(s1, t1), times(s2, t2), times(s3, t3)
    u2 = add("U2", p1, p6)
    u3, u4 = add("U3", u2, p7), add("U4", u2, p5)
    top = np.hstack([add("C11", p1, p2), add("C12", u4, p3)])
    bottom = np.hstack([subtract("C21", u3, p4), add("C22", u3, p5)])
    return np.vstack([top, bottom])[:m, :n]


def halves(size):
    return slice(None, size // 2), slice(size // 2, None)


def judged(dtype, levels, bug):
    problem = Problem(131, 137, 1031, dtype=np.dtype(dtype))
    operands = Operands.generate(problem, 1)
    extra = BACKEND.extra_error(plan_of(problem, -(-131 // 2**levels)), operands)
    return verify(problem, operands, model(operands.a, operands.b, levels, bug), seed=1, extra_error=extra)


@pytest.mark.deep(but=6)
@pytest.mark.parametrize(("bug", "dtype", "levels"), pairs((*SUMS, *LOST_EDGES), DTYPES, LEVELS))
def test_a_wrong_sign_and_a_lost_edge_are_caught(bug, dtype, levels):
    with pytest.raises(VerificationError):
        judged(dtype, levels, bug)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("levels", LEVELS)
class TestTheModel:
    def test_passes_without_a_bug(self, dtype, levels):
        assert "of the bound for ordinary sums plus" in judged(dtype, levels, None)

    def test_the_kernels_are_the_model(self, dtype, levels):
        problem = Problem(53, 49, 61, dtype=np.dtype(dtype))
        operands = whole_numbers(problem)
        expected = model(operands.a, operands.b, levels, None)
        np.testing.assert_array_equal(compute(problem, operands, -(-49 // 2**levels)), expected)
