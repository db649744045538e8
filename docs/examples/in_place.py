"""Products without copies: views in, results into `out`, sums added to what is there.

Operands may be transposed, sliced or reversed. `out` may overlap any of them. Batches broadcast as in `numpy.matmul`.
"""

import numpy as np

from harness import gemm

rng = np.random.default_rng(1)
table = rng.random((64, 80))
a, b = table[:48, ::2], table[16:, :40].T  # every other column; a transposed window of the same memory

c = np.zeros((48, 48))
assert gemm(a, b, out=c) is c
assert np.allclose(c, a @ b)

gemm(a, b, c, alpha=2.0, beta=-1.0, out=c)  # 2 A B - C, into C
assert np.allclose(c, a @ b)

square = rng.random((48, 48))
expected = square @ square
gemm(square, square, out=square)  # into its own operand
assert np.allclose(square, expected)

blocks = gemm(rng.random((3, 1, 8, 5)), rng.random((4, 5, 6)))
assert blocks.shape == (3, 4, 8, 6)
print(f"{blocks.shape[0] * blocks.shape[1]} products in one call")
