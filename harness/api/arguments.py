"""Check the arrays that the public calls take, once, at the edge, with a message that names the argument.

Nothing is converted silently. Without a dtype NumPy's promotion decides, and the result has the promoted dtype. A
requested dtype is that one, or the dtype of the sums of a mixed product (`harness.dtypes.MIXED`). A and B of a mixed
product stay as they are, or, of two formats, become the narrowest that holds both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from harness.api.arrays import Arrays, is_masked, kind_of
from harness.dtypes import MIXED, dtype_name, factors_dtype, is_known
from harness.errors import ProblemError
from harness.operands import broadcast, conjugated, shares_with_itself
from harness.problem import Problem
from harness.semiring import Scalar, Semiring


class Arguments:
    """Arguments that fit: `inputs` are the operands by name, `problem` is one product of the batch."""

    # no dataclass: to make one takes 0.7 ms of every import
    def __init__(self, arrays: Arrays, inputs: dict[str, Any], problem: Problem, batch: tuple[int, ...]) -> None:
        self.arrays, self.inputs, self.problem, self.batch = arrays, inputs, problem, batch
        self.shape = (*batch, problem.m, problem.n)

    def operands(self) -> dict[str, Any]:
        """Return the operands with the product's dtypes, broadcast to the batch; copies only where they must be."""
        return {name: self.arrays.operand(x, self.dtype_of(name), self.batch) for name, x in self.inputs.items()}

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """Return the dtype that the product takes an operand in."""
        return self.problem.dtype if name == "c" else self.problem.input_dtype

    def are_converted(self) -> bool:
        """Return whether an operand has another dtype than the product takes it in."""
        return any(x.dtype != self.dtype_of(name) for name, x in self.inputs.items())

    def conjugated(self) -> Arguments:
        """Return the same product of copies that are conjugated, for a backend that conjugates nothing."""
        problem, module = self.problem, self.arrays.module
        inputs = {name: conjugated(x, module) if name in problem.conjugate else x for name, x in self.inputs.items()}
        layout = order_of(inputs["a"]) + order_of(inputs["b"]) + problem.layout[2]
        return Arguments(self.arrays, inputs, problem.laid_out(layout, conjugate=""), self.batch)


def read_arguments(
    caller: str,
    operands: dict[str, Any],
    semiring: Semiring,
    *,
    alpha: Scalar = None,
    beta: Scalar = None,
    out: Any = None,
    dtype: Any = None,
    triangle: str = "",
    conjugate: str = "",
) -> Arguments:
    """Check the arguments of `caller` (its name), and return them with the product that they describe.

    The `operands` by name are a, b, and c if there is one. Other parameters and errors are those of `harness.gemm`.
    """
    arrays = kind_of(caller, operands if out is None else {**operands, "out": out})
    matrices = {name: _as_matrices(caller, arrays, name, x) for name, x in operands.items()}
    dtype, operand_dtype = choose_dtypes(caller, matrices, dtype)
    batch, (m, n, k) = _shapes(caller, matrices)
    others: dict[str, Any] = {"operand_dtype": operand_dtype, "triangle": triangle, "conjugate": conjugate}
    problem = Problem(m, n, k, semiring, dtype, alpha, beta, "c" in matrices, **others)
    check_out(caller, arrays, out, (*batch, m, n), problem.dtype)
    layout = order_of(matrices["a"]) + order_of(matrices["b"]) + ("C" if out is None else order_of(out))
    return Arguments(arrays, matrices, problem.laid_out(layout), batch)


def choose_dtypes(
    caller: str, operands: dict[str, Any], requested: Any, factors: int = 2
) -> tuple[np.dtype[Any], np.dtype[Any] | None]:
    """Return the dtype of the sums and of the result, and that of the factors if the product is mixed.

    The `operands` by name are so many `factors`, and then what is added, if anything is. `requested` is the dtype that
    the caller asks for, or None.

    Raises
    ------
    ProblemError
        If the operands have no common dtype, or `requested` is neither that nor a dtype of the sums of a mixed product.
    """
    dtypes = {name: x.dtype.newbyteorder("=") for name, x in operands.items()}
    if requested is None:
        return _promoted(caller, dtypes, factors), None
    names = list(dtypes)
    dtype, narrow = _as_dtype(caller, requested), factors_dtype(*[dtypes[name] for name in names[:factors]])
    if narrow is None or MIXED.get(dtype_name(narrow)) != dtype_name(dtype):
        promoted = _promoted(caller, dtypes, factors)
        if dtype != promoted:
            multiplied = " and ".join(names[:factors])
            mixed = ", ".join(f"{wide} for {multiplied} of {name}" for name, wide in MIXED.items())
            what = f"dtype={dtype.name!r} is not that of the product"
            raise _misfit(caller, what, f"{promoted.name}; or {mixed}", dtypes)
        return dtype, None
    for name in names[factors:]:
        if dtypes[name] != dtype:
            raise _misfit(caller, f"{name} has not the dtype of the sums", f"{name} of {dtype.name}", dtypes)
    return dtype, narrow


def as_numbers(caller: str, arrays: Arrays, name: str, x: Any) -> Any:
    """Return the operand `name` of `caller` as an array of numbers, or raise ProblemError."""
    array = arrays.take(caller, name, x)
    if not is_known(array.dtype):
        raise ProblemError(
            f"{caller}: {name} does not hold numbers or bools",
            expected="an array of floats, complex numbers, integers or bools",
            got=f"{type(x).__name__} of dtype {array.dtype}",
            fix=_conversion(name, x, array),
        )
    return array


def _as_matrices(caller: str, arrays: Arrays, name: str, x: Any) -> Any:
    """Return the operand `name` as a matrix or a stack of matrices of numbers."""
    array = as_numbers(caller, arrays, name, x)
    if array.ndim < 2:
        raise ProblemError(
            f"{caller}: {name} is not a matrix",
            expected="two dimensions or more",
            got=f"shape {array.shape}",
            fix=f"gemv for a matrix by a vector; {name}[None, :] for a row, {name}[:, None] for a column"
            if array.ndim
            else f"numpy.multiply for a scalar; numpy.atleast_2d({name}) for a matrix of one element",
        )
    return array


def _conversion(name: str, x: Any, array: Any) -> str:
    """Return how an operand `x`, as an array without numbers, becomes one with them."""
    if hasattr(x, "toarray"):
        return f"{name}.toarray()"
    if array.dtype.names:
        first = array.dtype.names[0]
        return f"{name}[{first!r}] for a field; numpy.lib.recfunctions.structured_to_unstructured({name})"
    if x is None or isinstance(x, str | Semiring):
        return f"give {name}" if x is None else f"did you mean semiring={getattr(x, 'name', x)!r}?"
    if not array.ndim and isinstance(x, Iterator | AbstractSet | Mapping):  # NumPy takes it for one object
        values = f"{name}.values()" if isinstance(x, Mapping) else name
        return f"numpy.array(list({values}), float), if its elements are numbers"
    as_floats = f"{name}.astype(float)" if hasattr(x, "astype") else f"numpy.array({name}, float)"
    return f"{as_floats}, if its elements are numbers"


def _shapes(caller: str, operands: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """Return the batch shape, and m, n, k."""
    a, b, c = operands["a"], operands["b"], operands.get("c")
    (m, k), (k_of_b, n) = a.shape[-2:], b.shape[-2:]
    if k != k_of_b:
        is_turned_b = n == k and (c is None or c.shape[-2:] == (m, k_of_b))
        raise ProblemError(
            f"{caller}: the inner sizes of a and b differ",
            expected="a (..., m, k) and b (..., k, n)",
            got=f"a {a.shape} and b {b.shape}",
            fix="b=b.T" if b.ndim == 2 and is_turned_b else "",
        )
    if c is not None and c.shape[-2:] != (m, n):
        is_repeated = c.shape[-2] in (1, m) and c.shape[-1] in (1, n)
        raise ProblemError(
            f"{caller}: c does not have the shape of the product",
            expected=f"(..., {m}, {n})",
            got=f"{c.shape}",
            fix=f"numpy.broadcast_to(c, {(*c.shape[:-2], m, n)})" if is_repeated else "",
        )
    return common_batch(caller, operands, dict.fromkeys(operands, 2)), (m, n, k)


def common_batch(caller: str, operands: dict[str, Any], dimensions: dict[str, int]) -> tuple[int, ...]:
    """Return the shape to which the leading dimensions of all `operands` broadcast: all but `dimensions` of each.

    Raises
    ------
    ProblemError
        If there is none.
    """
    try:
        return broadcast(*(x.shape[: x.ndim - dimensions[name]] for name, x in operands.items()))
    except ValueError:
        raise ProblemError(
            f"{caller}: the leading dimensions do not broadcast",
            expected="equal leading dimensions, or 1",
            got=", ".join(f"{name} {x.shape}" for name, x in operands.items()),
        ) from None


def check_out(
    caller: str, arrays: Arrays, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "out"
) -> None:
    """Raise unless `out` is None, or an array that a result of that shape and dtype can be written to."""
    if out is None:
        return
    got = type(out).__name__
    if isinstance(out, arrays.module.ndarray):
        repeats = shares_with_itself(out.shape, out.strides, out.itemsize)
        is_writable, has_mask = arrays.is_writable(out), is_masked(out)
        if out.shape == shape and out.dtype == dtype and is_writable and not repeats and not has_mask:
            return
        got = f"shape {out.shape}, {out.dtype}, {'writable' if is_writable else 'read-only'}"
        got += ", elements that share memory" * repeats + ", a mask that would hide results" * has_mask
    raise ProblemError(
        f"{caller}: {name} cannot take the result",
        expected=f"a writable array of shape {shape} and dtype {dtype.name}",
        got=got,
        fix=f"{name}={arrays.module.__name__}.empty({shape}, {dtype.name!r})",
    )


def order_of(x: Any) -> str:
    """Return the memory order of the matrices in `x`, a letter of `Problem.layout`."""
    (rows, columns), (row, column), size = x.shape[-2:], x.strides[-2:], x.itemsize
    if column == size and row == columns * size:
        return "C"
    return "F" if row == size and column == rows * size else "A"


def _promoted(caller: str, dtypes: dict[str, np.dtype[Any]], factors: int) -> np.dtype[Any]:
    try:
        promoted: np.dtype[Any] = np.result_type(*dtypes.values()).newbyteorder("=")
    except TypeError:
        narrow = factors_dtype(*list(dtypes.values())[:factors])
        wide = None if narrow is None else MIXED.get(dtype_name(narrow))
        fix = f"dtype={wide!r} in the call, the dtype of the sums and of the result" if wide else ""
        what, expected = "the operands have no common dtype", "dtypes that NumPy promotes to one"
        raise _misfit(caller, what, expected, dtypes, fix) from None
    return promoted


def _as_dtype(caller: str, dtype: Any) -> np.dtype[Any]:
    try:
        native: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        raise ProblemError(f"{caller}: dtype is not a NumPy dtype", expected="'float32'", got=repr(dtype)) from None
    return native


def _misfit(caller: str, what: str, expected: str, dtypes: dict[str, np.dtype[Any]], fix: str = "") -> ProblemError:
    got = ", ".join(f"{name} of {dtype.name}" for name, dtype in dtypes.items())
    fix = fix or f"convert with astype: {caller} converts nothing by itself"
    return ProblemError(f"{caller}: {what}", expected=expected, got=got, fix=fix)
