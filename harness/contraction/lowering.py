"""Two operands with labelled axes as one product of `gemm`, over views.

The labels of a pair fall into four groups::

    batch   in both operands and kept        m   in x alone      n   in y alone      k   summed

    product[batch..., m, n]  :=  x[batch..., m, k]  (x)  y[batch..., k, n]

A group becomes one axis where its axes are evenly spaced in memory. Of m and n one such run becomes the axis of the
matrix: the one without gaps, else the longest. What is left is a batch along which the other operand is repeated by a
stride of zero. So neither m and n nor batches are ever copied. The axes of k must become one: an operand in which they
are not evenly spaced is copied.

Every size here is 2 or more: axes of size 1 are dropped before, and sums of no terms are no products.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.contraction.subscripts import Labels, Shape

Multiply = Callable[[Any, Any, Any], Any]  # a, b, and out or None
Groups = Sequence[Sequence[str] | None]


class View(NamedTuple):
    """A transposed and reshaped array, which shares its memory where merged axes are evenly spaced.

    Attributes
    ----------
    order : tuple of int
        Of the axes.
    shape : tuple of int
    """

    order: tuple[int, ...]
    shape: Shape

    def of(self, x: Any) -> Any:
        """Return the view of an array."""
        return (x.transpose(self.order) if len(self.order) > 1 else x).reshape(self.shape)


class Layout(NamedTuple):
    """Labels of the axes of an array, with their sizes and strides in bytes."""

    labels: Labels
    shape: Shape
    strides: tuple[int, ...]
    itemsize: int

    def stride(self, label: str) -> int:
        """Return the distance from element to element along an axis."""
        return self.strides[self.labels.index(label)]

    def size(self, labels: Sequence[str]) -> int:
        """Return the number of elements along some axes."""
        return math.prod([self.shape[self.labels.index(label)] for label in labels])

    def view(self, groups: Groups) -> View:
        """Return the view with an axis for each group of labels, merged; one of size 1 for None."""
        order = tuple(self.labels.index(label) for group in groups for label in group or ())
        return View(order, tuple(1 if group is None else self.size(group) for group in groups))


class Labelled(NamedTuple):
    """An array, with a different label for each axis."""

    array: Any
    labels: Labels

    @property
    def layout(self) -> Layout:
        """All of it that a lowering depends on."""
        x = self.array
        return Layout(self.labels, x.shape, x.strides, x.itemsize)


class Lowering(NamedTuple):
    """A product of two operands as one of matrices.

    Attributes
    ----------
    a, b : View
        Of the operands.
    out : View or None
        Of the array for the result, if that is given.
    sizes : tuple of int
    labels : labels
        Of the axes of a new result, merged axes taken apart.
    """

    a: View
    b: View
    out: View | None
    sizes: Shape
    labels: Labels


def multiply(x: Labelled, y: Labelled, kept: Labels, call: Multiply, out: Labelled | None = None) -> Labelled:
    """Return the product of two operands, summed over the labels that are not kept.

    Parameters
    ----------
    x, y : Labelled
        Every label of one that the other has not is kept.
    kept : labels
        Of the result, in any order.
    call : callable
        ``call(a, b, out)`` computes a batch of matrix products; `out` may be None.
    out : Labelled, optional
        Where the result goes, with the labels `kept`.

    Returns
    -------
    Labelled
        `out`, or a new array, with its axes in the order of the product.
    """
    lowering = lower(x.layout, y.layout, kept, None if out is None else out.layout)
    a, b = lowering.a.of(x.array), lowering.b.of(y.array)
    if out is None or lowering.out is None:
        return Labelled(call(a, b, None).reshape(lowering.sizes), lowering.labels)
    call(a, b, lowering.out.of(out.array))
    return out


@functools.lru_cache(maxsize=1024)
def lower(x: Layout, y: Layout, kept: Labels, out: Layout | None) -> Lowering:
    """Return how `multiply` computes a product of operands with those layouts."""
    batch = [label for label in kept if label in x.labels and label in y.labels]
    longer = max(x, y, key=lambda z: math.prod(z.shape))
    summed = _by_memory(longer, [label for label in x.labels if label not in kept])
    m, rows = _matrix_axis(x, [label for label in x.labels if label not in (*batch, *summed)], out)
    n, columns = _matrix_axis(y, [label for label in y.labels if label not in (*batch, *summed)], out)
    common, of_x, of_y = [[label] for label in batch], [[label] for label in rows], [[label] for label in columns]
    labels = (*batch, *rows, *columns, *m, *n)
    return Lowering(
        x.view([*common, *of_x, *(None for _ in of_y), m, summed]),
        y.view([*common, *(None for _ in of_x), *of_y, summed, n]),
        None if out is None else out.view([*common, *of_x, *of_y, m, n]),
        tuple((x if label in x.labels else y).size([label]) for label in labels),
        labels,
    )


def runs(x: Layout, labels: Sequence[str], other: Layout | None = None) -> list[list[str]]:
    """Return the labels in groups whose axes are evenly spaced in memory of `x`, and of `other` if given."""
    groups: list[list[str]] = []
    layouts = [x] if other is None else [x, other]
    for label in _by_memory(x, labels):
        if groups and all(z.stride(groups[-1][-1]) == z.stride(label) * z.size([label]) for z in layouts):
            groups[-1].append(label)
        else:
            groups.append([label])
    return groups


def _matrix_axis(x: Layout, labels: Sequence[str], out: Layout | None) -> tuple[list[str], list[str]]:
    """Return the labels that become the rows or columns of matrices, and those that become a batch."""
    groups = runs(x, labels, out)
    axis = max(groups, key=lambda group: (abs(x.stride(group[-1])) == x.itemsize, x.size(group)), default=[])
    return axis, list(itertools.chain.from_iterable(group for group in groups if group is not axis))


def _by_memory(x: Layout, labels: Sequence[str]) -> list[str]:
    """Return the labels, that of the axis with the longest stride first."""
    return sorted(labels, key=lambda label: abs(x.stride(label)), reverse=True)
