"""The task of an algorithm of `harness.linalg`, or of the library's own: run, its residual checked and stored.

The residual is in the facts, in units of nothing: about the rounding error of the dtype where an algorithm is stable.
Beside it stands the share of the time that products take, from runs of their own (`linalg_shares`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments._parts import linalg_shares as shares
from experiments._parts.algorithms import GPU, HOST, LIBRARIES
from experiments._parts.computed import Computed, nothing, require
from experiments._parts.linalg_shares import BLOCK
from harness import linalg
from harness.api.arrays import kind_of
from harness.errors import BackendUnavailable, Declined, VerificationError
from harness.linalg.elimination import LU
from harness.linalg.products import Products

# Vectors by which factors are compared with the matrix: products of them all would take longer than the algorithm.
PROBES = 8
# Residuals may be so many times sqrt(n) rounding errors.
MOST = 4.0
LIBRARY = "library"

Options = Mapping[str, Any]
Arrays = dict[str, Any]


class Algorithm(NamedTuple):
    """One algorithm, by harness.linalg and by the libraries.

    Attributes
    ----------
    inputs : callable
        ``inputs(rng, n, dtype, columns)``: arrays by name, on the host.
    run : callable
        ``run(arrays, options)``: the result; `options` are those of the function, backend and threads among them.
    library : callable
        ``library(module, arrays)``: the result by NumPy and SciPy, or by CuPy.
    residual : callable
        ``residual(arrays, result)`` of arrays of the host or the GPU.
    shares : callable
        ``shares(arrays, options)``: seconds by stage.
    operations : float
        Of n^3; for a solve with columns, of n^2 times their number.
    """

    inputs: Callable[..., Arrays]
    run: Callable[[Arrays, Options], Any]
    library: Callable[[Any, Arrays], Any]
    residual: Callable[[Arrays, Any], float]
    shares: Callable[[Arrays, Options], Mapping[str, float]]
    operations: float


def algorithm(
    *,
    name: str,
    n: int,
    dtype: str,
    where: str,
    method: str,
    threads: int,
    columns: int = 1,
    options: Options | None = None,
    seed: int = 1,
) -> Computed:
    """Prepare one.

    Parameters
    ----------
    name : str
        One of `ALGORITHMS`.
    n, dtype, columns
        Of the matrix, and of the right-hand sides.
    where : str
        ``"host"`` or ``"gpu"``.
    method : str
        A backend, or ``"library"``.
    threads : int
    options : mapping, optional
        Of the function of harness.linalg.
    seed : int

    Raises
    ------
    Declined
        If the GPU, the backend or a package is missing.
    """
    chosen, module, synchronize = ALGORITHMS[name], _module(where), nothing
    arrays = chosen.inputs(np.random.default_rng(seed), n, np.dtype(dtype), columns)
    if where == GPU:
        arrays = {key: module.asarray(x) for key, x in arrays.items()}
        synchronize = _synchronize
    own = {**(options or {}), "backend": method, "threads": threads if where == HOST else None}
    if own.get("factor_dtype") == "bfloat16":
        require("ml_dtypes")
    size = n**2 * columns if name == "trsm" else n**3
    unit = float(np.finfo("float64" if name == "refine" else dtype).eps)
    facts: dict[str, Any] = {"operations": chosen.operations * size, "bytes_moved": 2 * arrays["a"].nbytes}
    facts["bound"] = bound = MOST * n**0.5 * unit

    def check(result: Any) -> str:
        residual = chosen.residual(arrays, result)
        if not residual <= bound:
            raise VerificationError("the residual is too large", expected=f"at most {bound:.1e}", got=f"{residual:.1e}")
        return f"a scaled residual of {residual:.1e}, of at most {bound:.1e}"

    is_library = method == LIBRARY
    compute = (lambda: chosen.library(module, arrays)) if is_library else (lambda: chosen.run(arrays, own))
    try:
        if not is_library:
            facts |= shares.measured(compute, lambda: chosen.shares(arrays, own), wait=synchronize)
        made = Computed(compute, check, facts, LIBRARIES[where] if is_library else "", synchronize)
    except BackendUnavailable as error:
        raise Declined("missing", str(error)) from None
    facts["residual"] = chosen.residual(arrays, made.result)
    return made


def _module(where: str) -> Any:
    if where == HOST:
        return np
    from backends.gpu._tasks.device_task import require_gpu

    require_gpu()
    import cupy

    return cupy


def _synchronize() -> None:
    from backends.gpu._cuda import device

    device.synchronize()


def _matrix(rng: np.random.Generator, n: int, dtype: np.dtype[Any], _: int) -> Arrays:
    return {"a": rng.standard_normal((n, n)).astype(dtype)}


def _system(rng: np.random.Generator, n: int, _: np.dtype[Any], columns: int) -> Arrays:
    """Return a well-conditioned system: factors of bfloat16 do for it too."""
    a = np.eye(n) + 0.3 / n**0.5 * rng.standard_normal((n, n))
    return {"a": a, "b": rng.standard_normal((n, columns))}


def _triangle(rng: np.random.Generator, n: int, dtype: np.dtype[Any], columns: int) -> Arrays:
    """Return L of a random matrix's LU with pivoting, whose blocks are ill-conditioned enough to show a difference."""
    a = rng.standard_normal((n, n))
    products = Products("trsm", kind_of("trsm", {"a": a}), a.dtype, "cpu-numpy", None)
    with products:
        LU(a, products, products, block=BLOCK)
    lower = (np.tril(a, -1) + np.eye(n)).astype(dtype)
    return {"a": lower, "b": rng.standard_normal((n, columns)).astype(dtype)}


def _solved(arrays: Arrays, x: Any) -> float:
    """Return ``|A X - B| / (|A| |X| + |B|)`` in maximum norms, in float64."""
    a, b, x = (wide.astype(np.float64) for wide in (arrays["a"], arrays["b"], x))
    size = abs(a).sum(axis=1).max() * abs(x).max() + abs(b).max()
    return float(abs(a @ x - b).max() / size)


def _factored(arrays: Arrays, apply: Callable[[Any], Any], q: Any) -> float:
    """Return the worse of ``|A Z - (factors) Z| / |A Z|`` and ``|Q^T Q Z - Z|`` for a few vectors Z, in float64."""
    a = arrays["a"].astype(np.float64)
    z = _like(a, np.random.default_rng(2).standard_normal((a.shape[1], PROBES)))
    expected = a @ z
    difference = abs(apply(z) - expected).max() / abs(expected).max()
    turned = abs(q.T @ (q @ z) - z).max() / abs(z).max()
    return float(max(difference, turned))


def _like(a: Any, x: np.ndarray) -> Any:
    """Return `x` where `a` lies."""
    return x if isinstance(a, np.ndarray) else _module(GPU).asarray(x)


def _qr_residual(arrays: Arrays, factors: Any) -> float:
    q, r = factors if isinstance(factors, tuple) else (factors.q(), factors.r)
    q, r = q.astype(np.float64), r.astype(np.float64)
    return _factored(arrays, lambda z: q @ (r @ z), q)


def _hessenberg_residual(arrays: Arrays, factors: Any) -> float:
    h, q = (x.astype(np.float64) for x in factors[:2])
    return _factored(arrays, lambda z: q @ (h @ (q.T @ z)), q)


def _library_trsm(module: Any, arrays: Arrays) -> Any:
    if module is np:
        require("scipy")
        from scipy.linalg import solve_triangular
    else:
        from cupyx.scipy.linalg import solve_triangular
    return solve_triangular(arrays["a"], arrays["b"], lower=True)


def _library_hessenberg(module: Any, arrays: Arrays) -> Any:
    if module is not np:
        raise Declined("declined", "cuSOLVER has no Hessenberg reduction")
    require("scipy")
    from scipy.linalg import hessenberg

    return hessenberg(arrays["a"], calc_q=True)


ALGORITHMS = {
    "trsm": Algorithm(
        _triangle,
        lambda x, options: linalg.trsm(x["a"], x["b"], **options),
        _library_trsm,
        _solved,
        shares.of_trsm,
        1.0,
    ),
    "refine": Algorithm(
        _system,
        lambda x, options: linalg.refine(x["a"], x["b"], **options).x,
        lambda module, x: module.linalg.solve(x["a"], x["b"]),
        _solved,
        shares.of_refine,
        2 / 3,
    ),
    "qr": Algorithm(
        _matrix,
        lambda x, options: linalg.qr(x["a"], **options),
        lambda module, x: tuple(module.linalg.qr(x["a"])),
        _qr_residual,
        lambda x, options: linalg.qr(x["a"], timed=True, **options).seconds,
        4 / 3,
    ),
    "hessenberg": Algorithm(
        _matrix,
        lambda x, options: linalg.hessenberg(x["a"], **options),
        _library_hessenberg,
        _hessenberg_residual,
        lambda x, options: linalg.hessenberg(x["a"], timed=True, **options).seconds,
        10 / 3,
    ),
}
