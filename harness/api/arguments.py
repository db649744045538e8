"""The arrays that the public calls take: looked at once, at the edge, with a message that names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.errors import ProblemError
from harness.problem import MIXED


def as_array(name: str, x: Any) -> np.ndarray:
    """Return `x` as a matrix or a stack of matrices of numbers."""
    if hasattr(x, "__cuda_array_interface__"):
        raise ProblemError(
            f"gemm: {name} lies on a GPU",
            expected="a host array, or all arrays of CuPy",
            got=f"{type(x).__module__}.{type(x).__name__}",
            fix=f"cupy.asarray({name}), which copies nothing, for all arrays",
        )
    if isinstance(x, np.ma.MaskedArray):
        raise ProblemError(
            f"gemm: {name} is a masked array",
            expected="an array whose every element counts",
            got=type(x).__name__,
            fix=f"{name}.filled(value): the semiring's zero makes an element absent",
        )
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ProblemError(f"gemm: {name} is no array", got=str(error)) from None
    check_matrix(name, array, type(x).__name__)
    return array


def check_matrix(name: str, array: Any, kind: str = "array") -> None:
    """Raise unless `array`, which came as a `kind`, is a matrix or a stack of matrices of numbers."""
    if array.dtype.kind not in "biuf" and array.dtype.name not in MIXED:
        raise ProblemError(
            f"gemm: {name} does not hold real numbers or bools",
            expected="a float, integer or bool array",
            got=f"{kind} of dtype {array.dtype}",
            fix=f"{name}.toarray() if it is sparse, else {name}.astype(float)",
        )
    if array.ndim < 2:
        raise ProblemError(
            f"gemm: {name} is not a matrix",
            expected="two dimensions or more",
            got=f"shape {array.shape}",
            fix=f"{name}[None, :] for a row, {name}[:, None] for a column",
        )


def shapes(arrays: dict[str, np.ndarray]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """Return the batch shape, and m, n, k, of the operands a, b and, if there is one, c."""
    a, b, c = arrays["a"], arrays["b"], arrays.get("c")
    (m, k), (k_of_b, n) = a.shape[-2:], b.shape[-2:]
    if k != k_of_b:
        raise ProblemError(
            "gemm: the inner sizes of a and b differ",
            expected="a (..., m, k) and b (..., k, n)",
            got=f"a {a.shape} and b {b.shape}",
            fix=f"b.T has shape {b.T.shape}" if b.ndim == 2 and b.shape[1] == k else "",
        )
    if c is not None and c.shape[-2:] != (m, n):
        raise ProblemError(
            "gemm: c does not have the shape of the product", expected=f"(..., {m}, {n})", got=f"{c.shape}"
        )
    try:
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in arrays.values()))
    except ValueError:
        raise ProblemError(
            "gemm: the leading dimensions do not broadcast",
            expected="equal leading dimensions, or 1",
            got=", ".join(f"{name} {x.shape}" for name, x in arrays.items()),
        ) from None
    return batch, (m, n, k)


def order(x: np.ndarray) -> str:
    """Return the memory order of the matrices in `x`, a letter of `Problem.layout`."""
    (rows, columns), (row, column), size = x.shape[-2:], x.strides[-2:], x.itemsize
    if column == size and row == columns * size:
        return "C"
    return "F" if row == size and column == rows * size else "A"


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise unless the result, of that shape and dtype, can be written to `out`; None will be made."""
    if out is None:
        return
    got = f"{type(out).__name__}"
    if isinstance(out, np.ndarray):
        got = f"shape {out.shape}, {out.dtype}, {'writable' if out.flags.writeable else 'read-only'}"
        repeats = out.size > 0 and any(s == 0 and n > 1 for s, n in zip(out.strides, out.shape, strict=True))
        if out.shape == shape and out.dtype == dtype and out.flags.writeable and not repeats:
            return
        got += ", elements that share memory" if repeats else ""
    raise ProblemError(
        "gemm: out cannot take the result",
        expected=f"a writable array of shape {shape} and dtype {dtype.name}",
        got=got,
        fix=f"out=numpy.empty({shape}, {dtype.name!r})",
    )


def convert(x: np.ndarray, dtype: np.dtype[Any], batch: tuple[int, ...]) -> np.ndarray:
    """Return `x` with the product's dtype, native, aligned, and broadcast to the batch; a copy only if it must be."""
    if x.dtype != dtype or not x.flags.aligned:
        x = x.astype(dtype, order="K")
    return np.broadcast_to(x, (*batch, *x.shape[-2:]))
