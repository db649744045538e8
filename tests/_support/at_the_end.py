"""A program whose module-level object multiplies as Python ends: ``python -m tests._support.at_the_end BEFORE SIZE``.

Before, it has made the same calls with matrices of SIZE rows, "same" or "other", or "none". The finalizer prints a line
for each call: "right", "wrong", or the error. Other threads compute all the while, and are ended by Python's end.
"""

import atexit
import collections
import itertools
import os
import sys
import threading

import numpy as np

from harness import BackendUnavailable, einsum, gemm, gemm_argk, gemv
from harness.linalg import trsm
from harness.paths import closure


def calls(n):
    """Return calls by name with what NumPy computes, exactly: all numbers are small integers."""
    rng = np.random.default_rng(n)
    x, y = (rng.integers(0, 9, (n, n)).astype(float) for _ in range(2))
    least = np.array([(row[:, None] + y).min(axis=0) for row in x])
    identity = np.eye(n)
    return {
        "gemm": (lambda: gemm(x, y), x @ y),
        "min_plus": (lambda: gemm(x, y, semiring="min_plus"), least),
        "transposed": (lambda: gemm(x.T, y.T), x.T @ y.T),
        "C": (lambda: gemm(x, y, x.copy(), alpha=2.0, beta=3.0), 2 * (x @ y) + 3 * x),
        "threads=1": (lambda: gemm(x, y, threads=1), x @ y),
        "cpu-numpy": (lambda: gemm(x, y, backend="cpu-numpy", threads=1), x @ y),
        "gemm_argk": (lambda: gemm_argk(x, y)[0], least),
        "gemv": (lambda: gemv(x, y[0]), x @ y[0]),
        "einsum": (lambda: einsum("ij,jk,kl->il", x, identity, y), x @ y),
        "closure": (lambda: closure(np.minimum(x, 1), semiring="max_min"), None),
        "trsm": (lambda: trsm(identity, y), y),
    }


class Last:
    """Multiplies when it is freed: after the modules of the program."""

    def __init__(self, made):
        self.calls, self.write, self.error = made, os.write, BackendUnavailable

    def __del__(self):
        for name, (call, expected) in self.calls.items():
            try:
                found = call()
                is_right = expected is None or b"\0" not in (found == expected).tobytes()  # all() would be imported
                line = f"{name}: {'right' if is_right else 'wrong'}\n"
            except self.error as error:
                line = f"{name}: {error.what}\n"
            except Exception as error:  # noqa: BLE001 printed, as Python would
                line = f"{name}: {type(error).__name__} {error}\n"
            self.write(1, line.encode())


if __name__ == "__main__":
    before, size = sys.argv[1], int(sys.argv[2])
    last = Last(calls(size))
    if before != "none":
        for earlier, _ in calls(size if before == "same" else size - 30).values():
            earlier()
        forever = itertools.repeat(np.ones((300, 300)))
        for _ in range(2):  # without a reference to this module, which would keep it alive
            threading.Thread(target=collections.deque, args=(map(gemm, forever, forever), 0), daemon=True).start()
        atexit.register(lambda: gemm(np.ones((9, 9)), np.ones((9, 9)), semiring="plus_min"))
