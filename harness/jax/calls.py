"""A call of a function of arrays inside of what JAX compiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from harness.jax import ffi

_NAME = "gemm_harness_call"

_functions: list[ffi.Function] = []
_numbers: dict[ffi.Function, int] = {}


def call(function: ffi.Function, results: Sequence[Any], *arguments: Any, vmap_method: str = "expand_dims") -> Any:
    """Return what ``function(*arguments)`` returns for arrays of NumPy, or of CuPy on a GPU.

    Parameters
    ----------
    function : callable
        One object for each set of options: compiled code knows it by a number, and it is never forgotten. Under
        `jax.vmap` its arrays have more dimensions in front, of size 1 where an argument is not mapped.
    results : sequence of jax.ShapeDtypeStruct
    vmap_method : str
        As of `jax.pure_callback`.
    """
    if not ffi.is_available(_NAME, _functions.__getitem__):
        return jax.pure_callback(_on_host(function), tuple(results), *arguments, vmap_method=vmap_method)
    number = _numbers.get(function)
    if number is None:
        _functions.append(function)
        number = _numbers[function] = len(_functions) - 1
    return jax.ffi.ffi_call(_NAME, tuple(results), vmap_method=vmap_method)(*arguments, number=np.int64(number))


def _on_host(function: ffi.Function) -> ffi.Function:
    """Return `function` of arrays of JAX, and as many results as it was asked for."""

    def compute(*arguments: Any) -> tuple[Any, ...]:
        found = function(*map(np.asarray, arguments))
        return found if isinstance(found, tuple) else (found,)

    return compute


def like(x: Any) -> np.ndarray:
    """Return an array of one element that has the shape and dtype of `x`, whose values need not be known yet."""
    return np.broadcast_to(np.zeros((), np.dtype(x.dtype)), x.shape)


def result(shape: Sequence[int], dtype: Any) -> Any:
    """Return the description of a result; raises as JAX does if it has no such dtype."""
    return jax.ShapeDtypeStruct(tuple(shape), jax.dtypes.canonicalize_dtype(dtype))
