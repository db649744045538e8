"""The copy of contiguous columns into contiguous rows."""

import itertools

import numpy as np
import pytest

from backends.cpu._mixed.transposed_copy import prepare_transposed_copy


@pytest.mark.parametrize("dtype", (np.uint16, np.int8))
def test_every_element_goes_to_its_place_and_no_other_byte_changes(dtype, rng):
    for m, n in itertools.product((1, 7, 8, 16, 17, 64, 81, 130), repeat=2):
        base = rng.integers(0, 127, (n + 2, m + 5)).astype(dtype)
        around = np.full((m + 2, n + 3), 99, dtype)
        source, target = base[1:-1, 2:-3].T, around[1:-1, 1:-2]
        prepare_transposed_copy(target, source)()
        np.testing.assert_array_equal(target, source)
        target[...] = 99
        assert (around == 99).all()


def test_columns_upside_down_and_one_column_again_and_again(rng):
    x = rng.integers(0, 127, (40, 50)).astype(np.uint16)
    for source in (x.T[:, ::-1], np.broadcast_to(x[:1].T, (50, 20))):
        target = np.empty(source.shape, np.uint16)
        prepare_transposed_copy(target, source)()
        np.testing.assert_array_equal(target, source)
