"""The matrix-vector family and updates of a triangle: `gemm` for vectors and symmetric matrices, named as BLAS does.

    gemv  alpha A x + beta y        symv  the same, A symmetric       ger   c + alpha x y^T       axpy  y + alpha x
                                    hemv  the same, A Hermitian
    syrk  alpha A A^T + beta C      syr   c + alpha x x^T             all four compute the lower triangle alone
    herk  alpha A A^H + beta C      her   c + alpha x x^H

Each call is a product of `gemm` with sizes of 1 or a triangle, over any semiring: + is (+), and the terms are (x). What
`gemm` says of its options, of arrays of any library, of complex numbers and of errors holds here. Vectors are arrays of
one dimension; leading dimensions are batches, and broadcast. ``conjugate="a"`` conjugates the first factor, ``"b"`` the
second: ``gemv(a.T, x, conjugate="a")`` is A^H x, ``ger(x, y, conjugate="b")`` is x y^H (BLAS: gerc).

Source: Lawson et al., level 1 BLAS (1979); Dongarra et al., level 2 (1988) and level 3 (1990).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arguments import as_numbers, check_out, choose_dtypes, common_batch
from harness.api.arrays import kind_of
from harness.api.gemm import gemm
from harness.api.libraries import library_of
from harness.api.libraries.views import any_library
from harness.api.remembered import repeats
from harness.errors import ProblemError
from harness.semiring import as_semiring

# Dimensions of each operand behind its leading ones.
_DIMENSIONS = {"a": 2, "x": 1, "y": 1, "c": 2}

# Of an array of NumPy 2; none of CuPy or PyTorch has more.
MOST_DIMENSIONS = 64

# How many operands of a call are multiplied, if not one, by itself or by the one.
_FACTORS = {"gemv": 2, "symv": 2, "hemv": 2, "ger": 2}


@any_library("a", "x", "y", "out", is_of_products=True)
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


@any_library("a", "x", "y", "out", is_of_products=True)
def symv(a: Any, x: Any, y: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute `gemv` for a symmetric A, of which nothing above the diagonal is used.

    Parameters, result and errors are those of `gemv`; a is (..., n, n). For an upper triangle pass ``a.T``.
    """
    return _matrix_by_vector("symv", a, x, y, out, _with_triangle("symv", options, "a"))


@any_library("a", "x", "y", "out", is_of_products=True)
def hemv(a: Any, x: Any, y: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute `gemv` for a Hermitian A: nothing above its diagonal and no imaginary part on it is used.

    Parameters, result and errors are those of `gemv`; a is (..., n, n). For an upper triangle pass ``a.T`` and
    ``conjugate="a"``. Over real dtypes it is `symv`.
    """
    return _matrix_by_vector("hemv", a, x, y, out, _with_triangle("hemv", options, "h"))


@any_library("x", "y", "c", "out", is_of_products=True)
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
    x, y = _array("ger", "x", x), _array("ger", "y", y)
    matrices = x[..., :, None], y[..., None, :], c
    return _product("ger", {"x": x, "y": y, "c": c}, (x.shape[-1], y.shape[-1]), matrices, out, options)


@any_library("x", "c", "out", is_of_products=True)
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
    return _rank_one("syr", x, c, out, options)


@any_library("x", "c", "out", is_of_products=True)
def her(x: Any, c: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute the lower triangle of ``c + alpha x x^H``: `syr` with ``conjugate="b"``, which see."""
    return _rank_one("her", x, c, out, {"conjugate": "b", **options})


@any_library("a", "c", "out", is_of_products=True)
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
    return _rank_k("syrk", a, c, out, options)


@any_library("a", "c", "out", is_of_products=True)
def herk(a: Any, c: Any = None, *, out: Any = None, **options: Any) -> Any:
    """Compute the lower triangle of ``alpha A A^H + beta C``: `syrk` with ``conjugate="b"``, which see.

    For ``A^H A`` pass ``a.T`` and ``conjugate="a"``. Imaginary parts on the diagonal may be rounding errors.
    """
    return _rank_k("herk", a, c, out, {"conjugate": "b", **options})


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
    x, y = _array("axpy", "x", x), _array("axpy", "y", y)
    if x.shape[-1] != y.shape[-1]:
        raise ProblemError("axpy: the lengths of x and y differ", expected="equal lengths", got=f"{x.shape}, {y.shape}")
    try:
        semiring = as_semiring(options.get("semiring", "plus_times"))
    except ProblemError as error:
        raise error.told_by("axpy") from None
    try:
        one = semiring.one(np.result_type(x.dtype, y.dtype))
    except TypeError:
        _check("axpy", {"x": x, "y": y}, x.shape[-1:], out, options.get("dtype"))
        raise
    if one is None:
        raise ProblemError(
            f"axpy: semiring {semiring.name} has no one, by which x could be multiplied",
            expected="a semiring with a one",
            got=semiring.name,
            fix="gemm(x[:, None], factor, y[:, None]) with a factor of shape (1, 1)",
        )
    matrices = x[..., None], kind_of("axpy", {"x": x}).constant(np.full((1, 1), one)), y[..., None]
    return _product("axpy", {"x": x, "y": y}, x.shape[-1:], matrices, out, options)


def _rank_one(caller: str, x: Any, c: Any, out: Any, options: dict[str, Any]) -> Any:
    x = _array(caller, "x", x)
    n, matrices = x.shape[-1], (x[..., :, None], x[..., None, :], c)
    return _product(caller, {"x": x, "c": c}, (n, n), matrices, out, _with_triangle(caller, options, "d"))


def _rank_k(caller: str, a: Any, c: Any, out: Any, options: dict[str, Any]) -> Any:
    a = _array(caller, "a", a)
    n, matrices = a.shape[-2], (a, a.swapaxes(-1, -2), c)
    return _product(caller, {"a": a, "c": c}, (n, n), matrices, out, _with_triangle(caller, options, "d"))


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
    a, x = _array(caller, "a", a), _array(caller, "x", x)
    y = None if y is None else _array(caller, "y", y)
    (m, k), vectors = a.shape[-2:], {"x": x} if y is None else {"x": x, "y": y}
    if caller in ("symv", "hemv") and m != k:
        raise ProblemError(f"{caller}: a is not square", expected="shape (..., n, n)", got=f"shape {a.shape}")
    for name, length in zip(vectors, (k, m), strict=False):
        if vectors[name].shape[-1] != length:
            side = "columns" if name == "x" else "rows"
            raise ProblemError(
                f"{caller}: the length of {name} is not the number of {side} of a",
                expected=f"{name} of shape (..., {length})",
                got=f"a {a.shape} and {name} {vectors[name].shape}",
                fix=_fit(a, vectors, name, length),
            )
    matrices = a, x[..., None], None if y is None else y[..., None]
    return _product(caller, {"a": a, "x": x, "y": y}, (m,), matrices, out, options)


def _fit(a: Any, vectors: dict[str, Any], name: str, length: int) -> str:
    """Return which other argument fits, where the vector `name` has not that length; empty: none is known."""
    shape = vectors[name].shape
    if shape[-1] == 1 and length in shape[-2:-1]:
        return f"{name}={name}[..., 0]"
    if all(vectors[other].shape[-1] == of_a for other, of_a in zip(vectors, a.shape[-2:], strict=False)):
        return "a=a.T" if a.ndim == 2 else "a=a.swapaxes(-1, -2)"
    return f"y=numpy.broadcast_to(y, {(*shape[:-1], length)})" if name == "y" and shape[-1] == 1 else ""


def _product(
    caller: str,
    operands: dict[str, Any],
    shape: tuple[int, ...],
    matrices: tuple[Any, Any, Any],
    out: Any,
    options: dict[str, Any],
) -> Any:
    """Return `gemm` of `matrices`, as which it reads the `operands` of `caller`; `shape` is that of one result.

    What is wrong is said by the names and shapes that the caller has given.
    """
    is_vector = len(shape) == 1
    try:
        result = gemm(*matrices, out=_as_column(caller, out) if is_vector else out, **options)
    except ProblemError as error:
        given = {name: x for name, x in operands.items() if x is not None}
        _check(caller, given, shape, out, options.get("dtype"))
        what, fix = error.what.replace("gemm:", f"{caller}:", 1), error.fix
        if "beta is given without" in what and "y" in operands and is_vector:
            what, fix = what.replace("a C", "a y"), fix.replace("give c", "give y")
        raise ProblemError(what, expected=error.expected, got=error.got, fix=fix) from None
    except TypeError:
        _check_options(caller, operands, options)
        raise
    if out is not None:
        return out
    return result[..., 0] if is_vector else result


def _check_options(caller: str, operands: dict[str, Any], options: dict[str, Any]) -> None:
    """Raise, in the name of `caller`, for a keyword argument that `gemm` does not take or takes for an operand."""
    known = gemm.__kwdefaults__ or {}
    for name in options:
        if name not in known:
            names = ", ".join(dict.fromkeys((*operands, *known)))
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}; it takes {names}") from None


def _check(caller: str, operands: dict[str, Any], shape: tuple[int, ...], out: Any, dtype: Any) -> None:
    """Check of a call of `caller` what `gemm` checks of its own operands a, b and c, and `out`."""
    arrays = kind_of(caller, operands if out is None else {**operands, "out": out})
    inputs = {name: as_numbers(caller, arrays, name, x) for name, x in operands.items()}
    result_dtype, _ = choose_dtypes(caller, inputs, dtype, _FACTORS.get(caller, 1))
    check_out(caller, arrays, out, (*common_batch(caller, inputs, _DIMENSIONS), *shape), result_dtype)


def _array(caller: str, name: str, x: Any) -> Any:
    """Return the operand `name` as an array, which has at least its dimensions; `gemm` checks all else."""
    is_array = x.__class__ is np.ndarray or x.__class__ in repeats.classes
    if not is_array and library_of(x) is None:
        x = as_numbers(caller, kind_of(caller, {name: x}), name, x)
    if x.ndim == MOST_DIMENSIONS and _DIMENSIONS[name] == 1:
        raise ProblemError(
            f"{caller}: {name} has too many dimensions",
            expected=f"at most {MOST_DIMENSIONS - 1}: a vector is computed as a matrix",
            got=f"{x.ndim}",
            fix=f"{name}.reshape((-1, {name}.shape[-1])), all leading dimensions as one",
        )
    if x.ndim < _DIMENSIONS[name]:
        raise ProblemError(
            f"{caller}: {name} is no {'vector' if _DIMENSIONS[name] == 1 else 'matrix'}",
            expected=f"{_DIMENSIONS[name]} dimensions or more",
            got=f"shape {x.shape}",
        )
    return x


def _as_column(caller: str, out: Any) -> Any:
    """Return a view of `out` as a matrix of one column.

    Of anything but an array, such as a list or a table, it would be one of a copy.
    """
    if out is None:
        return None
    is_array = isinstance(out, np.ndarray) or out.__class__ in repeats.classes or library_of(out) is not None
    if not is_array and not isinstance(out, kind_of(caller, {"out": out}).module.ndarray):
        raise ProblemError(f"{caller}: out cannot take the result", expected="a writable array", got=type(out).__name__)
    return out if out.ndim == MOST_DIMENSIONS else out[..., None]  # no result has so many
