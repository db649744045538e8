"""Products on two ranks by the backends of this machine, each compared with `harness.gemm` on one rank."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import harness
from harness.distributed import gemm
from harness.distributed.grid import even
from harness.semiring import SEMIRINGS, Semiring

COMM = MPI.COMM_WORLD
M, N, K = 17, 13, 23


def keep_larger_modulus(x, y):
    """Return the operand that is farther from 0, of two of that kind the positive one."""
    if abs(x) == abs(y):
        return max(y, x)
    return x if abs(x) > abs(y) else y


def product_of_halves(x, y):
    """Return a product that is exact."""
    return x * y


OWN = Semiring.from_functions("farthest", keep_larger_modulus, product_of_halves, zero=0.0, one=1.0, kinds="f")
CASES = (  # semiring, dtype of operands, dtype of the call, local backend, grid, options
    (SEMIRINGS["min_plus"], "float64", None, "auto", "1x1x2", {"panel": 3, "in_flight": 2}),
    (SEMIRINGS["plus_times"], "float64", None, "cpu-numpy", "2x1x1", {"reduction": "mpi"}),
    (SEMIRINGS["plus_times"], "float64", None, "cpu-numpy", "1x1x2", {"reduction": "mpi"}),
    (SEMIRINGS["plus_times"], "complex128", None, "cpu-packed", "1x1x2", {"reduction": "mpi"}),
    (OWN, "float64", None, "cpu-naive", "1x1x2", {"panel": 2}),
)


def main():
    """Compare every case; the first that differs ends the job with the assertion."""
    rng = np.random.default_rng(5)
    for semiring, dtype, result, local, grid, options in CASES:
        draw = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((M, K), (K, N), (M, N)))
        a, b, c = draw
        c = c.astype(result or dtype)
        mine = {name: slice(*even(x.shape[0], COMM.size)[COMM.rank :][:2]) for name, x in (("a", a), ("b", b))}
        scalars = {"alpha": 2, "beta": 3, "dtype": result}
        d, _ = gemm(
            a[mine["a"]],
            b[mine["b"]],
            c[mine["a"]],
            comm=COMM,
            semiring=semiring,
            local=local,
            grid=grid,
            **scalars,
            **options,
        )
        expected = harness.gemm(a, b, c, semiring=semiring, backend=local, threads=1, **scalars)[mine["a"]]
        assert d.dtype == expected.dtype
        assert d.tobytes() == expected.tobytes(), f"{semiring.name} {dtype} {local} {grid}: {d} is not {expected}"
    if COMM.rank == 0:
        sys.stdout.write("all as on one rank\n")


if __name__ == "__main__":
    main()
