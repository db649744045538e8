"""Contractions that are one product of views: what a further call with operands of the same layouts has to do."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.api.gemm import gemm
from harness.api.remembered.recent import Recent
from harness.api.remembered.repeats import MOST
from harness.contraction import path as paths
from harness.contraction.lowering import Labelled, Lowering, lower
from harness.contraction.subscripts import Contraction


class Recipe(NamedTuple):
    """Views of the operands, and the order of the axes of the result."""

    lowering: Lowering
    axes: tuple[int, ...]

    def __call__(self, a: Any, b: Any, options: dict[str, Any]) -> Any:
        """Return the contraction; `options` are those of `gemm`, which checks all but layouts."""
        product = gemm(self.lowering.a.of(a), self.lowering.b.of(b), **options).reshape(self.lowering.sizes)
        return product.transpose(self.axes) if self.axes else product


_recipes = Recent[Recipe](lambda: MOST)


def key_of(subscripts: Any, a: Any, b: Any) -> Any:
    """Return what a recipe depends on; None for operands that are no plain arrays."""
    try:
        key = subscripts, a.__class__, a.shape, a.strides, b.__class__, b.shape, b.strides, a.dtype, b.dtype
        hash(key)
    except (AttributeError, TypeError):
        return None
    return key


def recall(key: Any) -> Recipe | None:
    """Return the recipe for operands of those layouts, or None."""
    return None if key is None else _recipes.get(key)


def remember(key: Any, contraction: Contraction, a: Any, b: Any) -> None:
    """Keep a recipe, unless a diagonal, an axis of size 0 or 1, or a sum of one operand takes more than views."""
    (of_a, of_b), output = contraction.inputs, contraction.output
    is_distinct = all(len(set(labels)) == len(labels) for labels in contraction.inputs)
    is_one_product = set(of_a) ^ set(of_b) <= set(output)
    if is_distinct and is_one_product and not {0, 1} & {*a.shape, *b.shape}:
        kept = paths.kept_by(contraction.inputs, (0, 1), output)
        lowering = lower(Labelled(a, of_a).layout, Labelled(b, of_b).layout, kept, None)
        axes = tuple(lowering.labels.index(label) for label in output)
        _recipes.put(key, Recipe(lowering, () if axes == tuple(range(len(axes))) else axes))


def forget() -> None:
    """Forget every recipe."""
    _recipes.clear()
