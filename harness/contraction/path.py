"""The order in which several operands are contracted, two at a time.

A step ``(i, j)`` contracts the operands at those positions: both are removed, and their product comes last, as
opt_einsum and `numpy.einsum_path` write paths. Without a path of the caller's and without opt_einsum the pair is taken
next whose product is smallest compared with its operands.

Source: Smith and Gray, "opt_einsum", Journal of Open Source Software 3(26), 2018.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Sequence
from typing import Any

from harness.contraction.subscripts import Labels
from harness.errors import ProblemError

Path = list[tuple[int, int]]


def choose(inputs: Sequence[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    """Return the path for operands with those labels: opt_einsum's if it is installed, else a greedy one."""
    if len(inputs) == 2:
        return [(0, 1)]
    if importlib.util.find_spec("opt_einsum") is not None:
        return _by_opt_einsum(inputs, output, sizes)
    return _greedy(list(inputs), output, sizes)


def check(path: Any, count: int) -> Path:
    """Return a path of the caller's as a list of pairs.

    Raises
    ------
    ProblemError
        If it is not one pair of positions less than there are operands.
    """
    try:
        steps = [(min(i, j), max(i, j)) for i, j in (map(int, step) for step in path if not isinstance(step, str))]
    except (TypeError, ValueError):
        steps = []
    lefts = range(count, 1, -1)
    if len(steps) != len(lefts) or not all(0 <= i < j < left for (i, j), left in zip(steps, lefts, strict=True)):
        raise ProblemError(
            f"einsum: path does not contract {count} operands by pairs",
            expected=f"{count - 1} pairs of positions, such as {[(0, 1)] * (count - 1)}",
            got=repr(path),
        )
    return steps


def kept_by(inputs: Sequence[Labels], step: tuple[int, int], output: Labels) -> Labels:
    """Return the labels of the product of a step: those that the result or another operand needs."""
    rest = {label for i, labels in enumerate(inputs) if i not in step for label in labels}.union(output)
    return tuple(label for label in dict.fromkeys(inputs[step[0]] + inputs[step[1]]) if label in rest)


def _greedy(inputs: list[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    def growth(step: tuple[int, int]) -> tuple[int, int]:
        i, j = step
        operands = _elements(inputs[i], sizes) + _elements(inputs[j], sizes)
        work = _elements(tuple({*inputs[i], *inputs[j]}), sizes)
        return _elements(kept_by(inputs, step, output), sizes) - operands, work

    path = []
    while len(inputs) > 1:
        step = min(itertools.combinations(range(len(inputs)), 2), key=growth)
        product = kept_by(inputs, step, output)
        inputs = [labels for i, labels in enumerate(inputs) if i not in step] + [product]
        path.append(step)
    return path


def _by_opt_einsum(inputs: Sequence[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    import opt_einsum

    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}
    terms = ["".join(symbols[label] for label in labels) for labels in (*inputs, output)]
    shapes = [tuple(sizes[label] for label in labels) for labels in inputs]
    steps = opt_einsum.contract_path(f"{','.join(terms[:-1])}->{terms[-1]}", *shapes, shapes=True)[0]
    return check(steps, len(inputs))


def _elements(labels: Labels, sizes: dict[str, int]) -> int:
    return math.prod(sizes[label] for label in labels)
