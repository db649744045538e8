"""Narrow operands, wide sums: int8 times int8 into int32, exactly.

`dtype` is that of the sums. With sums as narrow as the operands they would wrap; NumPy's own product does.
"""

import numpy as np

from harness import gemm

rng = np.random.default_rng(1)
a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((40, 300), (300, 30)))

wide = gemm(a, b, dtype="int32")
assert wide.dtype == np.int32
assert np.array_equal(wide, a.astype(np.int64) @ b.astype(np.int64))
assert not np.array_equal(wide, (a @ b).astype(np.int32))  # NumPy's sums are of int8

half = rng.random((40, 300)).astype(np.float16)
sums = gemm(half, half.T, dtype="float32")
exact = half.astype(np.float64) @ half.T.astype(np.float64)
assert np.abs(sums - exact).max() <= 300 * 2.0**-24 * exact.max()
print(f"{a.nbytes + b.nbytes} bytes of operands, {wide.nbytes} bytes of sums")
