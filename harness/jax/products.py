"""`harness.jax.gemm` and its relatives: what is wrong with shapes is said when JAX traces, gradients are products.

Over (+) that selects, gradients go to the term that each element is; over logaddexp_plus by its weight, as
`harness.torch.rules` says.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from harness import api
from harness.api.arguments import read_arguments
from harness.api.paths import shortest_paths as paths_of_arrays
from harness.contraction.einsum import einsum as contraction_of_arrays
from harness.errors import ProblemError
from harness.jax.calls import call, like, result
from harness.semiring import Semiring, as_semiring

Array = Any  # jax.Array, or a tracer
Options = tuple[Any, str, int | None]  # semiring, backend, threads

# Derivatives of (x) by its first and its second operand.
_DERIVATIVES = {
    "times": lambda x, y: (y, x),
    "plus": lambda x, y: (jnp.ones_like(x), jnp.ones_like(x)),
    "first": lambda x, y: (jnp.ones_like(x), jnp.zeros_like(x)),
    "second": lambda x, y: (jnp.zeros_like(x), jnp.ones_like(x)),
    "min": lambda x, y: ((x <= y).astype(x.dtype), (x > y).astype(x.dtype)),
    "max": lambda x, y: ((x >= y).astype(x.dtype), (x < y).astype(x.dtype)),
}


def gemm(
    a: Array, b: Array, *, semiring: str | Semiring = "plus_times", backend: str = "auto", threads: int | None = None
) -> Array:
    """Compute ``A (x) B`` over a semiring, as `harness.gemm` does, inside or outside of what JAX compiles.

    Parameters
    ----------
    a : (..., m, k) array
    b : (..., k, n) array
        Leading dimensions broadcast. `jax.vmap` makes one more of them: a batch, no loop.
    semiring, backend, threads
        As in `harness.gemm`.

    Returns
    -------
    (..., m, n) array

    Raises
    ------
    ProblemError
        As `harness.gemm`, when it is traced; and if a gradient is asked for where `harness.torch.gemm` has none.
    """
    return _gemm(jnp.asarray(a), jnp.asarray(b), (as_semiring(semiring), backend, threads))


def gemm_argk(
    a: Array, b: Array, *, semiring: str | Semiring = "min_plus", backend: str = "auto", threads: int | None = None
) -> tuple[Array, Array]:
    """Compute ``A (x) B`` and which k each element comes from, as `harness.gemm_argk` does; without gradients."""
    a, b = jax.lax.stop_gradient((jnp.asarray(a), jnp.asarray(b)))
    return _argk(a, b, (as_semiring(semiring), backend, threads))


def shortest_paths(weights: Array, *, backend: str = "auto", threads: int | None = None) -> Array:
    """Compute the lengths of all shortest paths, as `harness.paths.shortest_paths` does; also of (..., n, n)."""
    weights = jnp.asarray(weights)
    function = _bound(paths_of_arrays, (("backend", backend), ("threads", threads)))
    return call(function, [result(weights.shape, weights.dtype)], jax.lax.stop_gradient(weights))[0]


def einsum(
    subscripts: str, *operands: Array, semiring: str | Semiring = "plus_times", backend: str = "auto",
    threads: int | None = None,
) -> Array:  # fmt: skip
    """Contract operands as `harness.einsum` does. Over plus_times it has gradients; `jax.vmap` calls it in a loop."""
    semiring = as_semiring(semiring)
    return _einsum(subscripts, (semiring, backend, threads), *map(jnp.asarray, operands))


@functools.lru_cache(maxsize=1024)
def _bound(function: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """Return `function` with options, the same object for equal ones."""
    bound = functools.partial(function, **dict(options))
    bound.takes_out = function is api.gemm.gemm  # type: ignore[attr-defined]
    return bound


def _named(options: Options) -> tuple[tuple[str, Any], ...]:
    return tuple(zip(("semiring", "backend", "threads"), options, strict=True))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _gemm(a: Array, b: Array, options: Options) -> Array:
    arguments = read_arguments("gemm", {"a": like(a), "b": like(b)}, options[0])
    return call(_bound(api.gemm.gemm, _named(options)), [result(arguments.shape, arguments.problem.dtype)], a, b)[0]


def _argk(a: Array, b: Array, options: Options) -> tuple[Array, Array]:
    arguments = read_arguments("gemm_argk", {"a": like(a), "b": like(b)}, options[0])
    results = [result(arguments.shape, dtype) for dtype in (arguments.problem.dtype, jnp.int32)]
    product, which = call(_bound(api.argk.gemm_argk, _named(options)), results, a, b)
    return product, which


def _gemm_forward(a: Array, b: Array, options: Options) -> tuple[Array, Any]:
    semiring = options[0]
    if semiring.is_ordinary:
        return _gemm(a, b, options), (a, b, None)
    if semiring.is_log_sum and semiring.multiply.name == "plus":
        product = _gemm(a, b, options)
        return product, (a, b, product)
    if not semiring.is_tabled or semiring.add.name not in ("min", "max") or semiring.multiply.name not in _DERIVATIVES:
        raise ProblemError(
            f"harness.jax.gemm: there are no gradients over {semiring.name}",
            expected="plus_times, logaddexp_plus, or min or max of " + ", ".join(_DERIVATIVES),
            got=semiring.name,
            fix="jax.lax.stop_gradient, if no gradient is needed",
        )
    product, which = _argk(a, b, options)
    return product, (a, b, which)


def _gemm_backward(options: Options, kept: Any, g: Array) -> tuple[Array, Array]:
    a, b, extra = kept
    semiring = options[0]
    if semiring.is_ordinary:
        of_a, of_b = _gemm(g, b.swapaxes(-1, -2), options), _gemm(a.swapaxes(-1, -2), g, options)
    elif semiring.is_log_sum:
        of_a, of_b = _of_log_sums(a, b, extra, g, options)
    else:
        of_a, of_b = _of_terms(a, b, extra, g, semiring.multiply.name)
    return sum_to(of_a, a), sum_to(of_b, b)


_gemm.defvjp(_gemm_forward, _gemm_backward)


def sum_to(x: Array, like_: Array) -> Array:
    """Return `x` summed over the dimensions in which `like_` was broadcast to its shape."""
    extra = x.ndim - like_.ndim
    axes = tuple(i for i in range(x.ndim) if i < extra or like_.shape[i - extra] != x.shape[i])
    return x.sum(axes, keepdims=True).reshape(like_.shape).astype(like_.dtype) if axes else x.astype(like_.dtype)


def _of_terms(a: Array, b: Array, which: Array, g: Array, multiply: str) -> tuple[Array, Array]:
    """Return the gradients where (+) selects: those of the term that each element is."""
    batch = g.shape[:-2]
    a, b = jnp.broadcast_to(a, (*batch, *a.shape[-2:])), jnp.broadcast_to(b, (*batch, *b.shape[-2:]))
    if a.shape[-1] == 0:
        return jnp.zeros_like(a), jnp.zeros_like(b)
    at, g = jnp.maximum(which, 0), jnp.where(which < 0, 0, g)
    by_a, by_b = _DERIVATIVES[multiply](jnp.take_along_axis(a, at, -1), jnp.take_along_axis(b, at, -2))
    rows, columns = jnp.arange(a.shape[-2])[:, None], jnp.arange(b.shape[-1])
    every = jnp.meshgrid(*map(jnp.arange, batch), indexing="ij") if batch else []
    every = [x[..., None, None] for x in every]
    of_a = jnp.zeros_like(a).at[(*every, rows, at)].add(g * by_a)
    return of_a, jnp.zeros_like(b).at[(*every, at, columns)].add(g * by_b)


def _of_log_sums(a: Array, b: Array, product: Array, g: Array, options: Options) -> tuple[Array, Array]:
    """Return the gradients over logaddexp_plus: products of the logarithms of the parts of g above and below zero."""
    nothing = jnp.full_like(g, -jnp.inf)
    parts = [
        jnp.where((product > -jnp.inf) & ~(part <= 0), jnp.log(jnp.where(part <= 0, 1, part)) - product, nothing)
        for part in (g, -g)
    ]
    m, n = g.shape[-2:]
    top, left = _largest(b, -1), _largest(a, -2)
    of_a = _gemm(jnp.concatenate(parts, -2), (b - top).swapaxes(-1, -2), options)
    of_b = _gemm((a - left).swapaxes(-1, -2), jnp.concatenate(parts, -1), options)
    a, b = a + top.swapaxes(-1, -2), b + left.swapaxes(-1, -2)
    return (
        jnp.exp(a + of_a[..., :m, :]) - jnp.exp(a + of_a[..., m:, :]),
        jnp.exp(b + of_b[..., :n]) - jnp.exp(b + of_b[..., n:]),
    )


def _largest(x: Array, axis: int) -> Array:
    """Return the largest elements along an axis; 0 where they are not finite."""
    top = x.max(axis, keepdims=True, initial=-jnp.inf)
    return jnp.where(jnp.isfinite(top), top, 0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _einsum(subscripts: str, options: Options, *operands: Array) -> Array:
    shape = jax.eval_shape(functools.partial(jnp.einsum, subscripts), *operands)
    return call(
        _contraction(subscripts, options), [result(shape.shape, shape.dtype)], *operands, vmap_method="sequential"
    )[0]


@functools.lru_cache(maxsize=1024)
def _contraction(subscripts: str, options: Options) -> Any:
    return functools.partial(contraction_of_arrays, subscripts, **dict(_named(options)))


def _einsum_forward(subscripts: str, options: Options, *operands: Array) -> tuple[Array, Any]:
    if not options[0].is_ordinary:
        raise ProblemError(
            f"harness.jax.einsum: there are no gradients over {options[0].name}",
            expected="plus_times",
            got=options[0].name,
            fix="harness.jax.gemm, which has some",
        )
    return _einsum(subscripts, options, *operands), operands


def _einsum_backward(subscripts: str, options: Options, operands: Any, g: Array) -> Any:
    return jax.vjp(functools.partial(jnp.einsum, subscripts), *operands)[1](g)


_einsum.defvjp(_einsum_forward, _einsum_backward)
