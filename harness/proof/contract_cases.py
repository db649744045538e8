"""The products that a backend must get right, as data: sizes around block edges, layouts, scalars, special values."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.dtypes import is_bool, is_complex, is_exact, is_integer
from harness.errors import PlanError
from harness.interface import Backend, make_plan
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.proof import fences, operand_changes
from harness.semiring import Semiring

SEED = 20260701

# The aspect whose cases are run again with other values in the operands.
LAYOUTS = "layouts"

# The aspect of kernels in dtypes of which a quick check looks at a few products alone.
SHORT = "in short"

# Semirings in which the zero annihilates every number of the dtype, so that A (x) I is A.
WITH_IDENTITY_MATRIX = frozenset(
    "plus_times min_plus max_plus max_min min_max lor_land lxor_land logaddexp_plus".split()
)

# Sizes of which every one is tried as m, as n and as k: those below this prime. A backend that computes on a device or
# on ranks takes a millisecond or more for each call, so one kernel of it takes every so many of them, others the rest.
ABOVE_ALL_SIZES, SHARES_OF_SLOW_CALLS = 71, 5

# Elements of the result, and k, of products of a matrix and a vector: around the vectors of 4 to 16 elements that loads
# take, warps, blocks of threads, and what a block has in flight.
MATRIX_VECTOR_SIZES = (
    (1, 4), (4, 1), (3, 17), (17, 3), (15, 16), (16, 15), (33, 129), (129, 33), (1025, 7), (7, 1023), (2, 1031)
)  # fmt: skip

# Of products of which is asked where elements come from: sizes of D, and layouts, the first two also with a long k.
ROWS_AND_COLUMNS = (1, 50), (50, 1), (7, 30)
ARGK_LAYOUTS = "CFC FCC CCC FFC AAC".split()

# Sizes for checks of memory: no multiple of a vector or of a tile.
ODD_SIZES = (
    (1, 1, 1), (3, 17, 33), (17, 3, 67), (67, 33, 129), (33, 129, 1), (129, 67, 17), (1, 129, 67), (129, 1, 33),
    (257, 129, 65), (3, 5, 1025),
)  # fmt: skip

# A size whose own plan shows the blocks that a large product gets, and the pairs that one case may take.
LARGE, MOST_PAIRS = 1024, 1 << 20


@dataclass(frozen=True)
class ContractCase:
    """One product to compute."""

    aspect: str  # "sizes", `LAYOUTS`
    what: str  # tells it from the other cases of its aspect
    problem: Problem
    change: operand_changes.OperandChange | None = None  # puts other values into generated operands, in place
    is_read_only: bool = False  # whether A, B and C may not be written
    parameters: Mapping[str, int | str] = field(default_factory=dict)  # of the plan, in place of the backend's own
    expected: Callable[[Operands], np.ndarray] | None = None  # returns the exact D, which the definition may only bound
    seeks_k: bool = False  # whether the backend is asked which k each element comes from
    side: fences.Side | None = None  # of every operand, on which lies memory that may not be touched

    def operands(self) -> Operands:
        """Return the operands, always the same."""
        operands = Operands.generate(self.problem, SEED)
        if self.change:
            self.change(operands, np.random.default_rng(SEED))
        if self.side:
            operands = fences.fenced_operands(operands, self.side)
        if self.is_read_only:
            for x in operands.inputs():
                x.flags.writeable = False
        return operands

    def fenced(self) -> Iterator[ContractCase]:
        """Yield the case with memory that may not be touched on each side of its operands."""
        for side in fences.SIDES:
            yield dataclasses.replace(self, what=f"{self.what}, nothing {side}", side=side)


def cases(backend: Backend, ordinary: Problem, machine: Machine) -> Iterator[ContractCase]:
    """Yield every case for one kernel of `backend`, aspect by aspect.

    Parameters
    ----------
    backend : Backend
    ordinary : Problem
        A plain product that the backend computes by that kernel. If its n is 1, or it has a triangle of A, so have the
        products of all aspects that are not about sizes or triangles.
    machine : Machine
    """
    semiring, dtype = ordinary.semiring, ordinary.dtype
    alike = functools.partial(_alike, ordinary)

    def problem(m: int, n: int, k: int, **options: Any) -> Problem:
        return dataclasses.replace(ordinary, m=m, n=n, k=k, **{"triangle": "", **options})

    yield from _size_cases(problem, ordinary, backend)
    plan = make_plan(backend, alike(LARGE, LARGE, LARGE), machine)
    for m, n, k in _edges(plan):
        if m * n * k <= MOST_PAIRS:
            yield ContractCase("block edges", f"{m}x{n}x{k}", problem(m, n, k))
    small, parameters = _small_blocks(backend, alike(5, 5, 5), machine)
    for m, n, k in _edges(small) if parameters else ():
        options = {"accumulate": (m + n + k) % 2 == 1}
        label = f"{m}x{n}x{k} in blocks of {', '.join(f'{x}={y}' for x, y in parameters.items())}"
        yield ContractCase("small blocks", label, problem(m, n, k, **options), parameters=parameters)
    yield from _layout_cases(alike)
    if not ordinary.triangle:
        yield from _matrix_vector_cases(problem, semiring, dtype)
    if "triangle" in backend.takes:
        yield from _triangle_cases(problem, plan)
    yield from _batch_cases(alike, dtype, backend)
    if "conjugate" in backend.takes and is_complex(dtype):
        for (m, n, k), layout, which in itertools.product(ODD_SIZES[:3], ("CCC", "FCC", "AAA"), ("a", "b", "ab")):
            case = alike(m, n, k, layout=layout, conjugate=which)
            yield ContractCase("conjugates", f"{which}, {layout} {case.m}x{case.n}x{case.k}", case)
    yield from _scalar_cases(alike, semiring, dtype)
    yield from _special_cases(alike, semiring, dtype)
    yield from _argk_cases(ordinary, backend)
    if semiring.name in WITH_IDENTITY_MATRIX and ordinary.n > 1 and not ordinary.triangle:
        yield from _identity_cases(problem, semiring, dtype)


def short_cases(ordinary: Problem) -> Iterator[ContractCase]:
    """Yield a few cases for the kernel of `ordinary`: an odd size, and values that show a narrower dtype on the way."""
    alike = functools.partial(_alike, ordinary)
    yield ContractCase(SHORT, "19x23x37", alike(19, 23, 37))
    yield ContractCase(SHORT, "19x23x37 added to C", alike(19, 23, 37, accumulate=True))
    for case in _special_cases(alike, ordinary.semiring, ordinary.dtype):
        yield dataclasses.replace(case, aspect=SHORT)


def compact_cases(ordinary: Problem, backend: Backend) -> Iterator[ContractCase]:
    """Yield cases for checks of memory, which are slow: odd sizes, layouts, batches, triangles, and which k."""
    alike = functools.partial(_alike, ordinary)
    for m, n, k in ODD_SIZES:
        yield ContractCase("sizes", f"{m}x{n}x{k}", alike(m, n, k))
    yield from _layout_cases(alike)
    if "triangle" in backend.takes:
        for (n, k), triangle in itertools.product(((3, 17), (33, 67), (129, 33)), "ad"):
            problem = dataclasses.replace(ordinary, m=n, n=n, k=n if triangle == "a" else k, triangle=triangle)
            yield ContractCase("triangles", f"{triangle.upper()}, {n}x{k}", problem)
    if "batch" in backend.takes and not ordinary.triangle:
        for (m, n, k), layout in itertools.product(ODD_SIZES[1:4], ("CCC", "FCC", "AAA")):
            case = alike(m, n, k, batch=(3,), layout=layout, accumulate=layout == "AAA")
            yield ContractCase("batches", f"{layout}, 3 of {m}x{n}x{k}", case)
    yield from itertools.islice(_argk_cases(ordinary, backend), 12)


def _alike(ordinary: Problem, m: int, n: int, k: int, **options: Any) -> Problem:
    """Return `ordinary` with these sizes, as far as its n of 1 or its triangle leaves them open."""
    n, k = 1 if ordinary.n == 1 else n, m if ordinary.triangle else k
    return dataclasses.replace(ordinary, m=m, n=n, k=k, **options)


def _size_cases(problem: Callable[..., Problem], ordinary: Problem, backend: Backend) -> Iterator[ContractCase]:
    for m, n, k in _sizes():
        yield ContractCase("sizes", f"{m}x{n}x{k}", problem(m, n, k))
        yield ContractCase("sizes", f"{m}x{n}x{k} added to C", problem(m, n, k, accumulate=True))
    if ordinary.n > 1 and not ordinary.triangle:
        for m, n, k in _every_size(backend, ordinary):
            yield ContractCase("every size", f"{m}x{n}x{k}", problem(m, n, k))


def _sizes() -> list[tuple[int, int, int]]:
    """Return sizes that matter to every kernel: nothing, one, primes, m != n != k, long and thin."""
    empty = [(0, 0, 0), (0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 5)]
    thin = [(1, 1, 1), (1, 17, 1), (17, 1, 1), (1, 1, 67), (1, 5, 33), (33, 1, 5)]
    return [*empty, *thin, (2, 3, 5), (13, 7, 29), (31, 37, 5), (16, 16, 16), (19, 64, 23), (61, 33, 41)]


def _every_size(backend: Backend, ordinary: Problem) -> Iterator[tuple[int, int, int]]:
    """Yield products in which m, n and k each take every size once: a tail that is wrong for a few sizes is met.

    Multiples of a number, modulo a prime, are all different.
    """
    has_slow_calls = backend.starts_processes or "device arrays" in backend.takes
    step = SHARES_OF_SLOW_CALLS if has_slow_calls else 1
    kernel = f"{ordinary.semiring.name} {ordinary.input_dtype.name} {ordinary.dtype.name}"
    for i in range(1 + sum(kernel.encode()) % step, ABOVE_ALL_SIZES, step):
        yield i, 26 * i % ABOVE_ALL_SIZES, 43 * i % ABOVE_ALL_SIZES


def _layout_cases(problem: Callable[..., Problem]) -> Iterator[ContractCase]:
    for layout in ("FCC", "CFC", "CCF", "FFF", "ACC", "CAC", "CCA", "AAA", "FAC", "AFA"):
        yield ContractCase(LAYOUTS, f"{layout} 13x11x7", problem(13, 11, 7, layout=layout, accumulate=layout[2] != "C"))
    for layout, names in (("ACC", "a"), ("CAC", "b"), ("CCA", "c out"), ("AAA", "a b c out")):
        case = problem(13, 11, 7, layout=layout, accumulate=layout[2] == "A")
        change = operand_changes.rows_backwards(*names.split())
        yield ContractCase(LAYOUTS, f"{layout} 13x11x7, rows backwards in memory", case, change)
    all_strided = problem(13, 11, 7, layout="AAA", accumulate=True)
    yield ContractCase(LAYOUTS, "AAA 13x11x7, upside down", all_strided, operand_changes.upside_down)
    yield ContractCase(LAYOUTS, "read-only, 7x13x11", problem(7, 13, 11, accumulate=True), is_read_only=True)
    yield ContractCase(LAYOUTS, "read-only, any strides", problem(7, 13, 11, layout="AAA"), is_read_only=True)


def _triangle_cases(problem: Callable[..., Problem], plan: Plan) -> Iterator[ContractCase]:
    """Yield products with a symmetric A, of vectors and of matrices, and products whose D is a triangle."""
    block = plan.options.get("block", 64)
    edges = _around(block) if isinstance(block, int) and block < LARGE // 2 else ()
    for size in (0, 1, 2, 7, 33, *edges):
        for n in (1, 5):
            for triangle in dict.fromkeys(problem(0, 0, 0, triangle=x).triangle for x in "ah"):
                case = problem(size, n, size, triangle=triangle)
                yield ContractCase("triangles", f"{triangle.upper()}, {size}x{n}", case)
        for k in (0, 1, 9):
            yield ContractCase("triangles", f"D, {size}x{k}", problem(size, size, k, triangle="d"))
    for layout in ("FCC", "ACA", "CFF", "AAA"):
        for triangle in "ad":
            added = problem(19, 19, 19, triangle=triangle, layout=layout, accumulate=True)
            yield ContractCase("triangles", f"{triangle.upper()}, {layout}, added to C", added)


def _batch_cases(problem: Callable[..., Problem], dtype: np.dtype[Any], backend: Backend) -> Iterator[ContractCase]:
    """Yield batches: empty, of one, of several dimensions, strided, broadcast, transposed, with C and factors."""
    if "batch" not in backend.takes or problem(1, 1, 1).triangle:
        return
    scaled: dict[str, Any] = {"alpha": is_bool(dtype) or 3, "beta": is_bool(dtype) or 2, "accumulate": True}
    for batch, options in (((0,), {}), ((1,), scaled), ((5,), {}), ((2, 3), {"accumulate": True}), ((37,), scaled)):
        yield ContractCase("batches", f"{batch} of 7x5x9", problem(7, 5, 9, batch=batch, **options))
    yield ContractCase("batches", "no terms", problem(3, 4, 0, batch=(3,), accumulate=True))
    yield ContractCase("batches", "empty products", problem(0, 4, 5, batch=(3,)))
    for layout in ("FCC", "CFF", "AAA"):
        case = problem(9, 6, 17, batch=(3, 2), layout=layout, accumulate=layout != "FCC")
        yield ContractCase("batches", f"{layout}, (3, 2) of 9x6x17", case)
    for options in ({}, scaled):
        for change in (operand_changes.broadcast_a, operand_changes.broadcast_both, operand_changes.spread_out):
            what = f"{change.__name__}, {'with' if options else 'without'} factors and C"
            yield ContractCase("batches", what, problem(33, 34, 35, batch=(3, 4), **options), change)


def _matrix_vector_cases(
    problem: Callable[..., Problem], semiring: Semiring, dtype: np.dtype[Any]
) -> Iterator[ContractCase]:
    """Yield products of a matrix and a vector on either side of it: sizes, layouts, scalars and special values."""
    scaled: dict[str, Any] = {"alpha": is_bool(dtype) or 3, "beta": is_bool(dtype) or 2, "accumulate": True}
    some_special = operand_changes.scatter(operand_changes.special_values(problem(1, 1, 1)), 0.1)

    def both_sides(count: int, k: int, **options: Any) -> Iterator[tuple[str, Problem]]:
        for m, n in ((count, 1), (1, count)):
            yield f"{m}x{n}x{k}", problem(m, n, k, **options)

    for i, (count, k) in enumerate(MATRIX_VECTOR_SIZES):
        for what, case in both_sides(count, k, **({}, {"accumulate": True}, scaled)[i % 3]):
            yield ContractCase("matrix and vector", f"{what}, alpha={case.alpha}, beta={case.beta}", case)
    for layout in ("FFC", "AAA"):
        for what, case in both_sides(65, 34, layout=layout, **scaled):
            yield ContractCase("matrix and vector", f"{layout} {what}", case)
    for what, case in both_sides(65, 34, layout="AAA", **scaled):
        yield ContractCase("matrix and vector", f"AAA {what}, upside down", case, operand_changes.upside_down)
    for what, case in both_sides(41, 70, accumulate=True):
        yield ContractCase("matrix and vector", f"some special values, {what}", case, some_special)
    for what, case in both_sides(9, 0, **scaled):
        yield ContractCase("matrix and vector", f"no terms, {what}", case)


def _argk_cases(ordinary: Problem, backend: Backend) -> Iterator[ContractCase]:
    """Yield products of which is asked where elements come from: rows, columns and matrices, of any layout, in batches.

    k is 1, a few single terms, and more than a byte can number.
    """
    kind = type(backend)
    says_k = kind.prepare_argk is not Backend.prepare_argk or kind.prepare_blocks is not Backend.prepare_blocks
    if not (says_k and ordinary.semiring.add.is_selective) or ordinary.triangle or ordinary.is_mixed:
        return
    batches: tuple[tuple[int, ...], ...] = ((), (5,), (2, 3)) if "batch" in backend.takes else ((),)
    for (m, n), batch, layout in itertools.product(ROWS_AND_COLUMNS, batches, ARGK_LAYOUTS):
        for k in (1, 20, 130) if layout in ARGK_LAYOUTS[:2] and len(batch) < 2 else (1, 20):
            for change in (operand_changes.few_values, operand_changes.few_values_backwards)[: 1 + (k == 20)]:
                what = f"{change.__name__}, {layout} {batch} of {m}x{n}x{k}"
                case = dataclasses.replace(ordinary, m=m, n=n, k=k, batch=batch, layout=layout)
                yield ContractCase("argk", what, case, change, seeks_k=True)


def _edges(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Yield sizes on both sides of every block size of `plan`."""
    options = plan.options
    blocks = {name: x for part in (plan.blocking, plan.launch) if part for name, x in dataclasses.asdict(part).items()}
    sizes = {name: value for name, value in {**options, **blocks}.items() if isinstance(value, int) and value > 0}
    mr, nr = sizes.get("mr", sizes.get("tm", 1)), sizes.get("nr", sizes.get("tn", 1))
    for name in ("mr", "tm", "mc", "bm"):
        for m in _around(sizes.get(name)):
            yield m, nr + 1, 3
    for name in ("nr", "tn", "nc", "bn"):
        for n in _around(sizes.get(name)):
            yield mr + 1, n, 4
    for name in ("kc", "bk"):
        for k in _around(sizes.get(name)):
            yield mr + 1, nr + 1, k
    for half in _around(sizes.get("crossover")):  # two levels and a third that a size has or just has not
        yield 4 * half, 4 * half + 3, 8 * half - 1
    mc, nc, kc = (sizes.get(x, sizes.get(y, 1)) for x, y in (("mc", "bm"), ("nc", "bn"), ("kc", "bk")))
    yield mc + 1, nc + 1, kc + 1
    yield 2 * mc - 1, 2 * nc + nr, 2 * kc + 1
    yield 2 * mc + mr, 2 * nc - 1, 2 * kc


def _around(block: int | None) -> tuple[int, ...]:
    return () if block is None else (block - 1, block, block + 1)


def _small_blocks(backend: Backend, problem: Problem, machine: Machine) -> tuple[Plan, dict[str, int | str]]:
    """Return a plan with the smallest sensible cache blocks, so that small products have many, and its parameters."""
    plan = make_plan(backend, problem, machine)
    parameters: dict[str, int | str] = {}
    if plan.blocking is not None:
        mr, nr = plan.blocking.mr, plan.blocking.nr  # said too: others may have longer rows
        parameters = {"mc": 2 * mr, "nc": 3 * nr, "kc": 3, "mr": mr, "nr": nr}
    if "crossover" in plan.options:  # of a recursion, which no small product reaches by itself
        parameters["crossover"] = 3
    try:
        return plan.override(parameters), parameters
    except PlanError:
        return plan, {}


def _scalar_cases(problem: Callable[..., Problem], semiring: Semiring, dtype: np.dtype[Any]) -> Iterator[ContractCase]:
    """Yield cases with alpha and beta: ordinary values, the zero, and those that mean the one."""
    zero, one = semiring.zero(dtype), semiring.one(dtype)
    factor: complex
    other: complex
    factor, other = (False, True) if is_bool(dtype) else (3, 2) if is_integer(dtype) else (0.75, -2.5)
    if is_complex(dtype):
        factor, other = 0.75 - 0.5j, -2.5 + 1j
    both = problem(9, 10, 11, alpha=factor, beta=other, accumulate=True)
    strided = dataclasses.replace(both, layout="AAA")
    problems = {
        f"alpha={factor}": problem(9, 10, 11, alpha=factor),
        "alpha is the zero": problem(9, 10, 11, alpha=zero),
        f"beta={other}": problem(9, 10, 11, beta=other, accumulate=True),
        f"alpha={factor}, beta={other}": both,
        f"alpha={factor}, beta={other}, any strides, read-only": strided,
        "beta is the zero: no C": problem(9, 10, 11, beta=zero, accumulate=True),
        f"beta={other} and k=0": problem(4, 5, 0, alpha=factor, beta=other, accumulate=True),
    }
    if one is not None:
        problems["alpha and beta are the one"] = problem(9, 10, 11, alpha=one, beta=one, accumulate=True)
    for label, scaled in problems.items():
        yield ContractCase("alpha and beta", label, scaled, is_read_only=scaled is strided)


def _special_cases(problem: Callable[..., Problem], semiring: Semiring, dtype: np.dtype[Any]) -> Iterator[ContractCase]:
    """Yield cases whose operands hold the values that break kernels."""
    zero, special = semiring.zero(dtype), operand_changes.special_values(problem(1, 1, 1))
    for label, values, share in (("all", special, 1.0), ("some", special, 0.1), ("the zero among others", [zero], 0.5)):
        name = "special values" if values is special else "values"
        options = {"accumulate": True}
        scatter = operand_changes.scatter(values, share)
        yield ContractCase("special values", f"{label} {name}", problem(23, 21, 9), scatter)
        yield ContractCase("special values", f"{label} {name}, added to C", problem(23, 21, 9, **options), scatter)
    yield ContractCase(
        "special values",
        "nothing but the zero",
        problem(5, 6, 7, accumulate=True),
        operand_changes.scatter([zero], 1.0),
    )
    if not is_exact(dtype):
        yield ContractCase(
            "special values", "nothing but NaN", problem(5, 6, 7), operand_changes.scatter([np.nan], 1.0)
        )
        yield ContractCase("special values", "NaN at one end of k", problem(5, 6, 7), operand_changes.nan_at_ends)
        yield ContractCase("special values", "negative numbers alone", problem(9, 10, 11), operand_changes.negate)


def _identity_cases(
    problem: Callable[..., Problem], semiring: Semiring, dtype: np.dtype[Any]
) -> Iterator[ContractCase]:
    same_a, same_b = (lambda o: o.a.astype(dtype)), (lambda o: o.b.astype(dtype))
    yield ContractCase(
        "identity", "A (x) I is A", problem(9, 11, 11), operand_changes.identity("b", semiring), expected=same_a
    )
    yield ContractCase(
        "identity", "I (x) B is B", problem(11, 9, 11), operand_changes.identity("a", semiring), expected=same_b
    )
