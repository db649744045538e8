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

from harness.dtypes import (
    factors_dtype,
    float_limits,
    is_bool,
    is_complex,
    is_exact,
    is_float,
    is_integer,
    mixed_dtypes,
    named_dtype,
)
from harness.operands import shares_with_itself
from harness.proof.programs.program import EINSUMS, OWN, PRODUCTS, SEQUENCES, VALUES, Program, View, semiring_of
from harness.proof.programs.room import Room
from harness.semiring import DTYPES, HALF, SEMIRINGS

T = TypeVar("T")
Form = tuple[tuple[int, ...], str]  # shape and dtype of an array

NAMED = (*SEMIRINGS, "max_absdiff", "plus_sqdiff", *OWN)
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")
# (x) and (+) of these are exact, so that three operands may be multiplied in any order.
IN_ANY_ORDER = ("max_min", "min_max", "lor_land", "lxor_land")
# Matrices over these are multiplied in any order, whatever their values are.
SCANNED = ("plus_times", "logaddexp_plus", "min_plus", "max_plus", *IN_ANY_ORDER)

STAY = 100  # programs of one combination after the other: their kernels are compiled
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300)
LONG = (257, 1000, 1025, 4097)
STEPS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 17, 33)
BATCHES = ((1,), (2,), (3,), (2, 3), (1, 4), (17,), (0,), (3, 1, 2))

# How often each call is drawn.
_CALLS = [*["gemm"] * 12, *["gemm_argk"] * 4, *["einsum"] * 4, "closure", *list(PRODUCTS)[2:], *SEQUENCES]


class Draw(Protocol):
    """The source of all choices."""

    def integers(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""


class Seeded(random.Random):
    """A source that begins with any seed."""

    def __init__(self, seed: object) -> None:
        super().__init__(str(seed))

    integers = random.Random.randint


class Combination(NamedTuple):
    """What kernels are compiled for: a semiring, the dtype of the sums, and that of the operands."""

    semiring: str
    dtype: str
    narrow: str

    @property
    def is_mixed(self) -> bool:
        """Whether the operands are narrower than the sums."""
        return self.dtype != self.narrow


class Limits(NamedTuple):
    """What programs a machine, and the time, allow."""

    on_device: bool = False
    backends: tuple[str, ...] = ()  # that are asked for by name
    share_named: int = 20  # of so many programs one names a backend
    calls: tuple[str, ...] = ()  # none: all
    without: tuple[str, ...] = ()  # dtypes
    most_pairs: int = 1 << 19
    most_size: int = SIZES[-1]


@functools.cache
def combinations() -> tuple[Combination, ...]:
    """Return every semiring with every dtype that makes sense in it, and the mixed products."""
    plain = ((name, dtype) for name in NAMED for dtype in DTYPES if semiring_of(name).unsupported(dtype) is None)
    mixed = (Combination("plus_times", wide.name, narrow.name) for narrow, wide in mixed_dtypes())
    return *(Combination(name, dtype.name, dtype.name) for name, dtype in plain), *mixed


def nth_program(seed: int, number: int, limits: Limits) -> Program:
    """Return program `number` of a seed. A combination, drawn in an order of the seed's, stays for `STAY` programs."""
    order = [
        x for x in combinations() if x.narrow not in limits.without and not (limits.on_device and x.semiring in OWN)
    ]
    Seeded(seed).shuffle(order)
    return draw_program(Seeded(f"{seed}.{number}"), order[number // STAY % len(order)], limits)


def draw_program(draw: Draw, kind: Combination, limits: Limits) -> Program:
    """Return a program of one combination."""
    semiring = semiring_of(kind.semiring)
    has_one = semiring.one(np.dtype(kind.dtype)) is not None
    makes_sense = {
        "gemm_argk": semiring.add.is_selective and not kind.is_mixed,
        "closure": kind.semiring in CLOSED and not kind.is_mixed,
        "axpy": has_one and not kind.is_mixed,
        **{name: _is_sequence(name, kind) for name in SEQUENCES},
    }
    call = draw.choice([x for x in _CALLS if makes_sense.get(x, True) and (not limits.calls or x in limits.calls)])
    if call == "einsum":
        return _einsum(draw, kind, limits, has_one=has_one)
    if call in SEQUENCES:
        return _sequence(draw, call, kind._replace(semiring=SEQUENCES[call] or kind.semiring), limits)
    return _closure(draw, kind, limits) if call == "closure" else _product(draw, call, kind, limits)


def _product(draw: Draw, call: str, kind: Combination, limits: Limits) -> Program:
    """Return a program of `gemm`, of `gemm_argk`, or of a call of the matrix-vector family."""
    letters, added, of_result = PRODUCTS[call]
    m, n, k = _sizes(draw, limits)
    triangle = draw.choice(("", "", "", "a", "d", "h")) if call == "gemm" else ""
    is_square = call in ("symv", "hemv", "syr", "syrk")
    if triangle or is_square:
        m = min(m, limits.most_size)
    sizes = {"m": m, "n": m if triangle == "d" or is_square else n, "k": m if triangle in ("a", "h") else k}
    batch = draw.choice(BATCHES) if draw.integers(0, 2) == 0 else ()
    while batch and np.prod(batch) * np.prod(list(sizes.values())) > limits.most_pairs:
        batch = batch[1:]
    has_c = bool(added) and draw.integers(0, 1) == 1
    forms = {
        name: (_leading(draw, batch) + tuple(sizes[x] for x in letters[name]), kind.narrow)
        for name in letters
        if has_c or name != added
    }
    if has_c:
        forms[added] = forms[added][0], kind.dtype
    if len(forms) > 1 and not kind.is_mixed and draw.integers(0, 15) == 0:
        _promote(draw, forms, np.dtype(kind.dtype))
    _pair(draw, forms, kind, limits)
    batch = np.broadcast_shapes(*(shape[: len(shape) - len(letters[name])] for name, (shape, _) in forms.items()))
    shape = batch + tuple(sizes[x] for x in of_result)
    outs = [(shape, kind.dtype), *([(shape, "int32")] if call == "gemm_argk" else ())]
    options: dict[str, Any] = {} if call == "gemm_argk" else _scalars(draw, kind, has_c=has_c)
    if triangle:
        options["triangle"] = triangle
    if call not in ("gemm_argk", "axpy") and is_complex(np.dtype(kind.dtype)):
        options["conjugate"] = draw.choice(("", "", "a", "b", "ab"))
    if limits.backends and draw.integers(1, limits.share_named) == 1:
        options["backend"] = draw.choice(limits.backends)
    return _laid_out(draw, call, kind, limits, options, forms, outs)


def _einsum(draw: Draw, kind: Combination, limits: Limits, *, has_one: bool) -> Program:
    sums_integers = kind.semiring == "plus_times" and is_integer(np.dtype(kind.dtype)) and not kind.is_mixed
    in_any_order = kind.semiring in IN_ANY_ORDER or sums_integers
    # the oracle multiplies a single operand by the one
    known = [x for x in EINSUMS if (x.count(",") < 2 or in_any_order) and ("," in x or has_one)]
    text = draw.choice(known)
    terms, result = text.replace("...", "yz").split("->")[0].split(","), text.replace("...", "yz").split("->")[1]
    names = sorted(set("".join(terms)))
    sizes = {x: draw.choice((1, 2, 3, 5, 8, 17, 33) if len(names) < 5 else (1, 2, 3, 4)) for x in names}
    if draw.integers(0, 19) == 0:
        sizes[draw.choice(names)] = 0
    # an axis of one operand of several that have it may have the size 1, and is repeated; not one that is summed, which
    # the others then sum alone, and a NaN of terms between infinities is lost (docs/einsum.md)
    common = [x for x in result if sum(x in term for term in terms) > 1 and all(term.count(x) < 2 for term in terms)]
    single = draw.choice(common) if common and draw.integers(0, 5) == 0 else ""
    where = draw.choice([i for i, term in enumerate(terms) if single in term])
    forms = {
        f"operands[{i}]": (tuple(1 if x == single and i == where else sizes[x] for x in term), kind.narrow)
        for i, term in enumerate(terms)
    }
    _pair(draw, forms, kind, limits)
    options: dict[str, Any] = {"subscripts": text}
    if len(terms) > 2 and draw.integers(0, 1):
        options["path"] = draw.choice(([[0, 1], [0, 1]], [[1, 2], [0, 1]], [[0, 2], [0, 1]]))
    return _laid_out(draw, "einsum", kind, limits, options, forms, [(tuple(sizes[x] for x in result), kind.dtype)])


def _closure(draw: Draw, kind: Combination, limits: Limits) -> Program:
    n = draw.choice((0, 1, 2, 3, 5, 8, 17, 33, 65, 65, 97, 129, 150))
    options: dict[str, Any] = {"method": draw.choice(("blocked", "squaring"))}
    if draw.integers(0, 1):
        options["block"] = draw.choice((1, 2, 4, 16, 40))
    if draw.integers(0, 1) and kind.dtype != HALF.name:  # whose k the CPU does not say
        options["return_predecessors"] = True
    if n and draw.integers(0, 3) == 0:
        options["sources"] = [draw.integers(0, n - 1) for _ in range(draw.choice((0, 1, 2, 5)))]
    batch = draw.choice(BATCHES) if n < 34 and draw.integers(0, 2) == 0 else ()
    if is_bool(np.dtype(kind.dtype)) and draw.integers(0, 3) == 0:
        options["packed"] = True
        packed = {"matrix": ((*batch, n, -(-n // 8)), "uint8")}
        return dataclasses.replace(_laid_out(draw, "closure", kind, limits, options, packed, []), values="bits")
    program = _laid_out(draw, "closure", kind, limits, options, {"matrix": ((*batch, n, n), kind.dtype)}, [])
    view = program.operands["matrix"]
    if draw.integers(0, 3) or shares_with_itself(view.shape, view.strides, view.numpy_dtype.itemsize):
        return dataclasses.replace(program, values="graph")
    return dataclasses.replace(program, values="undirected", options={**program.options, "directed": False})


def _is_sequence(call: str, kind: Combination) -> bool:
    """Return whether there is such a call of sequences; models are of any combination that has their dtype."""
    dtype = np.dtype(kind.dtype)
    if kind.is_mixed or is_complex(dtype):
        return False
    if call in ("scan", "chain"):
        return kind.semiring in SCANNED
    return is_float(dtype) or (call == "viterbi" and dtype.kind == "i")


def _sequence(draw: Draw, call: str, kind: Combination, limits: Limits) -> Program:
    states, steps = draw.choice([x for x in SIZES if 0 < x <= limits.most_size]), draw.choice(STEPS)
    if draw.integers(0, 11) == 0:
        states, steps = min(states, 9), draw.choice(LONG[:2])
    batch = draw.choice(BATCHES) if draw.integers(0, 1) else ()
    is_scan, options = call in ("scan", "chain"), dict[str, Any]()
    batch = batch if is_scan else batch[:1]
    while int(np.prod([*batch, 1])) * steps * states ** (3 if is_scan else 2) > limits.most_pairs:
        batch, steps, states = batch[1:], min(steps, 33), min(max(states // 2, 1), 65)
    if is_scan:
        forms = {"a": ((*_leading(draw, batch), steps, states, states), kind.narrow)}
        if call == "scan" and draw.integers(0, 1):
            forms["initial"] = (*_leading(draw, batch), states), kind.narrow
        if call == "scan" and draw.integers(0, 1):
            options["reverse"] = True
    else:
        each = max(steps - 1, 0), states, states
        ones = tuple(1 if draw.integers(0, 2) == 0 else x for x in (*batch, each[0]))
        matrices = draw.choice((each[1:], each[1:], each, (*ones, *each[1:])))
        vectors = draw.choice(((states,), (*_leading(draw, batch), states)))
        shapes = {"initial": vectors, "transition": matrices, "emission": (*batch, steps, states)}
        forms = {name: (shape, kind.narrow) for name, shape in shapes.items()}
        if draw.integers(0, 1):
            options["lengths"] = [draw.integers(0, steps) for _ in range(batch[0] if batch else 1)]
    if len(forms) > 1 and draw.integers(0, 15) == 0:
        _promote(draw, forms, np.dtype(kind.dtype))
    if limits.backends and draw.integers(1, limits.share_named) == 1:
        options["backend"] = draw.choice(limits.backends)
    values = ("few", "sparse", *(["normal", "sparse"] if not is_exact(np.dtype(kind.dtype)) else []))
    return dataclasses.replace(_laid_out(draw, call, kind, limits, options, forms, []), values=draw.choice(values))


def _sizes(draw: Draw, limits: Limits) -> tuple[int, int, int]:
    """Return m, n and k: any three, or one that is long."""
    sizes = [draw.choice([x for x in SIZES if x <= limits.most_size]) for _ in "mnk"]
    if draw.integers(0, 11) == 0 and limits.most_size >= SIZES[-1]:
        sizes = [min(x, 9) for x in sizes]
        sizes[draw.integers(0, 2)] = draw.choice(LONG)
    while np.prod(sizes) > limits.most_pairs:
        sizes[sizes.index(max(sizes))] = draw.choice((1, 2, 5, 8, 17))
    m, n, k = sizes
    return m, n, k


def _leading(draw: Draw, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return leading dimensions of an operand that broadcast to `batch`."""
    kept = batch[draw.integers(0, len(batch)) :] if batch and draw.integers(0, 3) == 0 else batch
    return tuple(1 if draw.integers(0, 5) == 0 else size for size in kept)


def _promote(draw: Draw, forms: dict[str, Form], dtype: np.dtype[Any]) -> None:
    """Have one operand of several have a dtype that NumPy promotes to that of the product."""
    lower = [x.name for x in DTYPES if x != dtype and not is_bool(x) and np.result_type(x, dtype) == dtype]
    if lower:
        name = draw.choice(list(forms))
        forms[name] = forms[name][0], draw.choice(lower)


def _pair(draw: Draw, forms: dict[str, Form], kind: Combination, limits: Limits) -> None:
    """Have one of two factors of a mixed product have another format, that is summed alike."""
    names = [name for name, (_, dtype) in forms.items() if dtype == kind.narrow]
    able = _beside(kind.narrow) if kind.is_mixed and len(names) > 1 else ()
    others = [x for x in able if x not in limits.without]
    if others and draw.integers(0, 2) == 0:
        name = draw.choice(names)
        forms[name] = forms[name][0], draw.choice(others)


@functools.cache
def _beside(narrow: str) -> tuple[str, ...]:
    """Return the other dtypes of factors beside `narrow`."""
    others = [x for x, _ in mixed_dtypes() if x.name != narrow]
    return tuple(x.name for x in others if factors_dtype(x, named_dtype(narrow)) is not None)


def _scalars(draw: Draw, kind: Combination, *, has_c: bool) -> dict[str, Any]:
    """Return alpha and beta, or neither."""
    if kind.semiring in ("own_plus_minus", "plus_sqdiff"):
        return {}  # alpha (x) a cancels, and its rounding is not covered by the bound of the term with b
    names = ("alpha", "beta")[: 1 + has_c]
    options = {x: draw.choice(_values_of_scalars(kind)) for x in names if draw.integers(0, 2) == 0}
    if draw.integers(0, 99) == 0 and not is_exact(np.dtype(kind.dtype)):
        options["alpha"] = float("nan")
    return options


@functools.cache
def _values_of_scalars(kind: Combination) -> tuple[Any, ...]:
    semiring, dtype = semiring_of(kind.semiring), np.dtype(kind.dtype)
    if is_bool(dtype):
        return True, False
    identities = [x.item() for x in (semiring.zero(dtype), semiring.one(dtype)) if x is not None]
    if is_complex(dtype):
        return *identities, 2.0, -2.5 + 0.75j, 1j, 0.0, complex(float("inf"), 1.0)
    if not is_exact(dtype):
        return (*identities, 2.0, -2.5, 0.75, 3, 0.0, float("inf"), float("-inf"), float(float_limits(dtype).tiny))
    return *identities, 2, 3, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)


def _laid_out(
    draw: Draw,
    call: str,
    kind: Combination,
    limits: Limits,
    options: dict[str, Any],
    forms: dict[str, Form],
    outs: list[Form],
) -> Program:
    """Return the program with its arrays laid out, and their values chosen."""
    if kind.is_mixed:
        options["dtype"] = kind.dtype
    threads = draw.choice((None, None, None, 1, 2))
    if threads:
        options["threads"] = threads
    is_scaled_last = "alpha" in options and any(dtype == "bfloat16" for _, dtype in forms.values())
    # alpha times A may overflow where the definition, in a wider dtype, does not
    is_scaled_last |= not is_exact(np.dtype(kind.dtype)) and 1 < abs(options.get("alpha", 1)) < np.inf
    # arrays that share memory hold each other's bits, which may be any number
    room = Room(draw, limits, is_shared=draw.integers(0, 5) == 0 and not is_scaled_last)
    views: dict[str, View] = {name: room.lay(*form) for name, form in forms.items()}
    out: tuple[View, ...] = ()
    where = draw.choice(("new", "new", "own", "own", "same", "overlap")) if outs else "new"
    added = views.get(PRODUCTS[call][1]) if call in PRODUCTS else None
    if where == "same" and added and [(added.shape, added.dtype)] == outs:
        out = (dataclasses.replace(added, is_writable=True),)
    elif where != "new":
        beside = draw.choice(list(views.values())).buffer if where == "overlap" else None
        out = tuple(room.lay(*form, beside=beside, is_out=True) for form in outs)
    values = draw.choice(VALUES)
    if (is_scaled_last or "s" in options.get("subscripts", "")) and values in ("wide", "specials"):
        values = "normal"  # sums that are scaled, or sums of one operand, may overflow where the definition does not
    seed = draw.integers(0, (1 << 31) - 1)
    return Program(call, kind.semiring, views, out, tuple(room.sizes), options, values, seed)
