"""Gradients of products over semirings, from the gradient g of the result D = A (x) B.

Where (+) selects, an element is one term, ``D[i, j] = A[i, q] (x) B[q, j]`` with q = argk[i, j], and so are gradients::

    dA[i, q] += g[i, j] * d1(A[i, q], B[q, j])         d1, d2: the derivatives of (x)
    dB[q, j] += g[i, j] * d2(A[i, q], B[q, j])

Over logaddexp_plus a term has the weight exp(A[i, p] + B[p, j] - D[i, j]), so that gradients are products themselves,
of the parts of g above and below zero. As logarithms they neither overflow nor underflow. A large B that A cancels is
taken off before a logarithm is rounded::

    dA[i, p]  =  exp(A[i, p] + v[p] + log sum_j exp(log g+[i, j] - D[i, j] + B[p, j] - v[p]))  -  the same of g-,
    v[p] = max_j B[p, j]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.semiring import Semiring
from harness.torch import scatter, tensors

Tensor = Any  # torch.Tensor, whose types are not checked
Pair = tuple[Tensor | None, Tensor | None]
Product = Callable[[Tensor, Tensor], Tensor]

# Derivatives of (x) by its first and its second operand; 1.0 where no values are looked at. Of equal operands of min
# and max the first one counts, as `(x)` returns it.
_Derivatives = Callable[[Tensor, Tensor], tuple[Any, Any]]
DERIVATIVES: dict[str, _Derivatives] = {
    "times": lambda x, y: (y, x),
    "min": lambda x, y: ((x <= y).to(x.dtype), (x > y).to(x.dtype)),
    "max": lambda x, y: ((x >= y).to(x.dtype), (x < y).to(x.dtype)),
}
CONSTANT = {"plus": (1.0, 1.0), "first": (1.0, 0.0), "second": (0.0, 1.0)}
MULTIPLY = (*CONSTANT, *DERIVATIVES)


def selected(semiring: Semiring, a: Tensor, b: Tensor, argk: Tensor, g: Tensor, needs: tuple[bool, bool]) -> Pair:
    """Return the gradients where (+) selects; `argk` is that of `harness.gemm_argk`, -1 where no term counts.

    Parameters
    ----------
    a : (..., m, k) tensor
    b : (..., k, n) tensor
    argk : (..., m, n) tensor of int32
    g : (..., m, n) tensor
    needs : (bool, bool)
        Which of the two gradients is asked for.
    """
    is_free = not (torch.is_grad_enabled() or torch.are_deterministic_algorithms_enabled() or tensors.are_transformed())
    if is_free and scatter.takes(a, b, g):  # not to be differentiated again, and in any order
        return scatter.scatter(semiring.multiply.name, a, b, argk, g, needs)
    if a.shape[-1] == 0:  # no element has a term, nor a position that one could come from
        argk, g = argk[..., :0, :0], g[..., :0, :0]
    batch = g.shape[:-2]
    at = argk.clamp(min=0).long()
    g = torch.where(argk < 0, torch.zeros_like(g), g)
    if semiring.multiply.name in DERIVATIVES:
        x = a.expand(*batch, *a.shape[-2:]).gather(-1, at)
        y = b.expand(*batch, *b.shape[-2:]).gather(-2, at)
        by_a, by_b = DERIVATIVES[semiring.multiply.name](x, y)
    else:
        by_a, by_b = CONSTANT[semiring.multiply.name]
    of_a, of_b = (g if isinstance(by, float) and by == 1.0 else g * by for by in (by_a, by_b))
    return (
        _scattered(of_a, at, -1, (*batch, *a.shape[-2:]), a.shape) if needs[0] else None,
        _scattered(of_b, at, -2, (*batch, *b.shape[-2:]), b.shape) if needs[1] else None,
    )


def log_sum(a: Tensor, b: Tensor, result: Tensor, g: Tensor, needs: tuple[bool, bool], product: Product) -> Pair:
    """Return the gradients over logaddexp_plus, whose products `product(a, b)` computes; the rest as of `selected`.

    Where the result is -inf no term counts, and the gradients are 0.
    """
    nothing = torch.full_like(g, -torch.inf)
    counts, (m, n) = result > -torch.inf, g.shape[-2:]
    # The logarithm of a NaN is one: neither part leaves it out.
    above, below = (torch.where(counts & ~(part <= 0), part.log() - result, nothing) for part in (g, -g))
    of_a = of_b = None
    if needs[0]:  # both parts as rows of one product
        top = _largest(b, -1)
        sums = product(torch.cat([above, below], -2), (b - top).mT)
        of_a = _difference(a + top.mT, sums[..., :m, :], sums[..., m:, :]).sum_to_size(a.shape)
    if needs[1]:
        top = _largest(a, -2)
        sums = product((a - top).mT, torch.cat([above, below], -1))
        of_b = _difference(b + top.mT, sums[..., :n], sums[..., n:]).sum_to_size(b.shape)
    return of_a, of_b


def _largest(x: Tensor, dim: int) -> Tensor:
    """Return the largest elements along a dimension; 0 where they are not finite, or there are none."""
    if not x.shape[dim]:
        return x.sum(dim, keepdim=True)
    top = x.amax(dim, keepdim=True)
    return torch.where(top.isfinite(), top, torch.zeros_like(top))


def _difference(x: Tensor, above: Tensor, below: Tensor) -> Tensor:
    """Return exp(x + above) - exp(x + below)."""
    return (x + above).exp() - (x + below).exp()


def ordinary(a: Tensor, b: Tensor, g: Tensor, needs: tuple[bool, bool], product: Product) -> Pair:
    """Return the gradients over plus_times, whose products `product(a, b)` computes; the rest as of `selected`.

    Of complex numbers PyTorch's: g times the conjugates of what an operand is multiplied by.
    """
    return (
        product(g, b.mH).sum_to_size(a.shape) if needs[0] else None,
        product(a.mH, g).sum_to_size(b.shape) if needs[1] else None,
    )


def _scattered(values: Tensor, at: Tensor, axis: int, shape: Sequence[int], final: Sequence[int]) -> Tensor:
    """Return zeros of `shape` to which `values` are added at the positions `at` along an axis, summed to `final`.

    On a GPU the order of sums is free, unless PyTorch is told to be deterministic: then they are sorted first.
    """
    zeros = values.new_zeros(shape)
    if not (values.is_cuda and torch.are_deterministic_algorithms_enabled()):
        return zeros.scatter_add(axis, at, values).sum_to_size(final)
    grid = list(torch.meshgrid(*(torch.arange(size, device=at.device) for size in at.shape), indexing="ij"))
    grid[axis] = at
    return zeros.index_put(grid, values, accumulate=True).sum_to_size(final)
