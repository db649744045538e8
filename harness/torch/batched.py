"""Operands of a product under `torch.func.vmap`, whose dimension is made one more of those that broadcast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Tensor = Any  # torch.Tensor, whose types are not checked; None: an operand that is not there


def broadcasting(size: int, in_dims: Any, *operands: Tensor) -> Iterator[Tensor]:
    """Yield the operands with the mapped dimension in front of all others.

    Parameters
    ----------
    size : int
        Of the mapped dimension.
    in_dims : sequence of (int or None)
        Which dimension of each operand is mapped; None: the operand is the same everywhere.
    operands
        a and b, of any ranks, and perhaps c.
    """
    a, *rest = operands
    if in_dims[0] is in_dims[1] is None:  # c alone is mapped, which does not make a product larger
        a, in_dims = a.expand(size, *a.shape), (0, *in_dims[1:])
    given = list(zip((a, *rest), in_dims, strict=False))
    rank = max(x.dim() - (dim is not None) for x, dim in given if x is not None)
    return (x if dim is None else _in_front(x, dim, rank) for x, dim in given)


def _in_front(x: Tensor, dim: int, rank: int) -> Tensor:
    """Return `x` with the dimension `dim` in front of `rank` others, of which those it lacks have the size 1."""
    return x.movedim(dim, 0)[(slice(None), *[None] * (rank + 1 - x.dim()))]
