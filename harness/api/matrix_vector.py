"""The matrix-vector family and updates of a triangle: `gemm` for vectors and symmetric matrices, named as BLAS does.

    gemv  alpha A x + beta y        symv  the same, A symmetric       ger   c + alpha x y^T       axpy  y + alpha x
    syrk  alpha A A^T + beta C      syr   c + alpha x x^T             both compute the lower triangle alone

Each call is a product of `gemm` with sizes of 1 or a triangle, over any semiring: + is (+), and the terms are (x). What
`gemm` says of its options, of arrays of any library and of errors holds here. Vectors are arrays of one dimension;
leading dimensions are batches, and broadcast.

Source: Lawson et al., level 1 BLAS (1979); Dongarra et al., level 2 (1988) and level 3 (1990).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arrays import as_array
from harness.api.gemm import gemm
from harness.api.views import any_library
from harness.errors import ProblemError
from harness.semiring import as_semiring


@any_library("a", "x", "y", "out")
def gemv(a: Any, x: Any, y: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute ``(alpha (x) A (x) x) (+) (beta (x) y)``.

    Parameters
    ----------
    a : (..., m, k) array
        Any strides. ``gemv(a.T, x)`` reads the same memory by columns, without a copy. Over a semiring whose (x) does
        not commute, ``gemm(x[None], a)`` is x A.
    x : (..., k) array
    y : (..., m) array, optional
    out : (..., m) array, optional
        May be y.
    **options
        As of `gemm`.

    Returns
    -------
    (..., m) array
        `out` if given.

    Raises
    ------
    ProblemError
        If the lengths do not fit, and as `gemm`.
    """
    return _matrix_by_vector("gemv", a, x, y, out, options)


@any_library("a", "x", "y", "out")
def symv(a: Any, x: Any, y: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute `gemv` for a symmetric A, of which nothing above the diagonal is used.

    Parameters, result and errors are those of `gemv`; a is (..., n, n). For an upper triangle pass ``a.T``.
    """
    return _matrix_by_vector("symv", a, x, y, out, _with_triangle("symv", options, "a"))


@any_library("x", "y", "c", "out")
def ger(x: Any, y: Any, c: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute ``c (+) (alpha (x) x (x) y^T)``, a rank-1 update.

    Parameters
    ----------
    x : (..., m) array
    y : (..., n) array
    c : (..., m, n) array, optional
    out : (..., m, n) array, optional
        May be c: then the update is in place, and an element that is added to is written where it was read.
    **options
        As of `gemm`.

    Returns
    -------
    (..., m, n) array
    """
    x, y = _vector("ger", "x", x), _vector("ger", "y", y)
    return gemm(x[..., :, None], y[..., None, :], c, out=out, **options)


@any_library("x", "c", "out")
def syr(x: Any, c: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute the lower triangle of ``c (+) (alpha (x) x (x) x^T)``.

    Parameters
    ----------
    x : (..., n) array
    c : (..., n, n) array, optional
        Only its lower triangle is read.
    out : (..., n, n) array, optional
        May be c. Nothing above its diagonal is written; a new result holds the semiring's zero there.
    **options
        As of `gemm`.

    Returns
    -------
    (..., n, n) array
    """
    x = _vector("syr", "x", x)
    return gemm(x[..., :, None], x[..., None, :], c, out=out, **_with_triangle("syr", options, "d"))


@any_library("a", "c", "out")
def syrk(a: Any, c: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute the lower triangle of ``(alpha (x) A (x) A^T) (+) (beta (x) C)``.

    Parameters
    ----------
    a : (..., n, k) array
        For ``A^T A`` pass ``a.T``.
    c : (..., n, n) array, optional
        Only its lower triangle is read.
    out : (..., n, n) array, optional
        May be c. Nothing above its diagonal is written; a new result holds the semiring's zero there.
    **options
        As of `gemm`.

    Returns
    -------
    (..., n, n) array
    """
    a = _array("syrk", "a", a, 2)
    return gemm(a, a.swapaxes(-1, -2), c, out=out, **_with_triangle("syrk", options, "d"))


@any_library("x", "y", "out")
def axpy(x: Any, y: Any, *, out: Any = None, **options: Any) -> Any:
    """Compute ``y (+) (alpha (x) x)``.

    Parameters
    ----------
    x, y : (..., n) array
    out : (..., n) array, optional
        May be y.
    **options
        As of `gemm`; the semiring needs a one.

    Returns
    -------
    (..., n) array

    Raises
    ------
    ProblemError
        If the lengths differ or the semiring has no one, and as `gemm`.
    """
    x, y = _vector("axpy", "x", x), _vector("axpy", "y", y)
    if x.shape[-1] != y.shape[-1]:
        raise ProblemError("axpy: the lengths of x and y differ", expected="equal lengths", got=f"{x.shape}, {y.shape}")
    semiring = as_semiring(options.get("semiring", "plus_times"))
    one = semiring.one(np.result_type(x.dtype, y.dtype))
    if one is None:
        raise ProblemError(
            f"axpy: semiring {semiring.name} has no one, by which x could be multiplied",
            expected="a semiring with a one",
            got=semiring.name,
            fix="gemm(x[:, None], factor, y[:, None]) with a factor of shape (1, 1)",
        )
    factor = _factor(x, one)
    result = gemm(x[..., None], factor, y[..., None], out=_as_column("axpy", out), **options)
    return result[..., 0] if out is None else out


def _with_triangle(caller: str, options: dict[str, Any], triangle: str) -> dict[str, Any]:
    """Return the options of `gemm` with the triangle that `caller` stands for."""
    if options.get("triangle", triangle) != triangle:
        raise ProblemError(
            f"{caller}: the triangle cannot be chosen",
            expected=repr(triangle),
            got=repr(options["triangle"]),
            fix="leave it out, or call gemm",
        )
    return {**options, "triangle": triangle}


def _matrix_by_vector(caller: str, a: Any, x: Any, y: Any, out: Any, options: dict[str, Any]) -> Any:
    a, x = _array(caller, "a", a, 2), _vector(caller, "x", x)
    y = None if y is None else _vector(caller, "y", y)
    (m, k), vectors = a.shape[-2:], {"x": x} if y is None else {"x": x, "y": y}
    for name, length in zip(vectors, (k, m), strict=False):
        if vectors[name].shape[-1] != length:
            side = "columns" if name == "x" else "rows"
            raise ProblemError(
                f"{caller}: the length of {name} is not the number of {side} of a",
                expected=f"{name} of shape (..., {length})",
                got=f"a {a.shape} and {name} {vectors[name].shape}",
                fix=f"{caller}(a.T, ...) multiplies by the transposed matrix" if m != k else "",
            )
    if caller == "symv" and m != k:
        raise ProblemError("symv: a is not square", expected="shape (..., n, n)", got=f"shape {a.shape}")
    if out is not None:
        _check_shape(caller, out, [a.shape[:-2], *(z.shape[:-1] for z in vectors.values())], m)
    column = None if y is None else y[..., None]
    result = gemm(a, x[..., None], column, out=_as_column(caller, out), **options)
    return result[..., 0] if out is None else out


def _check_shape(caller: str, out: Any, batches: list[tuple[int, ...]], m: int) -> None:
    """Raise unless `out` has the shape of the vectors of the result; `gemm` checks all else, as of columns."""
    try:
        expected = (*np.broadcast_shapes(*batches), m)
    except ValueError:  # which `gemm` reports
        return
    if np.shape(out) != expected:
        raise ProblemError(
            f"{caller}: out cannot take the result", expected=f"shape {expected}", got=f"shape {np.shape(out)}"
        )


def _array(caller: str, name: str, x: Any, dimensions: int) -> Any:
    """Return `x` as an array, which has at least so many dimensions; `gemm` checks all else."""
    array = x if hasattr(x, "ndim") and hasattr(x, "dtype") else as_array(caller, name, x)
    if array.ndim < dimensions:
        raise ProblemError(
            f"{caller}: {name} is no {'vector' if dimensions == 1 else 'matrix'}",
            expected=f"{dimensions} dimensions or more",
            got=f"shape {array.shape}",
        )
    return array


def _vector(caller: str, name: str, x: Any) -> Any:
    return _array(caller, name, x, 1)


def _as_column(caller: str, out: Any) -> Any:
    """Return a view of `out` as a matrix of one column.

    A list would be copied, and its copy written to.
    """
    if out is None:
        return None
    if not hasattr(out, "ndim") or not hasattr(out, "dtype"):
        raise ProblemError(f"{caller}: out cannot take the result", expected="a writable array", got=type(out).__name__)
    return _vector(caller, "out", out)[..., None]


def _factor(x: Any, value: Any) -> Any:
    """Return a matrix of one element, `value`, where `x` lies."""
    if isinstance(x, np.ndarray):
        return np.full((1, 1), value)
    factor = type(x)((1, 1), dtype=np.asarray(value).dtype)
    factor.fill(value)
    return factor
