"""Errors of solutions and factorisations, in units of the rounding error of their dtype, computed in float64."""

from __future__ import annotations

from typing import Any

import numpy as np


def wide(x: Any) -> np.ndarray:
    """Return `x` on the host, in float64."""
    return np.asarray(x.get() if hasattr(x, "get") else x, np.float64)


def unit(x: Any) -> float:
    """Return the rounding error of the dtype of `x`."""
    return float(np.finfo(x.dtype).eps)


def largest(x: np.ndarray) -> float:
    return float(np.abs(x).max(initial=0))


def residual(a: Any, x: Any, b: Any) -> float:
    """Return ``|A x - b| / (|A| |x| + |b|)``, largest elements and row sums, over the rounding error of x."""
    wide_a, wide_x, wide_b = wide(a), wide(x), wide(b)
    wide_x = wide_x if wide_b.ndim > 1 else wide_x[:, None]
    wide_b = wide_b if wide_b.ndim > 1 else wide_b[:, None]
    size = largest(np.abs(wide_a).sum(-1)) * largest(wide_x) + largest(wide_b)
    return largest(wide_a @ wide_x - wide_b) / (size or 1) / unit(x)


def check_qr(a: Any, factors: Any, bound: float = 20) -> None:
    """Fail unless A = Q R, Q has orthonormal columns and R is an upper trapezoid, in the dtype of A."""
    q, r = factors.q(), factors.r
    assert q.dtype == r.dtype == a.dtype
    assert q.shape == (a.shape[0], min(a.shape))
    assert r.shape == (min(a.shape), a.shape[1])
    assert not np.tril(wide(r), -1).any()
    scale = unit(a) * max(a.shape, default=1) ** 0.5
    assert largest(wide(q) @ wide(r) - wide(a)) <= bound * scale * max(largest(wide(a)), 1e-300)
    assert largest(wide(q).T @ wide(q) - np.eye(q.shape[1])) <= bound * scale


def check_hessenberg(a: Any, h: Any, q: Any, bound: float = 20) -> None:
    """Fail unless A = Q H Q^T, Q is orthogonal, and H has zeros below its first subdiagonal."""
    assert h.dtype == q.dtype == a.dtype
    assert h.shape == q.shape == a.shape
    assert not np.tril(wide(h), -2).any()
    scale = unit(a) * max(a.shape[0], 1) ** 0.5
    norm = float(np.linalg.norm(wide(a), 2)) if a.size else 0.0
    assert largest(wide(q) @ wide(h) @ wide(q).T - wide(a)) <= bound * scale * norm
    assert largest(wide(q).T @ wide(q) - np.eye(a.shape[0])) <= bound * scale


def of_condition(rng: np.random.Generator, n: int, condition: float) -> np.ndarray:
    """Return an (n, n) matrix whose singular values fall from 1 to ``1 / condition``."""
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in "uv")
    values: np.ndarray = np.logspace(0, -np.log10(condition), n)
    return u * values @ v
