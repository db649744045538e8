"""Scans and chains of matrices, against products one after the other."""

import numpy as np
import pytest

from harness import ProblemError
from harness.sequences import chain, scan

MULTIPLY = {
    "plus_times": lambda x, y: x @ y,
    "min_plus": lambda x, y: (x[..., :, :, None] + y[..., None, :, :]).min(axis=-2),
    "max_plus": lambda x, y: (x[..., :, :, None] + y[..., None, :, :]).max(axis=-2),
    "max_min": lambda x, y: np.minimum(x[..., :, :, None], y[..., None, :, :]).max(axis=-2),
    "logaddexp_plus": lambda x, y: np.logaddexp.reduce(x[..., :, :, None] + y[..., None, :, :], axis=-2),
}


def random_matrices(seed, *shape, dtype=np.float64):
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)


def one_by_one(a, multiply):
    out = a.copy()
    for t in range(1, a.shape[-3]):
        out[..., t, :, :] = multiply(out[..., t - 1, :, :], a[..., t, :, :])
    return out


@pytest.mark.parametrize("semiring", MULTIPLY)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("states", [1, 3, 20])
def test_prefixes_and_suffixes(semiring, steps, states):
    multiply, a = MULTIPLY[semiring], random_matrices(steps, 2, steps, states, states)
    expected = one_by_one(a, multiply)
    suffixes = one_by_one(a[:, ::-1].swapaxes(-1, -2), multiply)[:, ::-1].swapaxes(-1, -2)
    assert np.allclose(scan(a, semiring), expected, rtol=1e-12)
    assert np.allclose(scan(a, semiring, reverse=True), suffixes, rtol=1e-12)
    assert np.allclose(chain(a, semiring), expected[:, -1], rtol=1e-12)
    vector = random_matrices(states, 2, states)
    rows = multiply(vector[:, None, None], expected)[..., 0, :]
    columns = multiply(suffixes, vector[:, None, :, None])[..., 0]
    assert np.allclose(scan(a, semiring, initial=vector), rows, rtol=1e-12)
    assert np.allclose(scan(a, semiring, initial=vector, reverse=True), columns, rtol=1e-12)


def test_integers_are_exact():
    a = random_matrices(1, 9, 4, 4, dtype=np.int64)
    assert np.array_equal(scan(a), one_by_one(a, MULTIPLY["plus_times"]))
    assert np.array_equal(scan(a, initial=a[0, 0]), a[0, 0] @ one_by_one(a, MULTIPLY["plus_times"]))
    far = np.full((3, 2, 2), np.iinfo(np.int32).min, np.int32)
    assert (scan(far, "max_plus", initial=far[0, 0]) == np.iinfo(np.int32).min).all()


def test_nothing_to_multiply():
    a = np.empty((2, 0, 3, 3))
    assert np.array_equal(chain(a), np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert (chain(a, "min_plus").diagonal(axis1=1, axis2=2) == 0).all()
    assert scan(a).shape == a.shape
    assert scan(a, initial=np.zeros(3)).shape == (2, 0, 3)


def test_of_no_sequences():
    a = np.empty((0, 5, 3, 3))
    assert scan(a).shape == scan(a, reverse=True).shape == a.shape
    assert scan(a, initial=np.zeros(3)).shape == (0, 5, 3)
    assert chain(a).shape == (0, 3, 3)


def test_one_matrix_is_copied():
    a = np.ones((1, 3, 3))
    for x in (scan(a), scan(a, reverse=True), chain(a)):
        x[...] = 2
    assert (a == 1).all()


def test_what_does_not_chain_is_refused():
    with pytest.raises(ProblemError, match="scan: a is no sequence"):
        scan(np.zeros((3, 3)))
    with pytest.raises(ProblemError, match="chain: a is no sequence"):
        chain(np.zeros((3, 3, 2)))
    with pytest.raises(ProblemError, match="initial does not chain"):
        scan(np.zeros((3, 2, 2)), initial=np.zeros(3))
