"""The task of a sparse matrix times a few columns: as a dense product by a backend, or by a sparse library."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from experiments._parts.computed import Computed, require
from harness import machine, registry
from harness.errors import Declined
from harness.interface import prepare
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.verify import verify
from harness.semiring import SEMIRINGS

Compute = Callable[[], np.ndarray]
# Whose the methods of others are.
PROJECTS = {"csr": "SciPy", "dia": "SciPy", "graphblas": "GraphBLAS"}
FORMS = ("uniform", "band")


def sparse(form: str, n: int, percent: float, semiring: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an n x n matrix, absent elements the semiring's zero, and the mask of those that are stored.

    Parameters
    ----------
    form : str
        ``"uniform"``: elements stored anywhere. ``"band"``: whole diagonals around the main one.
    n : int
    percent : float
        Of the elements that are stored, about.
    semiring : str
    seed : int
    """
    rng, dtype = np.random.default_rng(seed), np.dtype(np.float64)
    if form == "band":
        offsets = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        mask = offsets <= round(percent / 100 * n / 2)
    else:
        mask = rng.random((n, n)) < percent / 100
    zero = SEMIRINGS[semiring].zero(dtype)
    return np.where(mask, rng.uniform(0.5, 1.5, (n, n)), zero), mask


def product(
    *,
    form: str,
    n: int,
    columns: int,
    percent: float,
    semiring: str,
    method: str,
    threads: int,
    seed: int = 1,
    backend: str = "",
) -> Computed:
    """Prepare one; of every method the work is that of the dense product, so that rates rank as times do.

    Parameters
    ----------
    form, n, percent, semiring, seed
        As in `sparse`.
    columns : int
        Of the dense operand.
    method : str
        ``"dense"`` by `backend`, or one of ``"csr"``, ``"dia"`` (scipy.sparse) and ``"graphblas"``.
    threads : int
        Set by the worker around the run.
    backend : str

    Raises
    ------
    Declined
        If a package or the backend is missing here, or the library has no such semiring.
    """
    problem = Problem(n, columns, n, semiring, "float64")
    a, mask = sparse(form, n, percent, semiring, seed)
    b = np.random.default_rng(seed + 1).uniform(0.5, 1.5, (n, columns))
    makers = {"dense": _dense, "csr": _scipy, "dia": _scipy, "graphblas": _graphblas}
    compute = makers[method](problem, a, b, mask, backend if method == "dense" else method, threads)

    def check(result: np.ndarray) -> str:
        return verify(problem, Operands(a, b, None, result), result, seed=1)

    stored = int(mask.sum())
    known = {**problem.work, "stored": stored, "density": stored / a.size}
    return Computed(compute, check, known, PROJECTS.get(method, ""))


def _dense(problem: Problem, a: np.ndarray, b: np.ndarray, _: np.ndarray, backend: str, threads: int) -> Compute:
    chosen = registry.admit(backend, problem)
    plan = chosen.plan(problem, machine.detect().with_threads(threads))
    prepared = prepare(chosen, plan, Operands(a, b, None, np.empty((problem.m, problem.n))))
    return prepared.produce


def _scipy(problem: Problem, a: np.ndarray, b: np.ndarray, _: np.ndarray, method: str, threads: int) -> Compute:
    require("scipy")
    if not problem.semiring.is_ordinary:
        raise Declined("declined", "scipy.sparse computes plus_times only")
    from scipy import sparse as scipy_sparse

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy_sparse.SparseEfficiencyWarning)  # many diagonals: what is asked here
        stored = {"csr": scipy_sparse.csr_array, "dia": scipy_sparse.dia_array}[method](a)
    return lambda: np.asarray(stored @ b)


def _graphblas(problem: Problem, a: np.ndarray, b: np.ndarray, mask: np.ndarray, _: str, threads: int) -> Compute:
    require("graphblas", "python-graphblas")
    import graphblas

    graphblas.ss.config["nthreads"] = threads
    rows, columns = np.nonzero(mask)
    stored = graphblas.Matrix.from_coo(rows, columns, a[mask], nrows=problem.m, ncols=problem.k)
    dense, operator = graphblas.Matrix.from_dense(b), getattr(graphblas.semiring, problem.semiring.name)
    zero = problem.semiring.zero(problem.dtype)
    return lambda: operator(stored @ dense).new().to_dense(fill_value=zero)
