"""Subscripts of a contraction: a label for every axis, and a size for every label.

A label is a letter, or ``"...0"``, ``"...1"`` for the axes that an ellipsis stands for, counted from the last one.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

from harness.errors import ProblemError

Labels = tuple[str, ...]
Shape = tuple[int, ...]

ELLIPSIS = "..."


class Contraction(NamedTuple):
    """Labels of every operand and of the result.

    Attributes
    ----------
    inputs : tuple of labels
    output : labels
    sizes : dict
        Of each label. An axis of size 1 is also accepted where its label has another size: it is repeated.
    """

    inputs: tuple[Labels, ...]
    output: Labels
    sizes: dict[str, int]

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return tuple(self.sizes[label] for label in self.output)


@functools.lru_cache(maxsize=1024)
def read(subscripts: str, shapes: tuple[Shape, ...]) -> Contraction:
    """Return the contraction that `subscripts` describe for operands of those shapes.

    Raises
    ------
    ProblemError
        If they do not parse, do not fit the operands, give a label two sizes, or name an output label that no operand
        has.
    """
    left, arrow, right = "".join(subscripts.split()).partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise _wrong(subscripts, "the terms are not as many as the operands", f"{len(terms)} operands", len(shapes))
    inputs = tuple(_axes(subscripts, i, term, len(shapes[i])) for i, term in enumerate(terms))
    sizes = _sizes(subscripts, inputs, shapes)
    output = _output(subscripts, right, inputs) if arrow else _implicit(inputs)
    return Contraction(inputs, output, sizes)


def _axes(subscripts: str, number: int, term: str, dimensions: int) -> Labels:
    """Return the label of each axis of an operand."""
    before, dots, after = term.partition(ELLIPSIS)
    letters = before + after
    _check_letters(subscripts, letters, f"term {number}, {term!r},")
    hidden = dimensions - len(letters)
    if hidden < 0 or (hidden and not dots):
        fix = f"{_with_batch(subscripts, number)!r} if the other axes are a batch" if hidden > 0 else ""
        expected = f"{len(letters)}{' or more' if dots else ''} dimensions"
        raise _wrong(subscripts, f"term {number} does not fit its operand", expected, f"{dimensions} dimensions", fix)
    return (*before, *(f"{ELLIPSIS}{axis}" for axis in range(hidden - 1, -1, -1)), *after)


def _with_batch(subscripts: str, number: int) -> str:
    """Return `subscripts` whose term of that number, and the result if it is written, begin with an ellipsis."""
    left, arrow, right = "".join(subscripts.split()).partition("->")
    terms = left.split(",")
    terms[number] = ELLIPSIS + terms[number]
    return ",".join(terms) + arrow + (ELLIPSIS if arrow and ELLIPSIS not in right else "") + right


def _check_letters(subscripts: str, letters: str, where: str) -> None:
    strange = [x for x in letters if not x.isalpha()]
    if strange:
        expected = "letters, commas, one '->', and '...' at most once in a term"
        raise _wrong(subscripts, f"{where} does not parse", expected, repr("".join(strange)))


def _sizes(subscripts: str, inputs: tuple[Labels, ...], shapes: tuple[Shape, ...]) -> dict[str, int]:
    """Return the size of each label; an axis of size 1 gives way to that of another operand."""
    sizes: dict[str, int] = {}
    owners: dict[str, int] = {}  # the operand that a size is of
    for number, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own = dict(zip(labels, shape, strict=True))
        for label, size in zip(labels, shape, strict=True):
            if own[label] != size:
                raise _no_diagonal(subscripts, label, number, sorted({own[label], size}))
            known, owner = sizes.setdefault(label, size), owners.setdefault(label, number)
            if size != known and 1 not in {size, known}:
                got = f"{known} in operands[{owner}], {size} in operands[{number}]"
                raise _wrong(subscripts, f"index {label!r} has two sizes", "one size for each index, or 1", got)
            if known == 1:
                sizes[label], owners[label] = size, number
    return sizes


def _no_diagonal(subscripts: str, label: str, number: int, sizes: list[int]) -> ProblemError:
    what = f"index {label!r} has two sizes in one operand, of which it takes the diagonal"
    got = f"axes of {sizes[0]} and {sizes[1]} in operands[{number}]"
    return _wrong(subscripts, what, "one size for both axes", got, "two letters, unless a diagonal is meant")


def _output(subscripts: str, right: str, inputs: tuple[Labels, ...]) -> Labels:
    """Return the labels of a stated result."""
    before, dots, after = right.partition(ELLIPSIS)
    letters, hidden = before + after, _hidden(inputs)
    _check_letters(subscripts, letters, f"the result, {right!r},")
    if hidden and not dots:
        what = "the result has no place for the axes of '...'"
        raise _wrong(subscripts, what, "'...' on both sides of '->'", repr(right), f"'->...{right}'")
    known = {label for labels in inputs for label in labels}
    for letter, count in Counter(letters).items():
        if letter not in known:
            what = f"index {letter!r} of the result is in no operand"
            raise _wrong(subscripts, what, "one of " + ", ".join(sorted(known)), repr(letter))
        if count > 1:
            raise _no_new_diagonal(subscripts, letter, right)
    return (*before, *(hidden if dots else ()), *after)


def _no_new_diagonal(subscripts: str, letter: str, right: str) -> ProblemError:
    once = ELLIPSIS * (ELLIPSIS in right) + "".join(dict.fromkeys(right.replace(ELLIPSIS, "")))
    return _wrong(
        subscripts,
        f"index {letter!r} occurs more than once in the result",
        "every index once: a result is no diagonal of a larger array",
        repr(right),
        f"'->{once}'; with out=numpy.einsum('{right}->{once}', d) it goes to the diagonal of an array d of zeros",
    )


def _implicit(inputs: tuple[Labels, ...]) -> Labels:
    """Return the labels of a result that is not stated: those of the ellipsis, then those that occur once, sorted."""
    counts = Counter(label for labels in inputs for label in labels if not label.startswith(ELLIPSIS))
    return (*_hidden(inputs), *sorted(label for label, count in counts.items() if count == 1))


def _hidden(inputs: tuple[Labels, ...]) -> Labels:
    """Return the labels of all axes that ellipses stand for, the first axis first."""
    most = max((sum(label.startswith(ELLIPSIS) for label in labels) for labels in inputs), default=0)
    return tuple(f"{ELLIPSIS}{axis}" for axis in range(most - 1, -1, -1))


def _wrong(subscripts: str, what: str, expected: str, got: object, fix: str = "") -> ProblemError:
    return ProblemError(f"einsum {subscripts!r}: {what}", expected=expected, got=str(got), fix=fix)
