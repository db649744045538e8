"""`einsum`: any contraction over any semiring, by products of views."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arguments import as_numbers, check_out
from harness.api.arrays import kind_of
from harness.api.choice import check_backend
from harness.api.libraries import library_of
from harness.api.libraries.views import by_views
from harness.api.limits import check_threads
from harness.contraction import path as paths
from harness.contraction import recipes
from harness.contraction.evaluation import Evaluation
from harness.contraction.subscripts import read
from harness.dtypes import MIXED, dtype_name, factors_dtype
from harness.errors import ProblemError
from harness.problem import Problem
from harness.semiring import Semiring, as_semiring


def einsum(
    subscripts: str,
    *operands: Any,
    semiring: str | Semiring = "plus_times",
    out: Any = None,
    backend: str = "auto",
    threads: int | None = None,
    dtype: Any = None,
    path: Any = None,
) -> Any:
    """Contract operands in index notation: (+) over the indices that the result lacks, (x) of the elements.

    ``einsum("bik,bkj->bij", a, b, semiring="max_plus")[b, i, j]`` is the maximum over k of ``a[b, i, k] + b[b, k, j]``.

    Parameters
    ----------
    subscripts : str
        As of `numpy.einsum`: a letter for each axis, terms divided by commas, then ``->`` and the axes of the result.
        Without ``->`` those are the letters that occur once, sorted. ``...`` stands for axes that broadcast.
    *operands : array
        One or more, of any strides, all of one library. An axis of size 1 is repeated where its index is longer. An
        index that occurs twice in a term takes the diagonal.
    semiring : str or Semiring
        As in `harness.gemm`. Three operands or more need one with ``is_commutative=True``: they are multiplied in
        pairs, in any order, and summed between.
    out : array, optional
        Where the result goes; may overlap an operand.
    backend, threads
        As in `harness.gemm`, for every product.
    dtype : numpy dtype, optional
        Of the sums and of the result. None: `numpy.result_type` of the operands. As in `harness.gemm` float16,
        bfloat16, float8 and int8 may have wider sums; only one product of two operands then reads them as they are.
    path : sequence of (int, int), str or bool, optional
        The pairs of three operands or more, as opt_einsum and `numpy.einsum_path` write them; or how to find them:
        ``"greedy"``, ``"optimal"``, or another way of opt_einsum, if it is installed. None, True, ``"auto"``:
        opt_einsum's choice if it is installed, else greedy. False: from the left to the right.

    Returns
    -------
    array of dtype
        `out` if given, else a new array of the operands' library; with no indices one without dimensions. Its axes are
        ordered in memory as the product wrote them. It never shares memory with an operand.

    Raises
    ------
    ProblemError
        If subscripts do not parse or do not fit, indices have two sizes, the semiring cannot contract so many, or the
        path is none.
    BackendUnavailable
        As `harness.gemm`.

    Notes
    -----
    A sum over no elements is the semiring's zero. Rounding of floats depends on the path. docs/einsum.md says what is
    copied: of two operands at most one, and only if several summed axes are not evenly spaced in it.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.0, 3.0], [1.0, 0.0]])
    >>> einsum("ij,jk->ik", scores, scores, semiring="max_plus")
    array([[4., 3.],
           [1., 4.]])
    >>> einsum("ij->j", scores, semiring="min_plus")
    array([0., 0.])
    """
    options = {"semiring": semiring, "backend": backend, "threads": threads}
    key = None
    if len(operands) == 2 and out is None and dtype is None and path is None:
        key = recipes.key_of(subscripts, *operands)
        recipe = recipes.recall(key)
        if recipe is not None:
            return recipe(*operands, options)
    if not isinstance(subscripts, str) or not operands:
        raise _no_contraction(subscripts, operands)
    named = {f"operands[{i}]": x for i, x in enumerate(operands)}  # so that a remedy with the name is Python
    library = None if operands[0].__class__ is np.ndarray else next(filter(None, map(library_of, operands)), None)
    if library is not None:
        rest = {"subscripts": subscripts, "dtype": dtype, "path": path, **options}
        if (uncompiled := library.uncompiled()) is not None:
            return uncompiled(einsum, subscripts, *operands, out=out, dtype=dtype, path=path, **options)
        return by_views(_of_views, library, named if out is None else {**named, "out": out}, rest)
    arrays = kind_of("einsum", named if out is None else {**named, "out": out})
    inputs = [as_numbers("einsum", arrays, name, x) for name, x in named.items()]
    contraction = read(subscripts, tuple(tuple(x.shape) for x in inputs))
    try:
        semiring = as_semiring(semiring)
        promoted, result_dtype = _dtypes(inputs, dtype, semiring)
        check_threads(threads)
    except ProblemError as error:
        raise error.told_by("einsum") from None
    check_out("einsum", arrays, out, contraction.shape, result_dtype)
    check_backend(backend)  # there may be no product that would
    steps = paths.check(path, len(inputs))
    if len(inputs) > 2 and not semiring.is_commutative:
        raise _needs_pairs(semiring, len(inputs))
    evaluation = Evaluation(contraction, semiring, arrays, result_dtype, {"backend": backend, "threads": threads})
    with arrays.in_force():
        target = None if out is None else arrays.plain(out)
        result = evaluation(inputs, target, steps, is_mixed=promoted != result_dtype)
    if key is not None and type(operands[0]) is type(operands[1]) is arrays.module.ndarray:
        recipes.remember(key, contraction, *inputs)
    return result if out is None else out


def _of_views(*, out: Any = None, subscripts: str, **arguments: Any) -> Any:
    """Return `einsum` of operands by name, in their order."""
    names = [name for name in arguments if name.startswith("operands[")]
    operands = [arguments.pop(name) for name in names]
    return einsum(subscripts, *operands, out=out, **arguments)


_of_views.__name__ = "einsum"  # in messages


def _dtypes(inputs: list[Any], requested: Any, semiring: Semiring) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtype that the operands have in common, and that of the result."""
    names = ", ".join(dtype_name(x.dtype) for x in inputs)
    try:
        dtypes = [x.dtype.newbyteorder("=") for x in inputs]
        mixed = factors_dtype(*dtypes) if requested is not None else None
        promoted: np.dtype[Any] = np.result_type(*dtypes).newbyteorder("=") if mixed is None else mixed
        dtype = promoted if requested is None else np.dtype(requested).newbyteorder("=")
    except TypeError:
        expected = "dtypes that NumPy promotes to one" if requested is None else "a NumPy dtype, such as 'float32'"
        raise ProblemError("einsum: no common dtype", expected=expected, got=f"{names}; dtype={requested!r}") from None
    if dtype != promoted and (MIXED.get(dtype_name(promoted)) != dtype_name(dtype) or not semiring.is_ordinary):
        raise ProblemError(
            f"einsum: dtype={dtype.name!r} is not that of the contraction",
            expected=f"{promoted.name}; or " + ", ".join(f"{wide} for {narrow}" for narrow, wide in MIXED.items()),
            got=names,
            fix="convert with astype: einsum converts nothing by itself",
        )
    Problem(0, 0, 0, semiring, dtype)  # raises if the dtype makes no sense in it
    return promoted, dtype


def _needs_pairs(semiring: Semiring, count: int) -> ProblemError:
    return ProblemError(
        f"einsum: over {semiring.name!r} {count} operands cannot be contracted by pairs",
        expected="(x) that commutes, associates and distributes over (+), whose zero absorbs",
        got=f"{semiring.name}, of which that is not known",
        fix="two operands at a time; or Semiring.from_functions(..., is_commutative=True) if it holds",
    )


def _no_contraction(subscripts: Any, operands: tuple[Any, ...]) -> ProblemError:
    return ProblemError(
        "einsum: a string of subscripts comes first, then the operands",
        expected="einsum('ik,kj->ij', a, b)",
        got=f"{type(subscripts).__name__}, then {len(operands)} operands",
    )
