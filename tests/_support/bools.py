"""Bools of any byte, as ``uint8.view(bool)`` has them: what is not 0 is true."""

import numpy as np


def bools_of_any_byte(rng, shape, share=0.3):
    """Return bools of which a share is true, each by another byte."""
    return np.where(rng.random(shape) < share, rng.integers(1, 256, shape), 0).astype(np.uint8).view(np.bool_)


def truth(x):
    """Return what `x` means, each byte 0 or 1."""
    return x.view(np.uint8) != 0


def assert_bools(got, expected):
    """Assert that bools are equal, and that their bytes are 0 and 1 alone."""
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got.view(np.uint8), expected.astype(np.uint8))
