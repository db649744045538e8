"""What programs must compute, by `harness.proof.reference` and `verify`: a product, a closure, or sequences of them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from harness import machine, registry
from harness.dtypes import factors_dtype, is_bool, is_exact
from harness.errors import VerificationError
from harness.interface import Backend, make_plan
from harness.operands import Operands, lower_triangle
from harness.plan import Plan
from harness.problem import Problem
from harness.proof import reference
from harness.proof.magnitude import measured
from harness.proof.programs import sequences
from harness.proof.programs.program import PRODUCTS, SEQUENCES, Program, View, semiring_of
from harness.proof.verify import verify
from harness.semiring import Semiring

NO_PREDECESSOR = -9999  # as scipy.sparse.csgraph has it
MOST_ARGK_TERMS = 1 << 21  # of which the reference computes all at once


def check(program: Program, before: list[np.ndarray], results: list[np.ndarray]) -> None:
    """Raise VerificationError unless `results` are those of buffers that held the bytes `before`."""
    inputs = [read(view, before) for view in program.operands.values()]
    if program.call == "closure":
        _check_closure(program, inputs[0], results)
        return
    if program.call in SEQUENCES:
        sequences.check(program, inputs, results)
        return
    problem, a, b, c = product_of(program, inputs)
    result = _as_matrices(program, problem, results[0])
    is_computed = lower_triangle(problem.m) if problem.triangle == "d" else np.array(True)
    if is_bool(problem.dtype) and ((result.view(np.uint8) > 1) & is_computed).any():
        raise VerificationError("an element of the result is a bool whose byte is neither 0 nor 1")
    operands = Operands(a, b, c, result)
    if program.call == "einsum" and len(inputs) == 1 and set("".join(program.letters[0])) <= set(program.letters[1]):
        if not np.array_equal(result[..., 0], a[..., 0], equal_nan=not is_exact(problem.dtype)):  # NaN is copied, too
            raise VerificationError("the result is no copy of the operand")
        return
    verify(problem, operands, result, seed=program.seed, extra_error=_extra_error(program, problem, operands))
    if problem.triangle == "d":
        _check_above(program, problem, before, result)
    if program.call == "gemm_argk":
        _check_argk(problem, operands, results[1])


def read(view: View, buffers: list[np.ndarray]) -> np.ndarray:
    """Return a copy of an operand, in native order; a bool is True if its byte is not 0."""
    x = view.of(buffers[view.buffer])
    return view.bytes_of(buffers[view.buffer])[..., 0] != 0 if is_bool(x.dtype) else x.copy()


def product_of(program: Program, inputs: list[np.ndarray]) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the product that a program stands for, and its A, B and C with all leading dimensions."""
    named, options, semiring = (
        dict(zip(program.operands, inputs, strict=True)),
        program.options,
        semiring_of(program.semiring),
    )
    narrow = dtype = (
        np.result_type(*(x.dtype for x in inputs)) if "dtype" not in options else np.dtype(options["dtype"])
    )
    if "dtype" in options:
        added = PRODUCTS[program.call][1] if program.call in PRODUCTS else ""
        narrow = factors_dtype(*(x.dtype for name, x in named.items() if name != added))
    if program.call in SEQUENCES:
        return sequences.step_of(program, inputs)
    a, b, c = (named.get(name) for name in "abc")
    column = {name: x[..., None] for name, x in named.items() if name in ("x", "y")}
    row = {name: x[..., None, :] for name, x in named.items() if name in ("x", "y")}
    of_call = {"symv": "a", "hemv": "h", "syr": "d", "syrk": "d"}
    triangle = of_call.get(program.call, options.get("triangle", ""))
    if program.call == "einsum":
        a, b = _as_product(program, inputs, semiring, dtype)
    elif program.call in ("gemv", "symv", "hemv"):
        b, c = column["x"], column.get("y")
    elif program.call in ("ger", "syr"):
        a, b = column["x"], row.get("y", row["x"])
    elif program.call == "syrk" and a is not None:
        b = a.swapaxes(-1, -2)
    elif program.call == "axpy":
        a, b, c = column["x"], np.full((1, 1), semiring.one(dtype), dtype), column["y"]
    assert a is not None
    assert b is not None
    a, b = (x.conj() if name in options.get("conjugate", "") else x for name, x in (("a", a), ("b", b)))
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in (a, b, c) if x is not None))
    (m, k), n = a.shape[-2:], b.shape[-1]
    scalars = options.get("alpha"), options.get("beta"), c is not None
    problem = Problem(m, n, k, semiring, dtype, *scalars, operand_dtype=narrow, triangle=triangle, batch=batch)

    def whole(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # factors of a mixed product are read as they are, whatever holds both
            return np.broadcast_to(x if "dtype" in options else x.astype(dtype), (*batch, *x.shape[-2:]))

    return problem, whole(a), whole(b), None if c is None else whole(c)


def _as_product(
    program: Program, inputs: list[np.ndarray], semiring: Semiring, dtype: np.dtype[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a contraction as a batch of products, A (batch, rows, k) and B (batch, k, columns).

    An operand without some of the letters that are summed is repeated along them. Of three the first two are multiplied
    here, which is exact, and one is multiplied by the one.
    """
    terms, arrays = map(list, zip(*map(_diagonal, program.letters[0], inputs), strict=True))
    names = "".join(sorted(set("".join(terms))))
    lengths = {
        (x, size) for term, array in zip(terms, arrays, strict=True) for x, size in zip(term, array.shape, strict=True)
    }
    sizes = {x: next((size for y, size in lengths if y == x and size != 1), 1) for x in names}
    if len(terms) == 3:
        first = "".join(sorted(set(terms[0] + terms[1])))
        x, y = (_spread(terms[i], arrays[i].astype(dtype), first, sizes) for i in (0, 1))
        with np.errstate(all="ignore"):
            terms, arrays = [first, terms[2]], [reference.algebra(semiring, dtype).multiply(x, y), arrays[2]]
    elif len(terms) == 1:
        terms, arrays = [terms[0], ""], [arrays[0], np.full((), semiring.one(dtype), arrays[0].dtype)]
    batch, rows, columns = _axes(program)
    summed = "".join(x for x in names if x not in program.letters[1])
    count = [math.prod(sizes[x] for x in part) for part in (rows, summed, columns)]
    a, b = (
        _spread(terms[0], arrays[0], batch + rows + summed, sizes),
        _spread(terms[1], arrays[1], batch + summed + columns, sizes),
    )
    leading = [sizes[x] for x in batch]
    return a.reshape([*leading, *count[:2]]), b.reshape([*leading, *count[1:]])


def _axes(program: Program) -> tuple[str, str, str]:
    """Return the letters of a contraction's batch, of rows, and of columns: those of the result."""
    terms, result = program.letters
    first, last = "".join(terms[: max(len(terms) - 1, 1)]), terms[-1] if len(terms) > 1 else ""
    batch = "".join(x for x in result if x in first and x in last)
    return batch, *("".join(x for x in result if x in term and x not in batch) for term in (first, last))  # type: ignore[return-value]


def _diagonal(term: str, x: np.ndarray) -> tuple[str, np.ndarray]:
    """Return a term whose letters occur once, and the diagonal of `x` that it stands for."""
    for letter in term:
        if term.count(letter) == 2:
            i, j = term.index(letter), term.rindex(letter)
            x, term = x.diagonal(0, i, j), term.replace(letter, "") + letter
    return term, x


def _spread(term: str, x: np.ndarray, letters: str, sizes: dict[str, int]) -> np.ndarray:
    """Return `x`, whose axes are called `term`, with an axis for each of `letters`, repeated along those it lacks."""
    x = x.transpose([term.index(letter) for letter in letters if letter in term])
    x = x[tuple(slice(None) if letter in term else None for letter in letters)]
    return np.broadcast_to(x, [sizes[letter] for letter in letters])


def _as_matrices(program: Program, problem: Problem, result: np.ndarray) -> np.ndarray:
    """Return a result in the shape (batch, m, n) of its product, or raise VerificationError."""
    if program.call == "einsum":
        order = program.letters[1]
        if result.ndim != len(order):
            raise VerificationError("the result has other dimensions", expected=order, got=str(result.shape))
        result = result.transpose([order.index(x) for x in "".join(_axes(program))])
    elif program.call in ("gemv", "symv", "hemv", "axpy"):
        result = result[..., None]
    shape = (*problem.batch, problem.m, problem.n)
    if result.size != math.prod(shape) or result.dtype != problem.dtype:
        expected, got = f"{shape} of {problem.dtype}", f"{result.shape} of {result.dtype}"
        raise VerificationError("the result has another form", expected=expected, got=got)
    return result.reshape(shape)


def _extra_error(program: Program, problem: Problem, operands: Operands) -> float:
    """Return what is allowed beyond the bound of `verify`: what a named backend says, and what alpha may lose.

    The factors of an ordinary term are alpha A and B, and alpha A may underflow; so where float32 is widened. Other
    mixed sums are scaled when they may have underflowed (docs/mixed.md).
    """
    if problem.is_exact:
        return 0.0
    extra, info = 0.0, np.finfo(problem.dtype)
    if problem.alpha is not None and problem.is_mixed and problem.input_dtype != np.float32:
        extra = float(abs(problem.alpha)) * (problem.k + 1) * float(info.smallest_normal)
    elif problem.alpha is not None and problem.semiring.multiply.name == "times":
        largest = np.abs(measured(operands.b[np.isfinite(operands.b)])).max(initial=0)
        extra = problem.k * float(info.smallest_subnormal) * float(largest)
    if program.backend != "auto":
        backend = registry.find(program.backend)
        plan = make_plan(backend, problem.of_one(), machine.detect())
    elif problem.is_mixed and (found := _on_tensor_cores()) is not None:
        backend, plan = found, Plan(problem.of_one(), 1)
    else:
        return extra
    return max([extra, *(backend.extra_error(plan, operands.at(index)) for index in np.ndindex(problem.batch))])


@functools.cache
def _on_tensor_cores() -> Backend | None:
    """Return the backend for what auto accepts of tensor cores beside subnormal operands; None without a GPU."""
    entries = (entry for entry in registry.discover() if entry.name == "gpu-tensor-core" and not entry.unavailable())
    return next((entry.backend for entry in entries), None)


def _check_above(program: Program, problem: Problem, before: list[np.ndarray], result: np.ndarray) -> None:
    """Raise unless `out` keeps what it has above its diagonal, and a new result holds the zero there."""
    expected = np.full(result.shape, problem.semiring.zero(problem.dtype), problem.dtype)
    if program.out:
        expected = program.out[0].of(before[program.out[0].buffer]).copy()
    same = [np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.itemsize) for x in (expected, result)]
    wrong = (same[0] != same[1]).any(axis=-1) & ~lower_triangle(problem.m)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0].tolist())
        raise VerificationError(f"element {at}, above the diagonal", expected=str(expected[at]), got=str(result[at]))


def _check_argk(problem: Problem, operands: Operands, argk: np.ndarray) -> None:
    """Raise unless each k is the smallest that attains its element."""
    form = operands.out.shape, np.dtype(np.int32)
    if (argk.shape, argk.dtype) != form:
        raise VerificationError("argk has another form", expected=str(form), got=f"{argk.shape}, {argk.dtype}")
    for index in np.ndindex(problem.batch) if problem.pairs <= MOST_ARGK_TERMS else ():
        one = operands.at(index)
        right = reference.argk(problem.of_one(), one.a, one.b)
        if not np.array_equal(right, argk[index]):
            at = (*index, *np.argwhere(right != argk[index])[0].tolist())
            expected = str(right[at[-2:]])
            raise VerificationError(f"argk of element {at} is wrong", expected=expected, got=str(argk[at]))


def _check_closure(program: Program, matrices: np.ndarray, results: list[np.ndarray]) -> None:
    """Raise unless closures are those of squares of the matrices, and predecessors lead back along best paths."""
    semiring, n = semiring_of(program.semiring), matrices.shape[-2]
    if program.options.get("packed"):
        if results[0].size and n % 8 and (results[0][..., -1] >> n % 8).any():
            raise VerificationError("a bit after the last vertex is set")
        unpack = functools.partial(np.unpackbits, axis=-1, count=n, bitorder="little")
        matrices, results = unpack(matrices).view(bool), [unpack(results[0]).view(bool), *results[1:]]
    rows = program.options.get("sources", slice(None))
    one = semiring.one(matrices.dtype)
    add = reference.algebra(semiring, matrices.dtype).add
    for index in np.ndindex(matrices.shape[:-2]):
        best = matrices[index].copy()
        np.fill_diagonal(best, add(best.diagonal(), one))
        for _ in range(n.bit_length()):
            best = reference.product(Problem(n, n, n, semiring, best.dtype, accumulate=True), best, best, best)
        wanted, result = best[rows], results[0][index]
        if not np.array_equal(wanted, result):
            at = tuple(np.argwhere(wanted != result)[0].tolist())
            expected, got = str(wanted[at]), str(result[at])
            raise VerificationError(f"element {(*index, *at)} of the closure", expected=expected, got=got)
        if len(results) > 1:
            _check_predecessors(semiring, matrices[index], wanted, results[1][index], np.arange(n)[rows])


def _check_predecessors(
    semiring: Semiring, matrix: np.ndarray, best: np.ndarray, predecessors: np.ndarray, roots: np.ndarray
) -> None:
    """Raise unless walking back by `predecessors` reaches every root by edges whose (x) is best, and no other."""
    n, zero, multiply = len(matrix), semiring.zero(matrix.dtype), reference.algebra(semiring, matrix.dtype).multiply
    is_path = (best != zero) & (roots[:, None] != np.arange(n))
    if (predecessors[~is_path] != NO_PREDECESSOR).any():
        raise VerificationError("a predecessor where there is no path, or on the diagonal")
    i, j = np.nonzero(is_path)
    vertex, value = j.copy(), np.full(len(j), semiring.one(matrix.dtype), matrix.dtype)
    for _ in range(n):
        left = np.flatnonzero(vertex != roots[i])
        before = predecessors[i[left], vertex[left]]
        is_vertex = (before >= 0) & (before < n)
        left, before = left[is_vertex], before[is_vertex]
        value[left] = multiply(matrix[before, vertex[left]], value[left])
        vertex[left] = before
    wrong = np.flatnonzero((vertex != roots[i]) | (value != best[i, j]))
    if wrong.size:
        at = int(i[wrong[0]]), int(j[wrong[0]])
        raise VerificationError(
            f"predecessors of {at[1]} do not lead to {roots[at[0]]} by a best path", expected=str(best[at])
        )
