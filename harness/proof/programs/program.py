"""A random program as plain data: one public call, how its arrays lie in memory, and what is in them.

A program says everything, so that one that fails is a line of JSON and can be run again. It is called three times: with
arrays of its own, with other arrays of the same layouts and other values, and with the first ones again. Second calls
take short paths that first ones have prepared.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.dtypes import float_limits, is_bool, is_complex, is_exact, is_integer, named_dtype, parts_dtype
from harness.operands import span
from harness.scalars import keep_greater
from harness.semiring import SEMIRINGS, Semiring

# Semirings with functions of the user's own: one that selects and does not commute, and one that rounds.
OWN = {
    "own_max_minus": Semiring.from_functions(
        "own_max_minus", keep_greater, lambda x, y: x - y, zero=-np.inf, kinds="f", is_selective=True
    ),
    "own_plus_minus": Semiring.from_functions(
        "own_plus_minus", lambda c, t: c + t, lambda x, y: x - y, zero=0, kinds="f"
    ),
}


# Calls that are one product: by operand the sizes of its last axes, the operand that is added, sizes of the result.
PRODUCTS: dict[str, tuple[dict[str, str], str, str]] = {
    "gemm": ({"a": "mk", "b": "kn", "c": "mn"}, "c", "mn"),
    "gemm_argk": ({"a": "mk", "b": "kn"}, "", "mn"),
    "gemv": ({"a": "mk", "x": "k", "y": "m"}, "y", "m"),
    "symv": ({"a": "mm", "x": "m", "y": "m"}, "y", "m"),
    "hemv": ({"a": "mm", "x": "m", "y": "m"}, "y", "m"),
    "ger": ({"x": "m", "y": "n", "c": "mn"}, "c", "mn"),
    "syr": ({"x": "m", "c": "mm"}, "c", "mm"),
    "syrk": ({"a": "mk", "c": "mm"}, "c", "mm"),
    "axpy": ({"x": "m", "y": "m"}, "", "m"),
}
EINSUMS = """ik,kj->ij bik,bkj->bij bik,kj->bij ki,jk->ji ij,ij->ij ij,ij-> i,j->ij ikl,klj->ij ikl,lkj->ij iik,kj->ij
...ik,...kj->...ij bik,bkj->ijb isk,kj->ij ij->j ij-> ij->ji ii->i bij->bj ij,jk,kl->il bi,bj,bk->ijk""".split()

# Calls of sequences, and the semiring that a model is computed over; scans have any.
SEQUENCES = {
    "scan": "",
    "chain": "",
    "forward": "logaddexp_plus",
    "backward": "logaddexp_plus",
    "posterior": "logaddexp_plus",
    "viterbi": "max_plus",
}

# What is in the operands; "graph" and "undirected" are for closures, "sparse" is for sequences.
VALUES = ("normal", "normal", "few", "wide", "subnormal", "specials", "zeros", "bits")


@dataclass(frozen=True)
class View:
    """An array in a buffer; `strides` and `offset` in bytes."""

    buffer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_writable: bool = True

    @property
    def span(self) -> tuple[int, int]:
        """The first byte in the buffer, and the one after the last; an empty array has none."""
        if 0 in self.shape:
            return self.offset, self.offset
        low, end = span(self.shape, self.strides, self.numpy_dtype.itemsize)
        return self.offset + low, self.offset + end

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype; bfloat16 is that of `ml_dtypes`."""
        return named_dtype(self.dtype)

    def of(self, buffer: np.ndarray) -> np.ndarray:
        """Return the array in `buffer`, bytes on the host."""
        array: np.ndarray = np.ndarray(self.shape, self.numpy_dtype, buffer, self.offset, self.strides)
        return array

    def bytes_of(self, buffer: np.ndarray) -> np.ndarray:
        """Return the items of `buffer`, one for each byte, of the array's elements, along one more axis."""
        shape, strides = (*self.shape, self.numpy_dtype.itemsize), (*self.strides, 1)
        array: np.ndarray = np.ndarray(shape, buffer.dtype, buffer, self.offset, strides)
        return array


@dataclass(frozen=True)
class Program:
    """One public call.

    Parameters
    ----------
    call : str
        ``"gemm"``, ``"gemm_argk"``, ``"einsum"``, ``"closure"``, or one of the matrix-vector family or of `SEQUENCES`.
    semiring : str
    operands : dict of View
        By the names of the call's parameters, in their order.
    out : tuple of View
        None at all: the call returns new arrays.
    buffers : tuple of int
        Bytes of each.
    options : dict
        Of the call, plain data; `subscripts` of an einsum too.
    values : str
        One of `VALUES`.
    seed : int
        Of the values.
    """

    call: str
    semiring: str
    operands: dict[str, View]
    out: tuple[View, ...] = ()
    buffers: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    values: str = "normal"
    seed: int = 0

    @property
    def backend(self) -> str:
        """The backend that is asked for."""
        return str(self.options.get("backend", "auto"))

    @property
    def views(self) -> list[View]:
        """All arrays: the operands, then `out`."""
        return [*self.operands.values(), *self.out]

    @property
    def letters(self) -> tuple[list[str], str]:
        """The terms of an einsum, and its result, with letters for "..."."""
        terms, result = str(self.options["subscripts"]).replace("...", "yz").split("->")
        return terms.split(","), result

    def to_json(self) -> str:
        """Return the program as one line, of which `from_json` makes an equal one."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"), default=lambda x: [x.real, x.imag])

    @classmethod
    def from_json(cls, line: str) -> Program:
        """Return the program of such a line."""
        record = json.loads(line)
        record["operands"] = {name: _view(view) for name, view in record["operands"].items()}
        record["out"] = tuple(map(_view, record["out"]))
        record["buffers"] = tuple(record["buffers"])
        options = record["options"]
        options |= {x: complex(*options[x]) for x in ("alpha", "beta") if isinstance(options.get(x), list)}
        return cls(**record)


def _view(record: dict[str, Any]) -> View:
    return View(**{**record, "shape": tuple(record["shape"]), "strides": tuple(record["strides"])})


def semiring_of(name: str) -> Semiring:
    """Return the semiring of that name: of the table, of `OWN`, or of two named operations."""
    known = SEMIRINGS.get(name) or OWN.get(name)
    return known or Semiring.of(*name.split("_"))


def contents(program: Program, turn: int) -> list[np.ndarray]:
    """Return the bytes of the buffers before a call; those of turn 0 and of turn 2 are equal.

    Gaps, and what a result is written to, hold patterns that are NaN over floats and True over bools.
    """
    rng = np.random.default_rng([program.seed, turn % 2])
    buffers = []
    for size in program.buffers:
        is_random = bool(rng.integers(2))
        buffers.append(rng.integers(0, 256, size, np.uint8) if is_random else np.full(size, 0xFF, np.uint8))
    semiring = semiring_of(program.semiring)
    for view in program.operands.values():
        _fill(view, buffers[view.buffer], program.values, semiring, rng)
    return buffers


def _fill(view: View, buffer: np.ndarray, values: str, semiring: Semiring, rng: np.random.Generator) -> None:
    """Write values to the array; where its elements share memory, the last one stays."""
    array, dtype = view.of(buffer), view.numpy_dtype
    if values == "bits" and is_exact(dtype):  # bytes of bools too that are neither 0 nor 1
        bits = view.bytes_of(buffer)
        bits[...] = rng.integers(0, 256, bits.shape, np.uint8)
        return
    if values == "undirected":
        graph = _drawn(view.shape, dtype.newbyteorder("="), "graph", semiring, rng)
        array[...] = semiring.add.ufunc(graph, graph.swapaxes(-1, -2))
        return
    with np.errstate(all="ignore"):
        array[...] = _drawn(view.shape, dtype.newbyteorder("="), values, semiring, rng)


def _drawn(
    shape: tuple[int, ...], dtype: np.dtype[Any], values: str, semiring: Semiring, rng: np.random.Generator
) -> np.ndarray:
    if is_complex(dtype):
        parts = (_drawn(shape, parts_dtype(dtype), values, semiring, rng) for _ in range(2))
        return np.stack([*parts], axis=-1).view(dtype)[..., 0]
    if is_bool(dtype):
        return rng.random(shape) < (0.1 if values == "zeros" else 0.5)
    if values == "graph":  # edges of a graph, on integers, so that no path rounds
        edges = rng.integers(0, 100, shape)
        signed = -edges if semiring.name == "max_plus" else edges
        present = rng.random(shape) < 0.4
        return np.where(present, signed.astype(dtype), np.asarray(semiring.zero(dtype)))
    if values in ("few", "sparse"):
        drawn = rng.integers(0 if dtype.kind == "u" else -3, 4, shape).astype(dtype)
        return drawn if values == "few" else _sparse(drawn, semiring, rng)
    if is_integer(dtype):
        info = np.iinfo(dtype)
        fraction = 1 if values in ("wide", "specials") else 4
        drawn = rng.integers(int(info.min) // fraction, int(info.max) // fraction, shape, dtype, endpoint=True)
        special: list[Any] = [info.min, info.max, 0, 1, info.max - 1, info.max // 2 + 1]
    else:
        info = float_limits(dtype)
        drawn = rng.standard_normal(shape)
        low, high = math.log10(float(info.smallest_normal)), math.log10(float(info.max))
        if values == "wide":
            drawn = drawn * 10.0 ** rng.uniform(low / 2, high / 2, shape)
        elif values == "subnormal":
            drawn = drawn * np.where(rng.random(shape) < 0.5, float(info.smallest_normal), 1.0)
        drawn = drawn.astype(dtype)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, info.max, -info.max, info.smallest_subnormal]
    if values == "specials":
        chosen = rng.random(shape) < rng.choice([0.02, 0.3, 1.0])
        drawn = np.where(chosen, rng.choice(np.array(special, dtype), shape), drawn)
    elif values == "zeros":
        zero = semiring.zero(dtype) if dtype.kind in semiring.add.kinds else 0  # of a dtype that is promoted
        drawn = np.where(rng.random(shape) < 0.5, np.asarray(zero, dtype), drawn)
    return np.asarray(drawn)


def _sparse(few: np.ndarray, semiring: Semiring, rng: np.random.Generator) -> np.ndarray:
    """Return few values, or wide ones, with zeros of the semiring: elements, rows and columns."""
    dtype, shape = few.dtype, few.shape
    if not is_exact(dtype) and rng.integers(2):
        few = (rng.standard_normal(shape) * rng.choice([1, 30, 1000 if dtype.itemsize > 2 else 30])).astype(dtype)
    is_zero = rng.random(shape) < rng.choice([0.0, 0.1, 0.5])
    for axis in (-1, -2)[: len(shape)]:
        lines = rng.random(tuple(np.delete(shape, axis))) < rng.choice([0.0, 0.1])
        is_zero |= np.expand_dims(lines, axis)
    zero = semiring.zero(dtype) if dtype.kind in semiring.add.kinds else 0  # of a dtype that is promoted
    return np.where(is_zero, np.asarray(zero, dtype), few)
