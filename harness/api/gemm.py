"""`gemm`: validate once at the edge, choose a backend, compute every product of a batch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import sys
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from harness.api import libraries
from harness.api.arguments import Arguments, read_arguments
from harness.api.choice import choose, limited_shortcut
from harness.api.libraries import view_products
from harness.api.limits import check_threads, enter, limited_to, machine_of
from harness.api.remembered import kinds, repeats, staged
from harness.api.remembered.shortcuts import MOST_SHORTCUTS, known_shortcuts, new_result, shortcut_of
from harness.dtypes import is_exact
from harness.errors import ProblemError, check_imports
from harness.interface import Backend, Prepared, Shortcut, make_plan, prepare
from harness.operands import Operands, data_address
from harness.problem import Problem
from harness.semiring import Scalar, Semiring, as_semiring

_NUMPY = np.ndarray  # an attribute of a module takes 10 ns of a call of 0.9 us


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    semiring: str | Semiring = "plus_times",
    alpha: Scalar = None,
    beta: Scalar = None,
    out: Any = None,
    backend: str = "auto",
    threads: int | None = None,
    dtype: Any = None,
    triangle: str = "",
    conjugate: str = "",
) -> Any:
    """Compute ``D = (alpha (x) A (x) B) (+) (beta (x) C)`` over a semiring.

    Parameters
    ----------
    a : (..., m, k) array
        Any strides: transposed, sliced, negative, Fortran order, read-only, zero-sized.
    b : (..., k, n) array
        Likewise. Leading dimensions of a, b and c broadcast as in `numpy.matmul`.
    c : (..., m, n) array, optional
        Without it the result is ``alpha (x) A (x) B``.
    semiring : str or Semiring
        ``"plus_times"``, ``"min_plus"``, ... or an object of your own.
    alpha, beta : scalar, optional
        None: the semiring's one. A beta that is the semiring's zero, and not its one as well, means that c is
        not read.
    out : (..., m, n) array, optional
        Where the result goes; may be c, or overlap any operand. Its dtype must be the result's.
    backend : str
        A name from ``python -m harness list``, or ``"auto"``: one whose results are as accurate as ordinary sums.
    threads : int, optional
        For this call; None leaves the settings of BLAS and Numba alone.
    dtype : numpy dtype, optional
        Of the sums and of the result. None: ``numpy.result_type`` of a, b and c, among which complex ones make the
        product complex. ``float32`` for a and b of float16, bfloat16 or float8, ``float64`` for those of float32,
        ``complex128`` for those of complex64, and ``int32`` for those of int8 or uint8 make a mixed product: they are
        multiplied as they are, and c must be of `dtype`. docs/mixed.md says what a and b of two narrow floats become.
    triangle : str
        ``"a"``: a is symmetric, and nothing above its diagonal is used. ``"h"``: a is Hermitian, the same, and
        imaginary parts on its diagonal count as zero. ``"d"``: nothing of the result above its diagonal is computed;
        there `out` keeps what it has, and a new result holds the semiring's zero.
    conjugate : str
        ``"a"``, ``"b"`` or ``"ab"``: these are conjugated as they are read; over real dtypes nothing happens. So
        ``gemm(a.T, a, conjugate="a", triangle="d")`` is the lower half of the Hermitian A^H A.

    Returns
    -------
    (..., m, n) array of dtype
        `out` if given, else a new C-ordered array, of the one library that a, b and c are of: NumPy, CuPy, PyTorch,
        JAX, or any other that speaks DLPack (docs/arrays.md). That of arrays on a GPU is computed there, in the current
        stream, and the call does not wait for it.

    Raises
    ------
    ProblemError
        If shapes, dtypes, scalars or arrays do not fit, before any work. Arrays on the host and on a GPU, or on several
        GPUs, do not. Or if a product does not fit into memory; nothing of `out` is written then.
    BackendUnavailable
        If the backend is unknown, misses something here, or declines the problem.

    Notes
    -----
    The rules on NaN, infinities and integer overflow are in docs/semirings.md. What a call on a GPU costs, and how a
    CUDA graph captures it, is in docs/gpu.md.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.array([[0.0, 1.0], [np.inf, 0.0]])
    >>> gemm(distances, distances, semiring="min_plus")
    array([[ 0.,  1.],
           [inf,  0.]])
    """
    key: Any = None
    if a.__class__ is _NUMPY and triangle.__class__ is conjugate.__class__ is str and not (triangle or conjugate):
        # 1, 1.0 and True are equal keys but different arguments, so the key contains their classes
        plain = semiring, alpha, alpha.__class__, backend, threads, threads.__class__, dtype, a.dtype
        key = plain if c is None and beta is None else (*plain, beta, beta.__class__, c is None)
        try:
            remembered = known_shortcuts.get(key)
        except (TypeError, ValueError):  # not hashable, so neither a name nor a number: the checks below report it
            remembered = key = None
        if remembered is not None:
            shortcut, result_dtype = remembered
            result = new_result(a, b, result_dtype) if out is None else out
            try:
                if shortcut(a, b, result) if c is None else shortcut(a, b, result, c):
                    return result
            except ImportError:
                check_imports("kernels")
                raise
    elif a.__class__ is not _NUMPY and (library := libraries.library_of(a)) is not None:
        rest = semiring, alpha, beta, backend, threads, library.dtype(dtype), triangle, conjugate
        return view_products.gemm_of(library, gemm, a, b, c, out, rest)
    options = repeats.options_of_gemm(semiring, alpha, beta, backend, threads, dtype, triangle, conjugate)
    results = _recall(options, (a, b) if c is None else (a, b, c), out)
    if results is not None:
        return results[0]
    operands = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    matrices: dict[str, Any] = {"dtype": dtype, "triangle": triangle, "conjugate": conjugate}
    scalars = {"alpha": alpha, "beta": beta}
    try:
        semiring, threads = as_semiring(semiring), check_threads(threads)
        arguments = read_arguments("gemm", operands, semiring, **scalars, out=out, **matrices)
    except ProblemError as error:
        raise error.told_by("gemm") from None
    return _gemm(arguments, out, backend, threads, key, options)


def _recall(options: Hashable, operands: tuple[Any, ...], out: Any) -> tuple[Any, ...] | None:
    """Compute a remembered product, and return its result alone; None: it is not remembered, and nothing was done."""
    kind = operands[0].__class__
    if kind is np.ndarray:
        return staged.recall(options, operands, None if out is None else (out,))
    return repeats.recall(options, operands, out, kinds.prepared) if kind in repeats.classes else None


def _gemm(
    arguments: Arguments, out: Any, backend: str, count: int | None, key: tuple[Any, ...] | None, options: Hashable
) -> Any:
    """Return `gemm` of any arguments.

    For the next call it remembers the shortcut under `key`, if there is one, and the product: on a device by `options`,
    of NumPy arrays by `options` and their layout.

    A function of its own: variables that a comprehension shares with its function would cost every call 20 ns each.
    """
    arrays, problem = arguments.arrays, arguments.problem
    with arrays.in_force():
        plain = problem.laid_out(problem.layout, conjugate="") if problem.conjugate else problem
        chosen = choose(plain, backend, arrays, arguments.batch, count)
        if plain is not problem and chosen.refuses(problem):
            with enough_memory("gemm", arguments):
                arguments, problem, options = arguments.conjugated(), plain, None  # copies are not remembered
        shortcut = shortcut_of(chosen, problem, count) if key or arguments.batch else None
        is_known = problem.accumulate == ("c" in arguments.inputs)
        if key and is_known and shortcut is not None and not arguments.are_converted():
            if len(known_shortcuts) >= MOST_SHORTCUTS:
                known_shortcuts.clear()
            known_shortcuts[key] = limited_shortcut(shortcut, chosen, problem, backend, count), problem.dtype
            taken = _take(shortcut, arguments, out)
            if taken is not None:
                return taken
        arrays.refuse_capture("this product has not been computed before", "call it once before the capture begins")
        with enough_memory("gemm", arguments):
            result = _new(arguments) if out is None else arrays.plain(out)
            quick = shortcut if arguments.batch and not problem.accumulate else None
            prepared, target = _compute(arguments, chosen, result, count, quick)
        if prepared is None:
            return result if out is None else out
        if arrays.on_device and not arguments.are_converted():
            operands = tuple(arguments.inputs.values())
            if repeats.remember(options, prepared, arrays, operands, (target,), out):
                kinds.remember(options, arguments, out, backend, count)
        elif not arrays.on_device and chosen.rereads_operands:
            plan, limited = prepared.plan, functools.partial(limited_to, count, chosen)
            outs = None if out is None else (out,)
            staged.remember(
                options, arguments, outs, lambda operands: prepare(chosen, plan, operands).run_once, limited
            )
    return result if out is None else out


def _take(shortcut: Shortcut, arguments: Arguments, out: Any) -> Any:
    """Return the result by a shortcut, which spares the first call with other scalars all else; None: it takes none."""
    inputs, dtype = arguments.inputs, arguments.problem.dtype
    with enough_memory("gemm", arguments):
        result = new_result(inputs["a"], inputs["b"], dtype) if out is None else out
        others = [inputs["c"]] if "c" in inputs else []
        return result if shortcut(inputs["a"], inputs["b"], result, *others) else None


def _new(arguments: Arguments) -> Any:
    """Return an array for the result, which holds the semiring's zero where the product writes nothing."""
    arrays, problem = arguments.arrays, arguments.problem
    if math.prod(arguments.shape) * problem.dtype.itemsize > sys.maxsize:
        raise MemoryError  # NumPy says that in another way
    if problem.triangle == "d":
        return arrays.module.full(arguments.shape, problem.semiring.zero(problem.dtype), problem.dtype)
    return arrays.empty(arguments.shape, problem.dtype)


def _compute(
    arguments: Arguments, backend: Backend, result: Any, count: int | None, quick: Shortcut | None
) -> tuple[Prepared | None, Any]:
    """Have `backend` compute the product, or the batch, on `count` threads.

    A backend that knows no batches computes its products one after the other, but for those that `quick` takes.
    Return what was prepared, if it is all products. Second the array that was computed into: `result`, or one that was
    copied to it.
    """
    arrays, problem, operands = arguments.arrays, arguments.problem, arguments.operands()
    others = dict(operands)
    if _adds_in_place(arguments, backend, operands.get("c"), result):
        operands["c"] = result
        del others["c"]
    overlaps = any(arrays.overlaps(result, x) for x in others.values())
    target = _aside(arguments, result) if overlaps else result
    whole = Operands(operands["a"], operands["b"], operands["c"] if problem.accumulate else None, target)
    batch = as_batch(arguments, backend)
    is_at_once = batch is not None or not arguments.batch
    plan, prepared = make_plan(backend, batch or problem, machine_of(count)), None
    is_limited = False
    with contextlib.ExitStack() as stack:
        for index in [()] if is_at_once else np.ndindex(arguments.batch):
            one = whole if is_at_once else whole.at(index)
            if quick is not None and quick(one.a, one.b, one.out):
                continue
            prepared = prepare(backend, plan, one)
            if not is_limited:  # only now: preparing may have loaded the library whose threads are meant
                enter(stack, limited_to(count, backend))
                is_limited = True
            prepared.run_once()
    if target is not result:
        result[...] = target
    return prepared if is_at_once else None, target


def _adds_in_place(arguments: Arguments, backend: Backend, c: Any, out: Any) -> bool:
    """Return whether `backend` adds the product to `out`, an array on the host that is C too, without a copy of C."""
    problem = arguments.problem
    is_possible = problem.accumulate and backend.accumulates_in_place and not arguments.batch
    if not is_possible or arguments.arrays.on_device or out.size == 0:
        return False
    if (data_address(c), c.shape, c.strides, c.dtype) != (data_address(out), out.shape, out.strides, out.dtype):
        return False
    if not problem.semiring.add.is_selective or is_exact(problem.dtype):
        return True
    return not np.isnan(out.min())  # a NaN of C is absent, which such a backend does not look for


def as_batch(arguments: Arguments, backend: Backend) -> Problem | None:
    """Return all products of the arguments as one problem; None: there is no batch, or `backend` does not take it."""
    if 0 in arguments.batch or not arguments.batch or "batch" not in backend.takes:
        return None
    problem = dataclasses.replace(arguments.problem, batch=arguments.batch)
    return None if backend.refuses(problem) else problem


def _aside(arguments: Arguments, result: Any) -> Any:
    """Return an array to compute into instead of `result`, to which all of it is copied later."""
    target = arguments.arrays.empty(arguments.shape, arguments.problem.dtype)
    if arguments.problem.triangle == "d":  # the product leaves some of it as it is
        target[...] = result
    return target


@contextlib.contextmanager
def enough_memory(caller: str, arguments: Arguments) -> Iterator[None]:
    """Report that the result of `caller`, or copies that the product takes, do not fit into memory, or Python ends.

    Every array is made before any of the result is written.
    """
    try:
        yield
    except ImportError:
        check_imports("kernels")
        raise
    except MemoryError:
        result = math.prod(arguments.shape) * arguments.problem.dtype.itemsize
        of_batch, part = "", "rows of a"
        if arguments.batch:
            of_batch, part = f", {math.prod(arguments.batch)} of them", "the batch"
        raise ProblemError(
            f"{caller}: the product does not fit into memory",
            expected="room for the result, and for copies of operands that are not used in place",
            got=f"a result of {result / 2**30:.3g} GiB: {arguments.problem}{of_batch}",
            fix=f"call it for parts of {part}, each with its part of out",
        ) from None
