"""A short list of calls of everything public that computes: odd sizes, layouts, dtypes, in place, in batches.

It is for checks of memory, which are slow, and no proof of results. A call is data: the name of a function, and arrays
of NumPy as its operands, which the caller puts where it wants them. Each is to be made several times: a product of
which the arguments were seen before takes another way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.dtypes import is_bool

REPEATS = 3  # calls of each

SIZES = (
    (1, 1, 1),
    (3, 17, 33),
    (17, 3, 67),
    (33, 129, 1),
    (67, 33, 129),
    (129, 67, 17),
    (1, 129, 67),
    (129, 1, 33),
    (7, 17, 512),
)
KERNELS = ("plus_times", "float32"), ("min_plus", "float64"), ("max_min", "int16"), ("lor_land", "bool")
MIXED = ("float16", "float32"), ("int8", "int32")
SELECTING = ("min_plus", "float32"), ("max_min", "int16"), ("max_plus", "float64")


@dataclass(frozen=True)
class Call:
    """One call of a public function.

    Parameters
    ----------
    function : str
        Its name.
    what : str
        Tells it from other calls of that function.
    arguments : tuple
        Arrays of NumPy, and others.
    options : dict
        By keyword; `out` is an array too.
    """

    function: str
    what: str
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, functions: Mapping[str, Callable[..., Any]], place: Callable[[np.ndarray], Any]) -> None:
        """Call `REPEATS` times with the arrays that `place` returns for those of this call."""
        put = {id(x): place(x) for x in (*self.arguments, *self.options.values()) if isinstance(x, np.ndarray)}
        arguments = [put.get(id(x), x) for x in self.arguments]
        options = {name: put.get(id(x), x) for name, x in self.options.items()}
        for _ in range(REPEATS):
            functions[self.function](*arguments, **options)


class _Draw:
    """Arrays of one dtype, each of the next layout."""

    def __init__(self, dtype: Any, turn: int) -> None:
        self._dtype, self._turns = np.dtype(dtype), itertools.count(turn)
        self._rng = np.random.default_rng(turn)

    def __call__(self, *shape: int) -> np.ndarray:
        """Return small whole numbers, laid out by rows, by columns, backwards, apart, or with gaps between rows."""
        values = self._rng.integers(0, 2 if is_bool(self._dtype) else 5, shape).astype(self._dtype)
        return LAYOUTS[next(self._turns) % len(LAYOUTS)](values)


def _gapped(x: np.ndarray) -> np.ndarray:
    room = np.zeros((*x.shape[:-1], x.shape[-1] + 1), x.dtype)[..., :-1]
    room[...] = x
    return room


def _apart(x: np.ndarray) -> np.ndarray:
    room = np.zeros([2 * size for size in x.shape], x.dtype)[tuple(slice(None, None, 2) for _ in x.shape)]
    room[...] = x
    return room


LAYOUTS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.ascontiguousarray,
    lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x,
    _gapped,
    lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    _apart,
)


def calls() -> Iterator[Call]:
    """Yield the calls, always the same."""
    for turn, ((m, n, k), (semiring, dtype)) in enumerate(itertools.product(SIZES, KERNELS)):
        yield from _products(_Draw(dtype, turn), (m, n, k), semiring, f"{m}x{n}x{k} {semiring} {dtype}")
    for turn, ((m, n, k), (narrow, wide)) in enumerate(itertools.product(SIZES, MIXED)):
        draw = _Draw(narrow, turn)
        yield Call("gemm", f"{m}x{n}x{k} {narrow} to {wide}", (draw(m, k), draw(k, n)), {"dtype": wide})
    for turn, ((m, n, k), (semiring, dtype)) in enumerate(itertools.product(SIZES, SELECTING)):
        draw, what = _Draw(dtype, turn), f"{m}x{n}x{k} {semiring} {dtype}"
        yield Call("gemm_argk", what, (draw(m, k), draw(k, n)), {"semiring": semiring})
        yield Call("gemm_argk", f"batch of {what}", (draw(3, m, k), draw(3, k, n)), {"semiring": semiring})
    yield from _paths()
    yield from _linalg()
    yield from _sequences()


def _products(draw: _Draw, sizes: tuple[int, int, int], semiring: str, what: str) -> Iterator[Call]:
    m, n, k = sizes
    options = {"semiring": semiring}
    is_bool = semiring == "lor_land"
    factors = {**options, "alpha": is_bool or 2, "beta": is_bool or 3}
    yield Call("gemm", what, (draw(m, k), draw(k, n)), options)
    yield Call("gemm", f"{what}, C, factors, out", (draw(m, k), draw(k, n), draw(m, n)), {**factors, "out": draw(m, n)})
    in_place = draw(m, n)
    yield Call("gemm", f"{what}, out is C", (draw(m, k), draw(k, n), in_place), {**options, "out": in_place})
    yield Call("gemm", f"{what}, batch", (draw(3, m, k), draw(3, k, n)), {**options, "out": draw(3, m, n)})
    yield Call("gemm", f"{what}, batch by one B", (draw(2, 3, m, k), draw(k, n)), options)
    yield Call("gemm", f"{what}, symmetric A", (draw(m, m), draw(m, n)), {**options, "triangle": "a"})
    yield Call("gemm", f"{what}, triangle of D", (draw(n, k), draw(k, n)), {**options, "triangle": "d"})
    yield Call("gemm", f"{what}, triangles of D", (draw(3, n, k), draw(3, k, n)), {**options, "triangle": "d"})
    yield Call("einsum", f"{what}, ik,kj->ij", ("ik,kj->ij", draw(m, k), draw(k, n)), options)
    yield Call("einsum", f"{what}, bki,bjk->bij", ("bki,bjk->bij", draw(3, k, m), draw(3, n, k)), options)
    yield Call("einsum", f"{what}, ijk,kl->ijl", ("ijk,kl->ijl", draw(2, m, k), draw(k, n)), options)
    yield Call("einsum", f"{what}, i,i->", ("i,i->", draw(k), draw(k)), options)
    yield Call("gemv", what, (draw(m, k), draw(k), draw(m)), factors)
    yield Call("gemv", f"{what}, batch", (draw(3, m, k), draw(3, k)), {**options, "out": draw(3, m)})
    yield Call("symv", what, (draw(m, m), draw(m)), options)
    yield Call("ger", what, (draw(m), draw(n), draw(m, n)), options)
    yield Call("syr", what, (draw(n), draw(n, n)), options)
    yield Call("syrk", what, (draw(n, k),), options)
    if semiring != "max_min":
        yield Call("axpy", what, (draw(n), draw(n)), options)


def _paths() -> Iterator[Call]:
    for turn, (n, (semiring, dtype)) in enumerate(itertools.product((1, 17, 67, 129), SELECTING)):
        draw = _Draw(dtype, turn)
        weights = np.minimum(draw(n, n), 0) if semiring == "max_plus" else draw(n, n)
        yield Call("closure", f"{n} {semiring} {dtype}", (weights, semiring))
        options = {"return_predecessors": True}
        yield Call("closure", f"{n} {semiring} {dtype}, predecessors", (weights, semiring), options)
        yield Call("closure", f"{n} {semiring} {dtype}, rows of few", (weights, semiring), {"sources": [0, n - 1]})
        both = np.minimum(weights, weights.T) if semiring.startswith("min") else np.maximum(weights, weights.T)
        yield Call("closure", f"{n} {semiring} {dtype}, undirected", (both, semiring), {"directed": False})
    yield Call("shortest_paths", "67 by squaring", (_Draw("float32", 1)(67, 67),), {"method": "squaring"})


def _linalg() -> Iterator[Call]:
    for turn, (n, dtype) in enumerate(itertools.product((1, 17, 67, 129), ("float32", "float64"))):
        draw = _Draw(dtype, turn)
        a = draw(n, n)
        a += 4 * n * np.eye(n, dtype=dtype)
        for transposed in (False, True):
            options = {"lower": not transposed, "transposed": transposed}
            yield Call("trsm", f"{n} {dtype}, transposed {transposed}", (a, draw(n, 5)), options)
        yield Call("qr", f"{n} {dtype}", (draw(n + 3, n),))
        yield Call("qr", f"{n} {dtype}, recursive", (draw(n + 3, n),), {"panel": "recursive"})
        yield Call("hessenberg", f"{n} {dtype}", (a,))
        yield Call("refine", f"{n} {dtype}", (a, draw(n, 3)))


def _sequences() -> Iterator[Call]:
    """Yield steps of few states and of many, of one sequence and of several, ragged, with a matrix for each step."""
    shapes = itertools.product(((1, 1), (3, 5), (2, 70)), (1, 17, 300), ("float32", "float64"))
    for turn, ((sequences, steps), states, dtype) in enumerate(shapes):
        draw, what = _Draw(dtype, turn), f"{sequences} of {steps} steps, {states} states, {dtype}"
        lengths = {"lengths": np.arange(sequences, dtype=np.int32) % steps + 1}
        each = (steps - 1, states, states) if turn % 2 else (states, states)
        model = tuple(-draw(*shape) for shape in ((states,), each, (sequences, steps, states)))
        for function in ("forward", "backward", "posterior", "viterbi"):
            yield Call(function, what, model, lengths if turn % 3 else {})
        if states < 100:
            matrices = draw(sequences, steps, states, states)
            yield Call("scan", what, (matrices, "max_plus"), {"reverse": bool(turn % 2)})
            yield Call("scan", f"{what}, of vectors", (matrices, "min_plus"), {"initial": draw(sequences, states)})
            yield Call("chain", what, (matrices, "max_plus"))
