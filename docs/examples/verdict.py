"""Is one faster? Time two products in turns, and ask for the ratio with its interval, not for two times.

Samples that lie side by side meet the same disturbances, which cancel in their ratio. `make bench-compare` and `harness
run` do this in fresh processes, with warm-up, proofs and corrections for many cells; here are the statistics alone.
"""

import time

import numpy as np

from harness import gemm
from harness.stats.statistics import paired_ratio

rng = np.random.default_rng(1)
a, b = rng.random((96, 96)), rng.random((96, 96))
out = np.empty((96, 96))


def seconds(work):
    """Return the time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def blas():
    np.matmul(a, b, out=out)


def ours():
    gemm(a, b, out=out, threads=1)


for work in (blas, ours):
    work()  # compiled, and warm
pairs = [(seconds(ours), seconds(blas)) for _ in range(40)]
ratio = paired_ratio([pair[0] for pair in pairs], [pair[1] for pair in pairs])
assert ratio.low <= ratio.estimate <= ratio.high
verdict = "slower" if ratio.low > 1 else "faster" if ratio.high < 1 else "not told apart"
print(f"gemm takes {ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] of the time of numpy.matmul: {verdict}")
