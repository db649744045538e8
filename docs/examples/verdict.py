"""Is one faster? Ask for a verdict on ratios, not for two times: of several processes, and of all sizes together.

Calls side by side meet the same disturbances, which cancel in their ratio. What differs from process to process does
not, so each of three fresh processes counts once (docs/statistics.md). A change of less than 2 % is none. `harness run`
and `make bench-compare` do this too, with warm-up, proofs, and processes of its own for each contender.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from harness import gemm, threads
from harness.stats.verdict import compare_all, judge, settle

SIZES, PROCESSES, ROUNDS = (64, 96, 128), 3, 20


def seconds(work):
    """Return the time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def turns(a, b):
    """Return the times of gemm and those of numpy.matmul, taken in rounds: ours, theirs, theirs, ours."""
    out, times = np.empty((len(a), len(b))), ([], [])
    works = (lambda: gemm(a, b, out=out, threads=1), lambda: np.matmul(a, b, out=out))
    for work in works:
        work()  # compiled, and warm
    for who in (0, 1, 1, 0) * ROUNDS:
        times[who].append(seconds(works[who]))
    return times


def one_process(seed):
    """Return the times of both for each size."""
    rng = np.random.default_rng(seed)
    with threads.limit(1):
        return [turns(*rng.random((2, n, n))) for n in SIZES]


if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:
        processes = list(fresh.map(one_process, range(PROCESSES)))
    cells = [tuple(zip(*cell, strict=True)) for cell in zip(*processes, strict=True)]  # ours and theirs, by process
    comparisons = settle(compare_all(cells))
    for n, comparison, verdict in zip(SIZES, comparisons, judge(comparisons), strict=True):
        ratio = comparison.ratio
        assert comparison.processes == PROCESSES
        assert ratio.low <= ratio.estimate <= ratio.high
        interval = f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
        print(f"n = {n}: gemm takes {interval} of the time of numpy.matmul: {verdict.name}")
