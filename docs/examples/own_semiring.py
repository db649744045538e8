"""Products over semirings that have no name here: pairs of known operations, and functions of your own.

`Semiring.of` joins two of the operations in `harness.MONOIDS` and `harness.BINARY_OPS`, which have vector code.
"""

import numpy as np

from harness import Semiring, gemm

rng = np.random.default_rng(1)
points, centres = rng.random((50, 3)), rng.random((7, 3))

manhattan = gemm(points, centres.T, semiring=Semiring.of("plus", "absdiff"))
chebyshev = gemm(points, centres.T, semiring=Semiring.of("max", "absdiff"))
squares = gemm(points, centres.T, semiring=Semiring.of("plus", "sqdiff"))

difference = points[:, None] - centres
assert np.allclose(manhattan, np.abs(difference).sum(axis=2))
assert np.allclose(chebyshev, np.abs(difference).max(axis=2))
assert np.allclose(squares, (difference**2).sum(axis=2))
print(f"nearest centre of the first point: {manhattan[0].argmin()} (Manhattan), {squares[0].argmin()} (Euclid)")
