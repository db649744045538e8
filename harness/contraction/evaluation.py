"""One contraction: its operands prepared, sums of one operand alone, and pairs along the path."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from harness.api.arrays import Arrays
from harness.api.gemm import gemm
from harness.contraction import path as paths
from harness.contraction.lowering import Labelled, Multiply, multiply
from harness.contraction.operands import Sums, repeated_along, without_ones, without_repeats
from harness.contraction.subscripts import Contraction, Labels
from harness.dtypes import is_bool, is_exact
from harness.semiring import Semiring


class Evaluation:
    """The steps of one contraction of arrays that fit.

    Parameters
    ----------
    contraction : Contraction
    semiring : Semiring
        For three operands or more a commutative one.
    arrays : Arrays
        The kind of the operands.
    dtype : numpy dtype
        Of the result.
    options : dict
        `backend` and `threads` of `gemm`.
    """

    def __init__(
        self,
        contraction: Contraction,
        semiring: Semiring,
        arrays: Arrays,
        dtype: np.dtype[Any],
        options: dict[str, Any],
    ) -> None:
        self._contraction, self._semiring, self._arrays = contraction, semiring, arrays
        self._options, self._dtype = options, dtype
        self._output = tuple(label for label in contraction.output if contraction.sizes[label] != 1)
        self._sums = Sums(semiring, dtype, arrays, self._products)

    def __call__(self, inputs: list[Any], out: Any, steps: paths.Path | str, *, is_mixed: bool) -> Any:
        """Return the result, `out` if that is given.

        Parameters
        ----------
        inputs : list of array
        out : array or None
        steps : list of (int, int) or str
            The path, or the way to find it.
        is_mixed : bool
            Whether the dtype of the sums is wider than those of the operands.
        """
        if 0 in self._contraction.sizes.values():  # no terms, or no elements
            return self._zeros(out)
        labelled = [
            without_ones(without_repeats(x, labels)) for x, labels in zip(inputs, self._contraction.inputs, strict=True)
        ]
        if not (is_mixed and len(labelled) == 2 and self._is_one_product(*labelled)):
            labelled = [x._replace(array=self._arrays.converted(x.array, self._dtype)) for x in labelled]
        target = None if out is None else without_ones(Labelled(out, self._contraction.output))
        result = self._contract(labelled, target, steps)
        return self._ordered(result) if out is None else out

    def _contract(self, operands: list[Labelled], out: Labelled | None, steps: paths.Path | str) -> Labelled:
        """Return the contraction of operands without repeated labels and without axes of size 1."""
        if len(operands) == 1:
            return self._alone(operands[0], out)
        labels = [x.labels for x in operands]
        if isinstance(steps, str):
            steps = paths.choose(labels, self._output, self._contraction.sizes, steps)
        for i, j in steps:
            kept = paths.kept_by([x.labels for x in operands], (i, j), self._output)
            x, y = operands[i], operands[j]
            operands = [z for at, z in enumerate(operands) if at not in {i, j}]
            operands.append(self._pair(x, y, kept, None if operands else out))
        return operands[0]

    def _pair(self, x: Labelled, y: Labelled, kept: Labels, out: Labelled | None) -> Labelled:
        """Return the product of two operands; what one of them sums alone is summed first where (x) distributes."""
        x_alone, y_alone = _own_labels(x, y, kept), _own_labels(y, x, kept)
        if self._semiring.is_commutative:
            x = self._sums(x, x_alone) if x_alone else x
            y = self._sums(y, y_alone) if y_alone else y
        else:  # every term counts, also the equal ones
            pairs, sizes = ((x, y_alone), (y, x_alone)), self._contraction.sizes
            x, y = (repeated_along(z, labels, sizes, self._arrays) for z, labels in pairs)
        return multiply(x, y, kept, self._products(self._semiring), out)

    def _alone(self, x: Labelled, out: Labelled | None) -> Labelled:
        """Return the sums and the permutation of one operand."""
        summed = tuple(label for label in x.labels if label not in self._output)
        if summed:
            return self._sums(x, summed, out)
        axes = [x.labels.index(label) for label in self._output]
        view = x.array.transpose(axes) if len(axes) > 1 else x.array
        if out is None:
            out = Labelled(self._arrays.empty(view.shape, self._dtype), self._output)
        out.array[...] = view.copy() if self._arrays.overlaps(out.array, view) else view
        # as in longer sums, a NaN is absent, and any byte of a bool but 0 is true, a 1
        add, values, zero = self._semiring.add, out.array, self._semiring.zero(self._dtype)
        if add.ufunc is not None and is_bool(self._dtype):
            add.ufunc(values, zero, out=values)
        elif add.ufunc is not None and not is_exact(self._dtype) and self._sums_one_term() and add.is_selective:
            # CuPy's minimum and maximum take subnormal numbers for zeros
            values[...] = self._arrays.module.where(values == values, values, zero)  # noqa: PLR0124 NaN
        return out

    def _sums_one_term(self) -> bool:
        """Return whether an index is summed over, all of which have size 1 where `_alone` has none left."""
        return any(label not in self._contraction.output for labels in self._contraction.inputs for label in labels)

    def _is_one_product(self, x: Labelled, y: Labelled) -> bool:
        return not _own_labels(x, y, self._output) and not _own_labels(y, x, self._output)

    def _products(self, semiring: Semiring) -> Multiply:
        return functools.partial(_multiply, semiring=semiring, dtype=self._dtype, **self._options)

    def _ordered(self, result: Labelled) -> Any:
        """Return a new result with its axes in the order asked for, and those of size 1."""
        axes = [result.labels.index(label) for label in self._output]
        view = result.array.transpose(axes) if len(axes) > 1 else result.array
        return view.reshape(self._contraction.shape)

    def _zeros(self, out: Any) -> Any:
        """Return the result of a contraction without terms, or without elements."""
        zeros = self._arrays.empty(self._contraction.shape, self._dtype) if out is None else out
        zeros.fill(self._semiring.zero(self._dtype))
        return zeros


def _multiply(a: Any, b: Any, out: Any, **options: Any) -> Any:
    return gemm(a, b, out=out, **options)


def _own_labels(x: Labelled, y: Labelled, kept: Labels) -> Labels:
    """Return the labels of `x` that are neither kept nor in `y`."""
    return tuple(label for label in x.labels if label not in kept and label not in y.labels)
