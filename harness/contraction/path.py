"""The order in which several operands are contracted, two at a time.

A step ``(i, j)`` contracts the operands at those positions: both are removed, and their product comes last, as
opt_einsum and `numpy.einsum_path` write paths. Without a path of the caller's and without opt_einsum the pair is taken
next whose product is smallest compared with its operands. A way to find a path has the name that they give it.

Source: Smith and Gray, "opt_einsum", Journal of Open Source Software 3(26), 2018.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from harness.contraction.subscripts import Labels
from harness.errors import ProblemError, check_imports

Path = list[tuple[int, int]]

# Ways to find a path. The first are found without opt_einsum, too.
AUTO, GREEDY, OPTIMAL = "auto", "greedy", "optimal"
WAYS = (AUTO, GREEDY, OPTIMAL)
OF_OPT_EINSUM = ("auto-hq", "branch-all", "branch-2", "branch-1", "dp", "random-greedy", "random-greedy-128")


def choose(inputs: Sequence[Labels], output: Labels, sizes: dict[str, int], way: str = AUTO) -> Path:
    """Return the path for operands with those labels, found that way: by opt_einsum if it is installed."""
    if len(inputs) == 2:
        return [(0, 1)]
    if (opt_einsum := _opt_einsum()) is not None:
        return _by_opt_einsum(opt_einsum, inputs, output, sizes, way)
    return _optimal(inputs, output, sizes) if way == OPTIMAL else _greedy(list(inputs), output, sizes)


def check(path: Any, count: int) -> Path | str:
    """Return a path of the caller's as a list of pairs, or the way to find it.

    None and True are the way that is taken without one, and False is from the left to the right, as numpy.einsum has
    it. So are the operands of a step with more than two, which `numpy.einsum_path` and opt_einsum may return.

    Raises
    ------
    ProblemError
        If it is no way that is known, or needs opt_einsum, or its steps do not contract `count` operands.
    """
    if path is None or path is True:
        return AUTO
    if isinstance(path, str):
        return _check_way(path)
    steps: Path = []
    try:
        for step in [range(count)] if path is False else path:
            if not isinstance(step, str):  # NumPy writes "einsum_path" before the first one
                steps += _pairs(sorted(map(operator.index, step)), count - len(steps))
    except (TypeError, ValueError, NotImplementedError):
        steps = []
    if len(steps) != count - 1:
        raise ProblemError(
            f"einsum: path does not contract {count} operands by pairs",
            expected=f"{count - 1} pairs of positions, such as {[(0, 1)] * (count - 1)}; or one of {', '.join(WAYS)}",
            got=repr(path),
        )
    return steps


def _check_way(way: str) -> str:
    if way not in (*WAYS, *OF_OPT_EINSUM):
        raise ProblemError.unknown("path", way, (*WAYS, *OF_OPT_EINSUM)).told_by("einsum")
    if way in OF_OPT_EINSUM and _opt_einsum() is None:
        raise ProblemError(
            f"einsum: path {way!r} is found by opt_einsum, which is not installed",
            expected=", ".join(WAYS),
            got=repr(way),
            fix="pip install opt_einsum",
        )
    return way


def _pairs(step: list[int], left: int) -> Path:
    """Return a step over sorted positions among `left` operands as pairs; raise ValueError if it is none."""
    if not (len({*step}) == len(step) >= min(2, left) and step[0] >= 0 and step[-1] < left):
        raise ValueError(f"{step} of {left} operands")
    # The first pair moves the others by two. Each further one takes the product before it, which is last, and one more.
    return [(step[i] - i, left - i) if i > 1 else (step[0], step[1]) for i in range(1, len(step))]


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


@functools.cache
def _opt_einsum() -> Any:
    """Return the module, or None if it is not installed: to look for it takes longer than to choose a short path."""
    check_imports("what einsum needs")
    return importlib.import_module("opt_einsum") if importlib.util.find_spec("opt_einsum") else None


def _by_opt_einsum(opt_einsum: Any, inputs: Sequence[Labels], output: Labels, sizes: dict[str, int], way: str) -> Path:
    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}
    terms = ["".join(symbols[label] for label in labels) for labels in (*inputs, output)]
    shapes = [tuple(sizes[label] for label in labels) for labels in inputs]
    steps = opt_einsum.contract_path(f"{','.join(terms[:-1])}->{terms[-1]}", *shapes, shapes=True, optimize=way)[0]
    return [pair for at, step in enumerate(steps) for pair in _pairs(sorted(step), len(inputs) - at)]


def _optimal(inputs: Sequence[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    """Return a path of the fewest operations: the best order of each group of operands, from those of its parts.

    What one operand sums alone is summed before, in any path. A group is an integer, with a bit for each of its
    operands. Takes 3^n steps for n operands.
    """

    @functools.cache
    def kept(group: int) -> frozenset[str]:
        """Return the labels that the product of a group has."""
        within, others = set[str](), {*output}
        for i, labels in enumerate(inputs):
            (within if group >> i & 1 else others).update(labels)
        return frozenset(within & others)

    @functools.cache
    def best(group: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the operations that the product of a group takes, and the two groups of each step."""
        rest = part = group & group - 1  # all but its first operand
        found = []
        while part:
            left = group ^ part
            (before, steps), (beside, more) = best(left), best(part)
            work = before + beside + _elements(tuple(kept(left) | kept(part)), sizes)
            found.append((work, (*steps, *more, (left, part))))
            part = part - 1 & rest
        return min(found, default=(0, ()))

    groups = [1 << i for i in range(len(inputs))]
    path = []
    for left, right in best(sum(groups))[1]:
        i, j = sorted((groups.index(left), groups.index(right)))
        groups = [group for group in groups if group not in {left, right}] + [left | right]
        path.append((i, j))
    return path


def _elements(labels: Labels, sizes: dict[str, int]) -> int:
    return math.prod(sizes[label] for label in labels)
