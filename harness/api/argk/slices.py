"""A product of long k with the k that each element comes from: slices of k, one after the other.

    for each slice of k:   terms, which  :=  the product of the slice, with its k        as for a k that is not long
                           c             :=  c (+) terms,   argk := begin + which where c changed

A later slice replaces an element only if it is strictly better. Where C has fewer elements than k has slices, most
slices attain none. Then plain products of up to 128 slices, one batch, say first which ones do. These alone are
searched; one of them may be long again.

So code is compiled for few lengths of blocks, whatever k is, panels are short, and Ctrl-C is heard between slices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.api.argk.numbering import NO_BLOCK, passes
from harness.interface import Backend, Prepared, make_plan, prepare
from harness.machine import Machine
from harness.operands import Operands
from harness.problem import Problem
from harness.tuning import argk as tuning_argk

NO_K = -1

# search(problem, operands, argk) writes a product and its argk
Search = Callable[[Problem, Operands, np.ndarray], None]


class Slices:
    """A product of more than ``ARGK_LONGEST`` terms; `search` computes each slice, which may be as long again."""

    def __init__(
        self, backend: Backend, problem: Problem, here: Machine, operands: Operands, argk: np.ndarray, search: Search
    ) -> None:
        self._backend, self._problem, self._here = backend, problem, here
        self._arrays, self._argk, self._search = (operands.a, operands.b, operands.out), argk, search

    def run(self) -> None:
        """Write product and argk."""
        problem, (a, b, product), argk = self._problem, self._arrays, self._argk
        merge = passes().build_merge(problem.semiring, problem.dtype)
        terms, which, changed = (np.empty(argk.shape, dtype) for dtype in (problem.dtype, argk.dtype, np.int8))
        slices = self._attaining(merge, changed)
        product.fill(problem.semiring.zero(problem.dtype))
        argk.fill(NO_K)
        for part in slices:
            length = part.stop - part.start
            self._search(dataclasses.replace(problem, k=length), Operands(a[:, part], b[part], None, terms), which)
            changed.fill(NO_BLOCK)
            merge(terms, product, changed, 0)
            np.add(which, part.start, out=argk, where=changed == 0)

    def _attaining(self, merge: Any, number: np.ndarray) -> list[slice]:
        """Return slices of k that hold the first best term of every element, in order."""
        (a, b, best), k, count = self._arrays, self._problem.k, tuning_argk.argk_slices(self._problem)
        if number.size >= count:
            return _cut(k, count)
        slices = _cut(k, min(count, tuning_argk.ARGK_MOST_BLOCKS))
        (many, rest), length, last = divmod(k, slices[0].stop), slices[0].stop, slices[-1]
        a_slices = a[:, : k - rest].reshape(-1, many, length).swapaxes(0, 1)  # views
        b_slices = b[: k - rest].reshape(many, length, -1)
        results = np.empty((len(slices), *best.shape), best.dtype)
        products = self._products(Operands(a_slices, b_slices, None, results[:many]))
        products += self._products(Operands(a[None, :, last], b[None, last], None, results[many:])) if rest else []
        best.fill(self._problem.semiring.zero(self._problem.dtype))
        number.fill(NO_BLOCK)
        for q, terms in enumerate(products):
            merge(terms, best, number, q)
        return [slices[q] for q in np.unique(number) if q != NO_BLOCK]

    def _products(self, operands: Operands) -> list[np.ndarray]:
        """Return the products of slices of one length, by the backend: at once if it takes batches."""
        count, _, length = operands.a.shape
        batch = dataclasses.replace(self._problem, k=length, batch=(count,))
        if "batch" in self._backend.takes and self._backend.refuses(batch) is None:
            return list(self._prepare(batch, operands).run_once())
        return [self._prepare(batch.of_one(), operands.at((q,))).run_once() for q in range(count)]

    def _prepare(self, problem: Problem, operands: Operands) -> Prepared:
        return prepare(self._backend, make_plan(self._backend, problem, self._here), operands)


def _cut(k: int, count: int) -> list[slice]:
    """Return slices of k of one length; the last may begin in the one before: its first terms are no better there."""
    length = -(-k // count)
    return [slice(begin, begin + length) for begin in (*range(0, k - length, length), k - length)]
