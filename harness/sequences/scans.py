"""Scans and chains: all prefix products of T matrices over any semiring, and the whole product.

    chain    neighbours are multiplied, all pairs at once, until one matrix is left         T products, log2(T) calls
    scan     of the products of neighbours by the same, which are every second prefix; the others take one product more
                                                                                           2 T products, 2 log2(T) calls
    scan of vectors    one step after the other: T S^2 pairs, in one call where a backend has a kernel for steps

Source: Ladner and Fischer, "Parallel prefix computation" (1980); Blelloch, "Prefix sums and their applications" (1990).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.api.arrays import as_array, kind_of
from harness.api.gemm import gemm
from harness.api.libraries.views import any_library
from harness.errors import ProblemError
from harness.semiring import Semiring, as_semiring
from harness.sequences import recorded
from harness.sequences.arguments import Model, run_steps

Product = Callable[[Any, Any], Any]


@recorded.by_autograd("scan")
@any_library("a", "initial")
def scan(
    a: Any, semiring: str | Semiring = "plus_times", *, initial: Any = None, reverse: bool = False,
    backend: str = "auto", threads: int | None = None,
) -> Any:  # fmt: skip
    """Compute all prefix products ``a[0] (x) ... (x) a[t]`` of matrices over a semiring.

    Parameters
    ----------
    a : (..., T, S, S) array
        Leading dimensions are sequences of their own.
    semiring : str or Semiring
    initial : (..., S) array, optional
        Vectors: the result is ``initial (x) a[0] (x) ... (x) a[t]``, which takes S times fewer pairs.
    reverse : bool
        Suffixes instead: ``a[t] (x) ... (x) a[T - 1]``, times `initial` as a column.
    backend, threads
        As in `harness.gemm`.

    Returns
    -------
    (..., T, S, S) array, or (..., T, S) of vectors

    Raises
    ------
    ProblemError
        If shapes do not chain; and as `harness.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> scan(np.array([[[1, 1], [1, 0]]] * 4))[:, 0, 1]
    array([1, 1, 2, 3])
    """
    arrays = kind_of("scan", {"a": a} if initial is None else {"a": a, "initial": initial})
    a, semiring = check_matrices("scan", a if arrays.on_device else as_array("scan", "a", a)), as_semiring(semiring)
    product = functools.partial(gemm, semiring=semiring, backend=backend, threads=threads)
    if initial is not None:
        initial = initial if arrays.on_device else as_array("scan", "initial", initial)
        check_initial(a, initial)
        with arrays.in_force():
            return _vectors(arrays, a, initial, semiring, reverse, backend, threads)
    with arrays.in_force():
        return prefixes(arrays.module, a, product, reverse=reverse)


@recorded.by_autograd("chain")
@any_library("a")
def chain(a: Any, semiring: str | Semiring = "plus_times", *, backend: str = "auto", threads: int | None = None) -> Any:
    """Compute the product ``a[0] (x) ... (x) a[T - 1]`` of matrices over a semiring; arguments are those of `scan`.

    Returns
    -------
    (..., S, S) array
        The identity of the semiring if T is 0.
    """
    arrays = kind_of("chain", {"a": a})
    a, semiring = check_matrices("chain", a if arrays.on_device else as_array("chain", "a", a)), as_semiring(semiring)
    with arrays.in_force():
        if a.shape[-3] == 0:
            return arrays.module.asarray(identity("chain", a.shape, semiring, a.dtype))
        product = functools.partial(gemm, semiring=semiring, backend=backend, threads=threads)
        return whole(arrays.module, a, product)


def prefixes(xp: Any, a: Any, product: Product, *, reverse: bool = False) -> Any:
    """Return all prefixes, or suffixes, of arrays of `xp`, by `product` of many matrices at once."""
    if reverse:
        return xp.flip(prefixes(xp, xp.flip(a, (-3,)), lambda x, y: product(y, x)), (-3,))
    steps = a.shape[-3]
    if steps < 2:
        return xp.concatenate([a], -3)  # no result shares memory with an operand
    odd = prefixes(xp, product(a[..., : steps - 1 : 2, :, :], a[..., 1::2, :, :]), product)
    if steps == 2:
        return xp.concatenate([a[..., :1, :, :], odd], -3)
    even = product(odd[..., : (steps - 1) // 2, :, :], a[..., 2::2, :, :])
    both = xp.stack([odd[..., : even.shape[-3], :, :], even], -3)  # they alternate
    both = both.reshape(*even.shape[:-3], 2 * even.shape[-3], *even.shape[-2:])
    return xp.concatenate([a[..., :1, :, :], both, odd[..., even.shape[-3] :, :, :]], -3)


def whole(xp: Any, a: Any, product: Product) -> Any:
    """Return the product of T >= 1 matrices, in their order."""
    while (steps := a.shape[-3]) > 1:
        pairs = product(a[..., : steps - 1 : 2, :, :], a[..., 1::2, :, :])
        a = xp.concatenate([pairs, a[..., steps - 1 :, :, :]], -3) if steps % 2 else pairs
    return xp.concatenate([a[..., 0, :, :]], -1)


def _vectors(
    arrays: Any, a: Any, initial: Any, semiring: Semiring, reverse: bool, backend: str, threads: int | None
) -> Any:
    """Return the vectors of a scan: steps whose emission is the one of the semiring."""
    dtype, (steps, states, _) = np.result_type(a.dtype, initial.dtype), a.shape[-3:]
    xp, batch = arrays.module, np.broadcast_shapes(a.shape[:-3], initial.shape[:-1])
    count = math.prod(batch)
    a = xp.broadcast_to(arrays.converted(a, dtype), (*batch, steps, states, states))
    a = a.reshape(count, steps, states, states)
    initial = xp.broadcast_to(arrays.converted(initial, dtype), (*batch, states)).reshape(count, states)
    a = a[:, ::-1].swapaxes(-1, -2) if reverse else a
    one = semiring.one(dtype)
    if one is None:
        raise _no_identity("scan", semiring)
    emission = xp.broadcast_to(arrays.constant(np.asarray(one, dtype)), (len(initial), steps + 1, states))
    lengths = np.full(len(initial), steps + 1, np.int64)
    model = Model(arrays, "scan", initial, a, emission, lengths, is_batched=True)
    vectors = run_steps(model, semiring, "after", backend, threads).states[:, 1:]
    return (vectors[:, ::-1] if reverse else vectors).reshape(*batch, steps, states)


def identity(caller: str, shape: tuple[int, ...], semiring: Semiring, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the product of no matrices."""
    zero, one = semiring.zero(dtype), semiring.one(dtype)
    if one is None:
        raise _no_identity(caller, semiring)
    unit = np.full(shape[-2:], zero, dtype)
    np.fill_diagonal(unit, one)
    return np.broadcast_to(unit, (*shape[:-3], *shape[-2:])).copy()


def _no_identity(caller: str, semiring: Semiring) -> ProblemError:
    return ProblemError(
        f"{caller}: {semiring.name} has no one", expected="a semiring with an identity of (x)", got="none"
    )


def check_matrices(caller: str, a: Any) -> Any:
    """Return `a`, or raise ProblemError unless it is T square matrices."""
    if len(a.shape) < 3 or a.shape[-1] != a.shape[-2]:
        raise ProblemError(
            f"{caller}: a is no sequence of square matrices",
            expected="shape (..., T, S, S)",
            got=f"shape {tuple(a.shape)}",
        )
    return a


def check_initial(a: Any, initial: Any) -> None:
    """Raise ProblemError unless `initial` is vectors that the matrices take."""
    if len(initial.shape) < 1 or initial.shape[-1] != a.shape[-1]:
        raise ProblemError(
            "scan: initial does not chain with a",
            expected=f"shape (..., {a.shape[-1]})",
            got=f"shape {tuple(initial.shape)}",
        )
