"""Draw random programs from one source of numbers: a seed, or Hypothesis.

Sizes, layouts, scalars and values are free. What is compiled for a program, its semiring and dtypes, is a `Combination`
that the caller draws once for many programs.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from harness.operands import float_limits, span
from harness.problem import mixed_dtypes
from harness.proof.programs import OWN, VALUES, Program, View, semiring_of
from harness.semiring import DTYPES, HALF, SEMIRINGS

T = TypeVar("T")

NAMED = (*SEMIRINGS, "max_absdiff", "plus_sqdiff", *OWN)
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")
# (x) and (+) of these are exact, so that three operands may be multiplied in any order.
IN_ANY_ORDER = ("max_min", "min_max", "lor_land", "lxor_land")

STAY = 100  # programs of one combination after the other: their kernels are compiled

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300)
LONG = (257, 1000, 1025, 4097)
BATCHES = ((1,), (2,), (3,), (2, 3), (1, 4), (17,), (0,), (3, 1, 2))

# Public text, letters of each operand and of the result as the oracle reads them: "..." is written out as "yz".
SUBSCRIPTS = (
    ("ik,kj->ij", "ik,kj->ij"), ("bik,bkj->bij", "bik,bkj->bij"), ("bik,kj->bij", "bik,kj->bij"),
    ("ki,jk->ji", "ki,jk->ji"), ("ij,ij->ij", "ij,ij->ij"), ("ij,ij->", "ij,ij->"), ("i,j->ij", "i,j->ij"),
    ("ikl,klj->ij", "ikl,klj->ij"), ("ikl,lkj->ij", "ikl,lkj->ij"), ("iik,kj->ij", "iik,kj->ij"),
    ("...ik,...kj->...ij", "yzik,yzkj->yzij"), ("bik,bkj->ijb", "bik,bkj->ijb"), ("isk,kj->ij", "isk,kj->ij"),
    ("ij->j", "ij->j"), ("ij->", "ij->"), ("ij->ji", "ij->ji"), ("ii->i", "ii->i"), ("bij->bj", "bij->bj"),
    ("ij,jk,kl->il", "ij,jk,kl->il"), ("bi,bj,bk->ijk", "bi,bj,bk->ijk"),
)  # fmt: skip


class Draw(Protocol):
    """The source of all choices."""

    def integers(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""


class Seeded:
    """A source that a seed begins."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))  # noqa: S311 no secret

    def integers(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return self._random.choice(options)


class Combination(NamedTuple):
    """What kernels are compiled for: a semiring, the dtype of the sums, and that of the operands."""

    semiring: str
    dtype: str
    narrow: str


class Limits(NamedTuple):
    """What programs a machine, and the time, allow."""

    on_device: bool = False
    backends: tuple[str, ...] = ()  # that are asked for by name
    share_named: int = 20  # of so many programs one names a backend
    entries: tuple[str, ...] = ()  # none: all
    without: tuple[str, ...] = ()  # dtypes
    most_pairs: int = 1 << 19
    most_size: int = 300


@functools.cache
def combinations() -> tuple[Combination, ...]:
    """Return every semiring with every dtype that makes sense in it, and the mixed products."""
    return (
        *(
            Combination(name, dtype.name, dtype.name)
            for name in NAMED
            for dtype in DTYPES
            if semiring_of(name).unsupported(dtype) is None
        ),
        *(Combination("plus_times", wide.name, narrow.name) for narrow, wide in mixed_dtypes()),
    )


def nth_program(seed: int, number: int, limits: Limits) -> Program:
    """Return program `number` of a seed. A combination, drawn in an order of the seed's, stays for `STAY` programs."""
    order = [kind for kind in combinations() if kind.narrow not in limits.without]
    random.Random(seed).shuffle(order)  # noqa: S311 no secret
    return draw_program(Seeded(f"{seed}.{number}"), order[number // STAY % len(order)], limits)


# How often each call is drawn, in parts of the sum; (semiring, dtype) decide which of them there are.
_WEIGHTS = {"gemm": 12, "gemm_argk": 4, "einsum": 4, "closure": 1}
_WEIGHTS |= dict.fromkeys(("gemv", "symv", "ger", "syr", "syrk", "axpy"), 1)


def draw_program(draw: Draw, kind: Combination, limits: Limits) -> Program:
    """Return a program of one combination."""
    semiring, is_mixed = semiring_of(kind.semiring), kind.dtype != kind.narrow
    entries = {name: weight for name, weight in _WEIGHTS.items() if not limits.entries or name in limits.entries}
    if not semiring.add.is_selective or is_mixed:
        entries.pop("gemm_argk", None)
    if kind.semiring not in CLOSED or is_mixed or kind.dtype == HALF.name:
        entries.pop("closure", None)
    if is_mixed or semiring.one(np.dtype(kind.dtype)) is None:
        entries.pop("axpy", None)
    entry = draw.choice([name for name, weight in entries.items() for _ in range(weight)])
    if entry == "einsum":
        return _einsum(draw, kind, limits)
    if entry == "closure":
        return _closure(draw, kind, limits)
    return _product(draw, entry, kind, limits)


def _product(draw: Draw, entry: str, kind: Combination, limits: Limits) -> Program:
    """Return a program of `gemm`, of `gemm_argk`, or of a call of the matrix-vector family."""
    m, n, k = _sizes(draw, limits)
    batch = draw.choice(BATCHES) if draw.integers(0, 2) == 0 else ()
    while batch and np.prod(batch) * m * n * k > limits.most_pairs:
        batch, m = batch[1:], min(m, 9)
    triangle = draw.choice(("", "", "", "a", "d")) if entry == "gemm" else ""
    if triangle or entry in ("symv", "syr", "syrk"):
        m = min(m, limits.most_size)
    m, n, k = (m, n, m) if triangle == "a" else (m, m, k) if triangle == "d" else (m, n, k)
    shapes: dict[str, tuple[int, ...]] = {
        "gemm": {"a": (m, k), "b": (k, n), "c": (m, n)},
        "gemm_argk": {"a": (m, k), "b": (k, n)},
        "gemv": {"a": (m, k), "x": (k,), "y": (m,)},
        "symv": {"a": (m, m), "x": (m,), "y": (m,)},
        "ger": {"x": (m,), "y": (n,), "c": (m, n)},
        "syr": {"x": (m,), "c": (m, m)},
        "syrk": {"a": (m, k), "c": (m, m)},
        "axpy": {"x": (m,), "y": (m,)},
    }[entry]
    result = {"gemm": (m, n), "gemm_argk": (m, n), "ger": (m, n)}.get(entry) or (
        (m, m) if entry in ("syr", "syrk") else (m,)
    )
    added = {"gemm": "c", "gemv": "y", "symv": "y", "ger": "c", "syr": "c", "syrk": "c"}.get(entry, "")
    if added and draw.integers(0, 1):
        del shapes[added]
    dtypes = {name: kind.dtype if name == added else kind.narrow for name in shapes}
    if kind.dtype == kind.narrow:
        _promote(draw, dtypes, kind)
    shapes = {name: _with_batch(draw, batch, shape) for name, shape in shapes.items()}
    batches = (x[: len(x) - (1 if name in "xy" else 2)] for name, x in shapes.items())
    batch = np.broadcast_shapes(*batches)
    outs = [((*batch, *result), kind.dtype)]
    if entry == "gemm_argk":
        outs.append(((*batch, *result), "int32"))
    options = _scalars(draw, kind, has_c=added in shapes, is_plain=entry == "gemm_argk")
    if triangle:
        options["triangle"] = triangle
    if kind.dtype != kind.narrow:
        options["dtype"] = kind.dtype
    if limits.backends and draw.integers(1, limits.share_named) == 1:
        options["backend"] = draw.choice(limits.backends)
    return _finish(draw, entry, kind, limits, options, {name: (shapes[name], dtypes[name]) for name in shapes}, outs)


def _einsum(draw: Draw, kind: Combination, limits: Limits) -> Program:
    is_integer = np.dtype(kind.dtype).kind in "iu"
    is_exact = kind.semiring in IN_ANY_ORDER or (kind.semiring == "plus_times" and is_integer)
    if kind.dtype != kind.narrow:
        is_exact = False
    known = [x for x in SUBSCRIPTS if x[0].count(",") < 2 or is_exact]
    if semiring_of(kind.semiring).one(np.dtype(kind.dtype)) is None:
        known = [x for x in known if "," in x[0]]  # the oracle multiplies a single operand by the one
    text, letters = draw.choice(known)
    terms, result = letters.split("->")[0].split(","), letters.split("->")[1]
    names = sorted(set("".join(terms)))
    sizes = {x: draw.choice((1, 2, 3, 5, 8, 17, 33) if len(names) < 5 else (1, 2, 3, 4)) for x in names}
    if draw.integers(0, 19) == 0:
        sizes[draw.choice(names)] = 0
    operands = {}
    for i, term in enumerate(terms):
        shape = [sizes[x] for x in term]
        axis = draw.integers(0, max(len(term) - 1, 0))
        shared = [x for x in term if term.count(x) == 1 and sum(x in other for other in terms) > 1]
        if shared and draw.integers(0, 9) == 0 and term[axis] in shared:
            shape[axis] = 1  # repeated where its index is longer
        operands[f"operands[{i}]"] = (tuple(shape), kind.narrow)
    whole: dict[str, int] = {}
    for term, (shape, _) in zip(terms, operands.values(), strict=True):
        for letter, size in zip(term, shape, strict=True):
            whole[letter] = size if whole.get(letter, 1) == 1 else whole[letter]
    options: dict[str, Any] = {"subscripts": text, "letters": letters}
    if kind.dtype != kind.narrow:
        options["dtype"] = kind.dtype
    if len(terms) == 3 and draw.integers(0, 1):
        options["path"] = draw.choice(([[0, 1], [0, 1]], [[1, 2], [0, 1]], [[0, 2], [0, 1]]))
    return _finish(draw, "einsum", kind, limits, options, operands, [(tuple(whole[x] for x in result), kind.dtype)])


def _closure(draw: Draw, kind: Combination, limits: Limits) -> Program:
    n = draw.choice((0, 1, 2, 3, 5, 8, 17, 33, 65))
    options: dict[str, Any] = {"method": draw.choice(("blocked", "squaring"))}
    if draw.integers(0, 1):
        options["block"] = draw.choice((1, 2, 4, 16))
    if draw.integers(0, 1):
        options["return_predecessors"] = True
    program = _finish(draw, "closure", kind, limits, options, {"matrix": ((n, n), kind.dtype)}, [])
    return dataclasses.replace(program, values="nonnegative")


def _sizes(draw: Draw, limits: Limits) -> tuple[int, int, int]:
    """Return m, n and k: any three, or one that is long."""
    sizes = [draw.choice([x for x in SIZES if x <= limits.most_size]) for _ in range(3)]
    if draw.integers(0, 11) == 0 and limits.most_size >= SIZES[-1]:
        sizes = [min(x, 9) for x in sizes]
        sizes[draw.integers(0, 2)] = draw.choice(LONG)
    while np.prod(sizes) > limits.most_pairs:
        sizes[sizes.index(max(sizes))] = draw.choice((1, 2, 5, 8, 17))
    m, n, k = sizes
    return m, n, k


def _with_batch(draw: Draw, batch: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an operand whose leading dimensions broadcast to `batch`."""
    kept = batch[draw.integers(0, len(batch)) :] if batch and draw.integers(0, 3) == 0 else batch
    return (*(1 if draw.integers(0, 5) == 0 else size for size in kept), *shape)


def _promote(draw: Draw, dtypes: dict[str, str], kind: Combination) -> None:
    """Have, now and then, one operand of several have a dtype that NumPy promotes to that of the product."""
    if len(dtypes) < 2 or draw.integers(0, 15):
        return
    dtype = np.dtype(kind.dtype)
    lower = [x.name for x in DTYPES if x != dtype and x.kind != "b" and np.result_type(x, dtype) == dtype]
    if lower:
        dtypes[draw.choice(list(dtypes))] = draw.choice(lower)


def _scalars(draw: Draw, kind: Combination, *, has_c: bool, is_plain: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    dtype = np.dtype(kind.dtype)
    if not is_plain and draw.integers(0, 2) == 0 and kind.semiring != "own_plus_minus":
        options["alpha"] = draw.choice(_scalar_values(kind.semiring, dtype))
    if has_c and draw.integers(0, 2) == 0 and kind.semiring != "own_plus_minus":
        options["beta"] = draw.choice(_scalar_values(kind.semiring, dtype))
    if draw.integers(0, 99) == 0 and dtype.kind == "f":
        options["alpha" if not is_plain else "threads"] = float("nan") if not is_plain else 1
    return options


@functools.cache
def _scalar_values(name: str, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    semiring = semiring_of(name)
    if dtype.kind == "b":
        return True, False
    identities = [x.item() for x in (semiring.zero(dtype), semiring.one(dtype)) if x is not None]
    if dtype.kind == "f":
        return (*identities, 2.0, -2.5, 0.75, 3, 0.0, float("inf"), float("-inf"), float(float_limits(dtype).tiny))
    info = np.iinfo(dtype)
    return *identities, 2, 3, int(info.max), int(info.min)


def _finish(
    draw: Draw,
    entry: str,
    kind: Combination,
    limits: Limits,
    options: dict[str, Any],
    operands: dict[str, tuple[tuple[int, ...], str]],
    outs: list[tuple[tuple[int, ...], str]],
) -> Program:
    """Return the program with its arrays laid out."""
    threads = draw.choice((None, None, None, 1, 2))
    if threads:
        options["threads"] = threads
    room = _Room(draw, limits, is_shared=draw.integers(0, 5) == 0)
    views = {name: room.lay(*form) for name, form in operands.items()}
    out: tuple[View, ...] = ()
    where = draw.choice(("new", "new", "own", "own", "same", "overlap")) if outs else "new"
    if where != "new":
        same = views.get("c") or views.get("y")
        if where == "same" and same and entry != "axpy" and (same.shape, same.dtype) == outs[0] and len(outs) == 1:
            out = (dataclasses.replace(same, is_writable=True),)
        else:
            beside = draw.choice(list(views.values())).buffer if where == "overlap" else None
            out = tuple(room.lay(*form, beside=beside, is_out=True) for form in outs)
    values = draw.choice(VALUES)
    is_summed_first, is_scaled_last = "s" in options.get("letters", ""), kind.narrow == "bfloat16" and "alpha" in options
    if (is_summed_first or is_scaled_last) and values in ("wide", "specials"):
        values = "normal"  # these may overflow where the definition does not
    return Program(
        entry, kind.semiring, views, out, tuple(room.sizes), options, values, draw.integers(0, (1 << 31) - 1)
    )


class _Room:
    """Buffers, and how arrays lie in them: any order of axes, gaps, steps down, steps of zero, any alignment."""

    def __init__(self, draw: Draw, limits: Limits, *, is_shared: bool) -> None:
        self._draw, self._limits, self._is_shared = draw, limits, is_shared
        self.sizes: list[int] = []

    def lay(self, shape: tuple[int, ...], dtype: str, *, beside: int | None = None, is_out: bool = False) -> View:
        """Return an array of a buffer of its own, of the one that all share, or of the one it shall lie beside."""
        draw = self._draw
        view = View(0, dtype, shape, (), 0)
        itemsize = view.numpy_dtype.itemsize
        strides = self._strides(shape, itemsize, is_out=is_out)
        low, end = span(shape, strides, itemsize) if 0 not in shape else (0, 0)
        before = draw.choice((0, 0, 0, itemsize, 3 * itemsize, 64))
        if not self._limits.on_device and draw.integers(0, 39) == 0:
            before += 1  # no multiple of an element: only NumPy has such arrays
        after = draw.choice((0, 0, itemsize, 64))
        buffer = 0 if self._is_shared and self.sizes else beside
        if buffer is None:
            buffer = len(self.sizes)
            self.sizes.append(before - low + end + after)
        else:  # anywhere in it
            step = 16 if draw.integers(0, 1) else itemsize
            before += step * draw.integers(0, max(self.sizes[buffer] - (end - low), 0) // step)
            self.sizes[buffer] = max(self.sizes[buffer], before - low + end)
        is_writable = self._limits.on_device or draw.integers(0, 39 if is_out else 5) > 0
        return dataclasses.replace(view, buffer=buffer, strides=strides, offset=before - low, is_writable=is_writable)

    def _strides(self, shape: tuple[int, ...], itemsize: int, *, is_out: bool) -> tuple[int, ...]:
        draw, axes = self._draw, list(range(len(shape)))
        order = draw.choice(("C", "C", "F", "F", "any"))
        if order == "F" and len(axes) > 1:
            axes[-2:] = axes[-1], axes[-2]
        elif order == "any":
            axes.sort(key=lambda axis: draw.integers(0, 99))
        is_plain = draw.integers(0, 2) > 0
        strides, extent = [0] * len(shape), itemsize
        for axis in reversed(axes):
            step, gap = (1, 0) if is_plain else (draw.choice((1, 1, 1, 2, 3)), draw.choice((0, 0, 1, 3, 16)))
            strides[axis] = extent * step
            extent = max(extent * step * max(shape[axis], 1), itemsize) + gap * itemsize
            if not is_plain and draw.integers(0, 4) == 0:
                strides[axis] = -strides[axis]
        if shape and draw.integers(0, 299 if is_out else 19) == 0:
            strides[draw.choice(axes)] = 0
        return tuple(strides)
