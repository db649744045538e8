"""Least squares by QR, and a solution in float64 from float32 factors, on top of matrix products.

The backend of the products is the only thing that may change between two runs.
"""

import numpy as np

from harness.linalg import qr, refine, trsm

rng = np.random.default_rng(1)
a, b = rng.standard_normal((120, 40)), rng.standard_normal((120, 2))

factors = qr(a)
x = trsm(factors.r, factors.apply_q_transposed(b)[:40], lower=False)
assert np.allclose(a.T @ (a @ x - b), 0, atol=1e-10)  # the residual is orthogonal to the columns of A

square, right = rng.standard_normal((60, 60)), rng.standard_normal(60)
solution = refine(square, right, factor_dtype="float32")
assert np.allclose(square @ solution.x, right)
assert solution.residuals[-1] < 1e-14
print(f"scaled residuals of each step: {[f'{r:.1e}' for r in solution.residuals]}")
