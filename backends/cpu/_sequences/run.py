"""All steps of all sequences: one call of a generated kernel (`_sequences.step`), whose pieces are sequences."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._compile.pieces import build_run_pieces
from backends.cpu._ir.functions import compile_functions
from backends.cpu._sequences import scaled, terms
from backends.cpu._sequences.step import WORDS, Form, Lines, emit_sequence
from backends.cpu._vector import code as v
from backends.cpu._vector.operators import Guard, guard, operations
from backends.cpu._vector.unit import find_unit, usable_units
from harness.dtypes import dtype_name
from harness.interface import Stepped, Steps
from harness.operands import aligned_empty, data_address
from harness.semiring import SEMIRINGS, Semiring
from harness.tuning.sequences import POINTER_BYTES

# Numbers of states that fit into a pointer of so many bytes.
_POINTERS = ((1, 1 << 8), (2, 1 << 16), (4, 1 << 31))


def prepare_steps(
    semiring: Semiring, dtype: np.dtype[Any], keeps: str, is_relative: bool, is_traced: bool
) -> Steps | None:
    """Return what computes the steps of sequences, as `Abilities.prepare_steps` says."""
    computed = SEMIRINGS["max_plus"] if semiring.is_log_sum else semiring
    ops = operations(computed, dtype)
    if ops is None or (is_traced and ops.add != "max"):
        return None
    ops = ops._replace(is_careful=guard(computed, dtype) is not Guard.NONE)
    form = Form(ops, dtype_name(dtype), usable_units()[0].name, semiring.is_log_sum, False, keeps, is_relative)
    return functools.partial(_run, form, is_traced)


@functools.cache
def _compiled(form: Form) -> tuple[int, int]:
    """Return the addresses of the steps of a sequence, and of the walk along its path."""

    def emit(module: ir.Module) -> list[ir.Function]:
        steps = emit_sequence(form, scaled.advance if form.has_factors else terms.advance)
        functions = [v.own_function(module, "sequence", [v.SIZE] * 2, steps)]
        if form.pointer_bytes:
            functions.append(v.own_function(module, "walk", [v.SIZE] * 2, terms.emit_walk(form)))
        v.prefer_widest_vectors(functions[0])
        return functions

    addresses = compile_functions("sequences", tuple(form), emit, unrolls=True)
    return addresses[0], addresses[-1]


def _run(
    form: Form,
    is_traced: bool,
    initial: np.ndarray,
    transition: np.ndarray,
    emission: np.ndarray,
    lengths: np.ndarray,
    firsts: np.ndarray,
) -> Stepped:
    (count, steps, states), dtype = emission.shape, emission.dtype
    padded = -(-states // find_unit(form.unit).lanes(dtype)) * find_unit(form.unit).lanes(dtype)
    is_one = transition.shape[1] == 0 or (transition.strides[:2] == (0, 0) and transition.size > 0)
    form = form._replace(has_factors=form.is_log and is_one)
    work = aligned_empty((count, len(Lines._fields), padded), dtype)
    begin = np.full((count, padded), form.operations.zero, dtype)
    begin[:, :states] = initial
    out = aligned_empty((count, steps if form.keeps else 0, states), dtype)
    if (lengths != steps).any():
        out.fill(form.operations.zero)
    offsets = np.zeros(count)
    emission, values = _with_contiguous_lines(emission), _matrix_values(form, transition, padded)
    arrays = {"initial": begin, "emission": emission, "out": out, "work": work, "offsets": offsets}
    arrays |= {"lengths": _words(lengths), "firsts": _words(firsts)}
    taken = np.zeros((count, steps)) if form.is_relative else None
    if taken is not None:
        arrays["taken"] = taken
    paths = None
    if is_traced:
        form = form._replace(pointer_bytes=next(size for size, most in _POINTERS if states <= most))
        paths = np.full((count, steps), -1, np.int32)
    values |= {"states": states, "work_row": work.strides[0], "initial_row": begin.strides[0]}
    values |= {"taken_row": steps * offsets.itemsize}
    values |= dict(zip(("emission_row", "emission_step"), emission.strides, strict=False))
    values |= dict(zip(("out_row", "out_step"), out.strides, strict=False))
    if steps and count and states:
        _in_chunks(form, values, arrays, paths, (count, steps, padded))
    return Stepped(out if form.keeps else None, work[:, 0, :states], offsets, paths, taken)


def _in_chunks(
    form: Form, values: dict[str, Any], arrays: dict[str, np.ndarray], paths: np.ndarray | None, shape: tuple[int, ...]
) -> None:
    """Compute as many sequences at once as their pointers have room for."""
    count, steps, padded = shape
    run, (sequence, walk) = build_run_pieces(), _compiled(form)
    chunk, pointers = count, np.empty(0, np.uint8)
    if paths is not None:
        line = max(steps - 1, 1) * padded * form.pointer_bytes
        chunk = min(count, max(1, POINTER_BYTES // line))
        pointers = aligned_empty((chunk, line), np.dtype(np.uint8))
        values |= {"pointers_row": line, "pointers_step": padded * form.pointer_bytes}
        values["pointers"] = data_address(pointers)
    for first in range(0, count, chunk):
        some = slice(first, first + chunk)
        rows = {name: data_address(x[some]) for name, x in arrays.items()}
        rows["transition"] = values["transition"] + first * values["transition_row"]
        table = np.array([{**values, **rows}.get(name, 0) for name in WORDS], np.int64)
        pieces = len(arrays["work"][some])
        run(sequence, data_address(table), pieces)
        if paths is not None:
            _walk(run, walk, table, paths[some], arrays, some)


def _walk(run: Any, walk: int, table: np.ndarray, paths: np.ndarray, arrays: Any, some: slice) -> None:
    """Write the last states of the paths, and walk back from them; `firsts` are 0."""
    lengths, states = arrays["lengths"][some], int(table[WORDS.index("states")])
    some_rows = np.flatnonzero(lengths > 0)
    paths[some_rows, lengths[some_rows] - 1] = arrays["work"][some][some_rows, 0, :states].argmax(axis=1)
    for name, value in (("out", data_address(paths)), ("out_row", paths.strides[0]), ("out_step", paths.strides[1])):
        table[WORDS.index(name)] = value
    run(walk, data_address(table), len(lengths))


def _matrix_values(form: Form, transition: np.ndarray, padded: int) -> dict[str, Any]:
    """Return the words that describe the matrices, with arrays of their own under a name that is no word."""
    if not form.has_factors:
        matrices = _with_contiguous_lines(transition)
        names = ("transition", "transition_row", "transition_step", "transition_line")
        return {"kept": matrices} | dict(zip(names, (data_address(matrices), *matrices.strides), strict=False))
    dtype, states = transition.dtype, transition.shape[-1]
    matrix = aligned_empty((states, padded), dtype)
    matrix.fill(-np.inf)
    if transition.size:
        matrix[:, :states] = transition[0, 0]
    wide = matrix.astype(np.float64)
    tops = np.maximum(wide.max(axis=0, initial=-np.inf), np.finfo(dtype).min)
    numbers = scaled.Numbers.of(dtype, states)
    differences = wide - tops
    factors = _filled((-(-states // scaled.PAIR) * scaled.PAIR, padded), 0, dtype)
    roots, exponent = np.exp(differences / 2), int(numbers.exponent) // 2  # an exponential itself may be subnormal
    exponentials = np.ldexp(roots, exponent // 2) * np.ldexp(roots, exponent - exponent // 2)
    factors[:states] = np.where(differences < float(numbers.floor), 0.0, exponentials)
    finite = differences[np.isfinite(differences)]
    is_narrow = not finite.size or finite.min() >= float(numbers.narrow)
    numbers = numbers if is_narrow else numbers._replace(of_matrix=numbers.limit)
    kept = matrix, factors, tops.astype(dtype), np.array(numbers, dtype)
    words = dict(zip(("transition", "factors", "tops", "scale"), map(data_address, kept), strict=True))
    return {"kept": kept, "transition_row": 0, "transition_step": 0, "transition_line": matrix.strides[0], **words}


def _filled(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    out = aligned_empty(shape, dtype)
    out.fill(value)
    return out


def _with_contiguous_lines(x: np.ndarray) -> np.ndarray:
    """Return `x`, or a copy if its last axis is not contiguous."""
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def _words(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.int64)
