"""Run a random program, and hold what it computes and what it touches against the definition.

The public calls, and the memory that arrays lie in, are the caller's: this module knows no kernel. After each call

* the result is that of `harness.proof.reference`, within the bound of `harness.proof.verify`,
* bytes outside of the result, of gaps and of operands too, are what they were,
* where the rules of the docs refuse the program, it was refused before any work, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from harness import machine, registry
from harness.errors import BackendUnavailable, ProblemError, VerificationError
from harness.interface import make_plan
from harness.operands import Operands, lower_triangle, shares_with_itself
from harness.problem import Problem
from harness.proof import reference
from harness.proof.programs import Program, View, contents, semiring_of
from harness.proof.verify import is_exact, verify
from harness.semiring import HALF

TURNS = (0, 1, 2)  # the first arrays, others of the same layouts, and the first again
MOST_ARGK_TERMS = 1 << 21  # of which the oracle computes all at once


class Memory(Protocol):
    """Where the arrays of programs lie.

    `place` returns memory that holds the bytes of a buffer, `store` writes bytes to it again, `view` returns the
    library's array of a view of it, and `fetch` a copy of its bytes on the host, or of any array of the library.
    """

    on_device: bool

    def place(self, buffer: np.ndarray) -> Any:
        """Return new memory with these bytes."""

    def store(self, placed: Any, buffer: np.ndarray) -> None:
        """Write the bytes to memory of that size."""

    def view(self, placed: Any, view: View) -> Any:
        """Return the array."""

    def fetch(self, array: Any) -> np.ndarray:
        """Return a copy on the host, when all work on it is done."""


class HostMemory:
    """Arrays of NumPy."""

    on_device = False

    def place(self, buffer: np.ndarray) -> np.ndarray:
        """Return a copy."""
        return buffer.copy()

    def store(self, placed: np.ndarray, buffer: np.ndarray) -> None:
        """Write the bytes."""
        placed[...] = buffer

    def view(self, placed: np.ndarray, view: View) -> np.ndarray:
        """Return the array, read-only if the view is."""
        array = view.of(placed)
        array.flags.writeable = view.is_writable
        return array

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy."""
        return np.array(array)


class CupyMemory:
    """Arrays of CuPy on the current GPU; each buffer is an allocation of its own.

    Parameters
    ----------
    cupy : module
    """

    on_device = True

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def place(self, buffer: np.ndarray) -> Any:
        """Return a copy on the GPU."""
        return self._cupy.asarray(buffer)

    def store(self, placed: Any, buffer: np.ndarray) -> None:
        """Write the bytes."""
        placed.set(buffer)

    def view(self, placed: Any, view: View) -> Any:
        """Return the array; CuPy has no read-only ones."""
        return self._cupy.ndarray(view.shape, view.numpy_dtype, placed.data + view.offset, strides=view.strides)

    def fetch(self, array: Any) -> np.ndarray:
        """Return a copy on the host."""
        fetched: np.ndarray = array.get()
        return fetched


class Outcome(NamedTuple):
    """What became of a program: empty texts if all is right."""

    refusal: str = ""  # the first line of the message, as the rules have it
    wrong: str = ""  # what is wrong, and at which call


def run(program: Program, calls: Mapping[str, Callable[..., Any]], memory: Memory) -> Outcome:
    """Run a program three times, by the public `calls` of those names, and return what became of it."""
    kept: tuple[list[Any], list[Any]] | None = None
    refusal = ""
    for turn in TURNS:
        before = contents(program, turn)
        if turn == TURNS[-1] and kept is not None:
            placed, arrays = kept
            for buffer, content in zip(placed, before, strict=True):
                memory.store(buffer, content)
        else:
            placed = [memory.place(x) for x in before]
            arrays = [memory.view(placed[view.buffer], view) for view in (*program.operands.values(), *program.out)]
            kept = kept or (placed, arrays)
        try:
            got, refusal = _call(program, calls[program.entry], arrays), ""
        except (ProblemError, BackendUnavailable) as error:
            got, refusal = None, str(error).partition("\n")[0]
            wrong = _wrong_refusal(program, memory, error)
        except Exception as error:  # noqa: BLE001 whatever a call raises is a finding
            return Outcome(wrong=f"call {turn + 1}: {type(error).__name__}: {error}")
        else:
            wrong = f"computed, where {rule}" if (rule := _refused_by_rule(program)) else ""
        after = [memory.fetch(x) for x in placed]
        if got is not None and not wrong:
            try:
                results = _results(program, got, arrays, after, memory)
                _check(program, before, results)
            except VerificationError as error:
                wrong = str(error)
        wrong = wrong or _touched(program, before, after, is_computed=got is not None)
        if wrong:
            return Outcome(wrong=f"call {turn + 1}: {wrong}")
    return Outcome(refusal)


def _call(program: Program, function: Callable[..., Any], arrays: list[Any]) -> Any:
    """Return what the public call returns."""
    options = {name: x for name, x in program.options.items() if name not in ("subscripts", "letters")}
    options["semiring"] = semiring_of(program.semiring)
    if options["semiring"].is_named:
        options["semiring"] = program.semiring
    count = len(program.operands)
    if program.out:
        options["out"] = arrays[count] if len(program.out) == 1 else tuple(arrays[count:])
    if program.entry == "einsum":
        return function(program.options["subscripts"], *arrays[:count], **options)
    return function(**dict(zip(program.operands, arrays, strict=False)), **options)


def _results(
    program: Program, got: Any, arrays: list[Any], after: list[np.ndarray], memory: Memory
) -> list[np.ndarray]:
    """Return the results on the host: those of `out` as they stand in its memory."""
    results = list(got) if isinstance(got, tuple) else [got]
    for given, result in zip(arrays[len(program.operands) :], results, strict=False):
        if given is not result:
            raise VerificationError("out was given, and another array was returned")
    if program.out:
        return [view.of(after[view.buffer]).copy() for view in program.out]
    return [memory.fetch(x) for x in results]


def _touched(program: Program, before: list[np.ndarray], after: list[np.ndarray], *, is_computed: bool) -> str:
    """Return which bytes have changed that are no element of the result, or nothing."""
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        changed = old != new
        for view in program.out if is_computed else ():
            if view.buffer == number:
                _bytes_of(view, changed)[...] = False
        if changed.any():
            at = int(changed.argmax())
            names = [name for name, view in program.operands.items() if view.buffer == number]
            return (
                f"byte {at} of {old.size} of buffer {number} ({', '.join(names) or 'out'}) has changed, "
                f"{old[at]} to {new[at]}, {int(changed.sum())} in all, and is no element of the result"
            )
    return ""


def _bytes_of(view: View, buffer: np.ndarray) -> np.ndarray:
    """Return the bytes of the elements, with one more axis; `buffer` has items of one byte."""
    itemsize = view.numpy_dtype.itemsize
    array: np.ndarray = np.ndarray((*view.shape, itemsize), buffer.dtype, buffer, view.offset, (*view.strides, 1))
    return array


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """Return the program with what it does not need to be wrong left out: scalars, C, `out`, layouts, and values."""
    for simpler in _simplifications(program):
        candidate = simpler(program)
        if candidate != program and is_wrong(candidate):
            program = candidate
    return program


def _simplifications(program: Program) -> Iterator[Callable[[Program], Program]]:
    for name in ("threads", "alpha", "beta", "path", "block", "method"):
        yield lambda p, name=name: replace(p, options={x: y for x, y in p.options.items() if x != name})
    yield lambda p: replace(p, out=())
    added = {"gemm": "c", "gemv": "y", "symv": "y", "ger": "c", "syr": "c", "syrk": "c"}.get(program.entry)
    yield lambda p: replace(
        p,
        operands={name: x for name, x in p.operands.items() if name != added},
        options={x: y for x, y in p.options.items() if x != "beta"},
    )
    yield lambda p: replace(p, values="few")
    for index in range(len(program.operands) + len(program.out)):
        yield lambda p, index=index: _laid_plainly(p, index)


def _laid_plainly(program: Program, index: int) -> Program:
    """Return the program with one array C-ordered in a buffer of its own."""
    views = [*program.operands.values(), *program.out]
    if index >= len(views):
        return program
    shape, itemsize = views[index].shape, views[index].numpy_dtype.itemsize
    strides = np.empty(shape, f"V{itemsize}").strides
    plain = replace(views[index], buffer=len(program.buffers), strides=strides, offset=0, is_writable=True)
    views[index], count = plain, len(program.operands)
    buffers = (*program.buffers, math.prod(shape) * itemsize)
    return replace(
        program,
        operands=dict(zip(program.operands, views[:count], strict=True)),
        out=tuple(views[count:]),
        buffers=buffers,
    )


# ------------------------------------------------------------------------------------------------- refusals


def _refused_by_rule(program: Program) -> str:
    """Return why the docs say that the program is refused, or nothing."""
    for name in ("alpha", "beta"):
        if np.isnan(program.options.get(name, 0)):
            return f"{name} is NaN"
    for view in program.out:
        if not view.is_writable:
            return "out is read-only"
        if shares_with_itself(view.shape, view.strides, view.numpy_dtype.itemsize):
            return "elements of out share memory"
    if len(program.out) == 2 and _share(*program.out):
        return "the two results share memory"
    return ""


def _share(x: View, y: View) -> bool:
    """Return whether two arrays have a byte in common."""
    if x.buffer != y.buffer:
        return False
    marks = np.zeros(max(x.span[1], y.span[1]), np.uint8)
    _bytes_of(x, marks)[...] = 1
    return bool(_bytes_of(y, marks).any())


def _wrong_refusal(program: Program, memory: Memory, error: Exception) -> str:
    """Return why it is wrong that the program was refused, or nothing."""
    if _refused_by_rule(program):
        return "" if isinstance(error, ProblemError) else f"refused by the wrong error: {error}"
    if len(program.out) == 2 and memory.on_device and program.out[0].buffer == program.out[1].buffer:
        return ""  # on a device they are compared by what they span
    if isinstance(error, BackendUnavailable):
        dtypes = {view.numpy_dtype.newbyteorder("=") for view in program.operands.values()}
        of_half = HALF in dtypes and "dtype" not in program.options and not memory.on_device
        if "dtype" in program.options and np.isinf(program.options.get("alpha", 0)):
            return ""  # docs/mixed.md
        if of_half and (program.entry in ("gemm_argk", "symv", "syr", "syrk") or program.options.get("triangle")):
            return ""  # docs/semirings.md
        if program.backend != "auto":
            problem = problem_of(program, [x.of(contents(program, 0)[x.buffer]) for x in program.operands.values()])[0]
            if registry.refusal(registry.find(program.backend), problem.of_one()):
                return ""
    return f"refused: {error}"


# --------------------------------------------------------------------------------------------------- the oracle


def _check(program: Program, before: list[np.ndarray], results: list[np.ndarray]) -> None:
    """Raise VerificationError unless the results are right."""
    inputs = [_read(view, before[view.buffer]) for view in program.operands.values()]
    if program.entry == "closure":
        _check_closure(program, inputs[0], results)
        return
    problem, a, b, c = problem_of(program, inputs)
    shape = results[0].shape
    result = _as_matrices(program, problem, results[0])
    if result.dtype != problem.dtype:
        raise VerificationError("the result has another dtype", expected=str(problem.dtype), got=str(result.dtype))
    if problem.dtype.kind == "b" and (results[0].view(np.uint8) > 1).any():
        raise VerificationError("an element of the result is a bool whose byte is neither 0 nor 1")
    operands = Operands(a, b, c, result)
    if (
        program.entry == "einsum"
        and len(inputs) == 1
        and set(program.options["letters"].split("->")[0]) <= set(program.options["letters"].split("->")[1])
    ):  # without a sum it is a copy, of NaN too
        if not np.array_equal(result[..., 0], a[..., 0].astype(problem.dtype), equal_nan=problem.dtype.kind == "f"):
            raise VerificationError("the result is no copy of the operand")
        return
    verify(problem, operands, result, seed=program.seed, extra_error=_extra_error(program, problem, operands))
    if problem.triangle == "d":
        _check_above(program, problem, before, result)
    if program.entry == "gemm_argk":
        _check_argk(problem, operands, results[1], shape)


def _read(view: View, buffer: np.ndarray) -> np.ndarray:
    """Return a copy of an operand; a byte of a bool that is not 0 is True."""
    x = view.of(buffer)
    if x.dtype.kind == "b":
        return _bytes_of(view, buffer)[..., 0] != 0
    return x.astype(x.dtype.newbyteorder("="))


def problem_of(program: Program, inputs: list[np.ndarray]) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the product that a program stands for, and its A, B and C with their leading dimensions in full."""
    named = dict(zip(program.operands, inputs, strict=True))
    semiring, options = semiring_of(program.semiring), program.options
    entry, triangle = program.entry, options.get("triangle", "")
    if "dtype" in options:
        dtype = np.dtype(options["dtype"])
        narrow = named[next(iter(named))].dtype
    else:
        dtype = narrow = np.result_type(*(x.dtype for x in inputs)).newbyteorder("=")
    x, y = named.get("x"), named.get("y")
    a, b, c = named.get("a"), named.get("b"), named.get("c")
    if entry == "einsum":
        a, b = _as_product(program, inputs, semiring, dtype)
    elif entry in ("gemv", "symv"):
        assert x is not None
        b, c, triangle = x[..., None], None if y is None else y[..., None], "a" if entry == "symv" else ""
    elif entry == "ger":
        assert x is not None
        assert y is not None
        a, b = x[..., None], y[..., None, :]
    elif entry == "syr":
        assert x is not None
        a, b, triangle = x[..., None], x[..., None, :], "d"
    elif entry == "syrk":
        assert a is not None
        b, triangle = a.swapaxes(-1, -2), "d"
    elif entry == "axpy":
        assert x is not None
        assert y is not None
        a, b, c = x[..., None], np.full((1, 1), semiring.one(dtype), dtype), y[..., None]
    assert a is not None
    assert b is not None
    batch = np.broadcast_shapes(*(z.shape[:-2] for z in (a, b, c) if z is not None))
    problem = Problem(
        a.shape[-2], b.shape[-1], a.shape[-1], semiring, dtype, options.get("alpha"), options.get("beta"),
        c is not None, operand_dtype=narrow, triangle=triangle, batch=batch,
    )  # fmt: skip

    def whole(z: np.ndarray, as_dtype: np.dtype[Any]) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.broadcast_to(z.astype(as_dtype), (*batch, *z.shape[-2:]))

    return problem, whole(a, narrow), whole(b, narrow), None if c is None else whole(c, dtype)


def _as_product(program: Program, inputs: list[np.ndarray], semiring: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a contraction as a batch of products: A (batch, rows, k) and B (batch, k, columns).

    Letters of both operands and of the result are the batch; those of one operand are rows or columns; all that are
    summed are k, along which an operand without them is repeated.
    """
    letters = program.options["letters"]
    terms, result = letters.split("->")[0].split(","), letters.split("->")[1]
    terms, arrays = zip(*map(_diagonal, terms, inputs), strict=True)
    names = sorted(set("".join(terms)))
    sizes = {x: next((s for s in _sizes_of(x, terms, arrays) if s != 1), 1) for x in names}
    if len(terms) == 3:  # the first two are multiplied, which is exact
        wide = [_spread(term, x, "".join(names), sizes) for term, x in zip(terms[:2], arrays[:2], strict=True)]
        with np.errstate(all="ignore"):
            first = reference.algebra(semiring, dtype).multiply(wide[0].astype(dtype), wide[1].astype(dtype))
        terms, arrays = ("".join(names), terms[2]), (first, arrays[2])
    elif len(terms) == 1:
        terms, arrays = (terms[0], ""), (arrays[0], np.full((), semiring.one(dtype), arrays[0].dtype))
    batch = "".join(x for x in names if x in result and all(x in term for term in terms))
    rows, columns = ("".join(x for x in result if x in term and x not in batch) for term in terms)
    summed = "".join(x for x in names if x not in result)
    a = _spread(terms[0], arrays[0], batch + rows + summed, sizes)
    b = _spread(terms[1], arrays[1], batch + summed + columns, sizes)
    counts = {part: int(np.prod([sizes[x] for x in part], dtype=int)) for part in (rows, columns, summed)}
    of_batch = tuple(sizes[x] for x in batch)
    return (
        a.reshape((*of_batch, counts[rows], counts[summed])),
        b.reshape((*of_batch, counts[summed], counts[columns])),
    )


def _sizes_of(letter: str, terms: tuple[str, ...], arrays: tuple[np.ndarray, ...]) -> list[int]:
    return [x.shape[term.index(letter)] for term, x in zip(terms, arrays, strict=True) if letter in term]


def _diagonal(term: str, x: np.ndarray) -> tuple[str, np.ndarray]:
    """Return a term whose letters occur once, and the diagonal of `x` that it stands for."""
    for letter in term:
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            x, term = x.diagonal(0, i, j), term[:i] + term[i + 1 : j] + term[j + 1 :] + letter
    return term, x


def _spread(term: str, x: np.ndarray, letters: str, sizes: dict[str, int]) -> np.ndarray:
    """Return `x`, whose axes are called `term`, with an axis for each of `letters`; others are sums of one element."""
    kept = [letter for letter in letters if letter in term]
    x = x.transpose([term.index(letter) for letter in kept])
    x = x[tuple(slice(None) if letter in term else None for letter in letters)]
    return np.broadcast_to(x, [sizes[letter] for letter in letters])


def _as_matrices(program: Program, problem: Problem, result: np.ndarray) -> np.ndarray:
    """Return a result in the shape (batch, m, n) of its product."""
    shape = (*problem.batch, problem.m, problem.n)
    if program.entry == "einsum":
        letters = program.options["letters"]
        terms, order = letters.split("->")[0].split(","), letters.split("->")[1]
        terms = [*terms, ""] if len(terms) == 1 else [letters.split("->")[0], terms[2]] if len(terms) == 3 else terms
        batch = [x for x in sorted(order) if all(x in term for term in terms)]
        rows, columns = ([x for x in order if x in term and x not in batch] for term in terms)
        if result.ndim != len(order):
            raise VerificationError("the result has other dimensions", expected=order, got=str(result.shape))
        result = result.transpose([order.index(x) for x in (*batch, *rows, *columns)])
        if result.size != int(np.prod(shape)):
            raise VerificationError("the result has another size", expected=str(shape), got=str(result.shape))
        return result.reshape(shape)
    return result[..., None] if program.entry in ("gemv", "symv", "axpy") else result


def _extra_error(program: Program, problem: Problem, operands: Operands) -> float:
    """Return what is allowed beyond the bound of `verify`: what a named backend says, and what alpha may lose.

    Ordinary factors are alpha A and B, and alpha A may underflow; mixed sums are scaled when they may have underflowed
    (docs/mixed.md).
    """
    if is_exact(problem):
        return 0.0
    extra, info = 0.0, np.finfo(problem.dtype)
    if problem.alpha is not None and problem.is_mixed:
        extra = abs(float(problem.alpha)) * (problem.k + 1) * float(info.smallest_normal)
    elif problem.alpha is not None and problem.semiring.multiply.name == "times":
        largest = np.abs(operands.b[np.isfinite(operands.b)].astype(np.float64)).max(initial=0)
        extra = problem.k * float(info.smallest_subnormal) * float(largest)
    if program.backend == "auto":
        return extra
    backend, one, here = registry.find(program.backend), problem.of_one(), machine.detect()
    plan = make_plan(backend, one, here)
    own = max((backend.extra_error(plan, operands.at(i)) for i in np.ndindex(problem.batch)), default=0.0)
    return max(extra, own)


def _check_above(program: Program, problem: Problem, before: list[np.ndarray], result: np.ndarray) -> None:
    """Raise unless `out` keeps what it has above its diagonal, and a new result holds the zero there."""
    above = ~lower_triangle(problem.m)
    if program.out:
        view = program.out[0]
        expected = view.of(before[view.buffer])
    else:
        expected = np.full(result.shape, problem.semiring.zero(problem.dtype), problem.dtype)
    wrong = (_bits(result) != _bits(expected)) & above[..., None]
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0][:-1].tolist())
        raise VerificationError(f"element {at}, above the diagonal", expected=str(expected[at]), got=str(result[at]))


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint8).reshape((*x.shape, x.itemsize))


def _check_argk(problem: Problem, operands: Operands, argk: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise unless each k is the smallest that attains its element."""
    if argk.shape != shape or argk.dtype != np.int32:
        raise VerificationError(
            "argk has another form", expected=f"{shape} of int32", got=f"{argk.shape}, {argk.dtype}"
        )
    for index in np.ndindex(problem.batch) if problem.pairs <= MOST_ARGK_TERMS else ():
        one = operands.at(index)
        right = reference.argk(problem.of_one(), one.a, one.b)
        if not np.array_equal(right, argk[index]):
            at = tuple(np.argwhere(right != argk[index])[0].tolist())
            raise VerificationError(
                f"argk of element {at} of product {index}", expected=str(right[at]), got=str(argk[index][at])
            )


def _check_closure(program: Program, matrix: np.ndarray, results: list[np.ndarray]) -> None:
    """Raise unless the closure is that of squares of the matrix, and predecessors lead back along best paths."""
    semiring, n, best = semiring_of(program.semiring), len(matrix), matrix.copy()
    one, zero = semiring.one(matrix.dtype), semiring.zero(matrix.dtype)
    add, multiply = reference.algebra(semiring, matrix.dtype)[:2]
    np.fill_diagonal(best, add(best.diagonal(), one))
    for _ in range(max(n - 1, 1).bit_length()):
        best = reference.product(Problem(n, n, n, semiring, matrix.dtype, accumulate=True), best, best, best)
    if not np.array_equal(best, results[0]):
        at = tuple(np.argwhere(best != results[0])[0].tolist())
        raise VerificationError(f"closure: element {at}", expected=str(best[at]), got=str(results[0][at]))
    for i, j in np.ndindex((n, n)) if len(results) > 1 else ():
        if i == j or best[i, j] == zero:
            continue
        at, value, steps = j, one, 0
        while at != i:
            previous = int(results[1][i, at])
            if not 0 <= previous < n or steps >= n:
                raise VerificationError(f"closure: predecessors of {j} do not lead to {i}", got=str(previous))
            value, at, steps = multiply(matrix[previous : previous + 1, at], value)[0], previous, steps + 1
        if value != best[i, j]:
            raise VerificationError(f"closure: the path from {i} to {j}", expected=str(best[i, j]), got=str(value))
