"""One sequence, as instructions: ``x := (x (x) A[t]) (x) e[t]`` for every t, of a vector of S states.

    loop  t over the length of the sequence
          advance           s = x (x) A, by `terms`, or of one A over logaddexp by `scaled`
          settle            x[j] = s[j] (x) e[t, j], from which the largest is taken off and kept in float64

So over max_plus and logaddexp_plus states never grow, and float32 keeps its digits however long the sequence is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from backends.cpu._log_sum.exp_log import Elementary
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.scalar import WORD, ScalarCode
from backends.cpu._vector.unit import find_unit
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import is_float

# The table of a run: sizes; addresses, and their strides in bytes by sequence, step and row (`_sequences.run`).
WORDS = """
    states lengths firsts offsets taken taken_row work work_row initial initial_row
    transition transition_row transition_step transition_line factors tops scale
    emission emission_row emission_step out out_row out_step pointers pointers_row pointers_step
""".split()
RARELY = 8  # a power of two; in so few steps states lose no more digits than by one emission
DOUBLE = ir.DoubleType()


class Form(NamedTuple):
    """What a kernel is compiled for.

    Attributes
    ----------
    operations : Operations
        Of the semiring; of logaddexp_plus those of max_plus, with `is_log`.
    dtype, unit : str
    is_log, has_factors : bool
        Whether (+) is logaddexp, and whether `factors` are there: one A for all steps.
    keeps : str
        States that are stored: "" none, "before" the emission, or "after" it.
    is_relative : bool
        Whether they are stored without what was taken off.
    pointer_bytes : int
        Of a stored p; 0: none.
    """

    operations: Operations
    dtype: str
    unit: str
    is_log: bool = False
    has_factors: bool = False
    keeps: str = ""
    is_relative: bool = False
    pointer_bytes: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether the largest state is taken off."""
        is_log_domain = (self.operations.add, self.operations.multiply) == ("max", "plus")
        return is_log_domain and is_float(np.dtype(self.dtype))

    @property
    def is_settled_rarely(self) -> bool:
        """Whether that is done every `RARELY` steps: a term needs no exponential, and no state is stored."""
        return not (self.is_log or self.keeps)


class Here(NamedTuple):
    """The number of a step, and the addresses of its emission and of its states in the result."""

    t: Value
    emission: Value
    out: Value


class Code(ScalarCode):
    """Emitter of the steps of one form."""

    def __init__(self, builder: Builder, form: Form) -> None:
        super().__init__(builder)
        self.form, self.dtype = form, np.dtype(form.dtype)
        self.vectors, self.size = VectorCode(find_unit(form.unit), self.dtype), self.dtype.itemsize
        self.element, self.numbers = self.vectors.element, None
        self.lanes, self.bytes = self.vectors.lanes, self.vectors.lanes * self.size
        self.zero = self.vectors.constant(form.operations.zero)
        self.math = Elementary(builder, self.dtype, self.lanes) if form.is_log else None

    def load(self, address: Value, edge: Value | None = None) -> Value:
        """Load a vector."""
        return self.vectors.load(self.b, self.pointer(address), edge)

    def store(self, value: Value, address: Value, edge: Value | None = None) -> None:
        """Store a vector."""
        self.vectors.store(self.b, value, self.pointer(address), edge)

    def scalar(self, address: Value, kind: Any) -> Value:
        """Load a number."""
        return self.b.load(self.pointer(address), typ=kind)

    def splat_at(self, address: Value) -> Value:
        """Load one element into all lanes."""
        return self.vectors.broadcast(self.b, self.pointer(address))

    def copy(self, states: Value, source: Value, to: Value) -> None:
        """Copy a padded line."""
        b = self.b
        self.over_vectors(states, [], lambda at, *_: self.store(self.load(b.add(source, at)), b.add(to, at)) or [])

    def within(self, states: Value, value: Value, at: Value, edge: Value | None) -> Value:
        """Return a vector of which what was read beyond the last state is no state."""
        if edge is None:
            return value
        count = self.b.sub(states, self.b.sdiv(at, v.size(self.size)))
        return self.b.select(self.vectors.first_lanes(self.b, count), value, self.zero)

    def keep(self, value: Value, here: Here, at: Value, edge: Value | None, offset: Value) -> None:
        """Store states to the result."""
        b, element = self.b, self.element
        if self.form.is_settled and not self.form.is_relative:
            value = b.fadd(value, self.vectors.splat(b, offset if self.size == WORD else b.fptrunc(offset, element)))
        self.store(value, b.add(here.out, at), edge)

    def combine(self, x: Value, y: Value) -> Value:
        """Return ``x (+) y`` of the operations: the greater of logarithms."""
        return self.form.operations.combine(self.vectors, self.b, x, y)

    def term(self, x: Value, y: Value) -> Value:
        """Return ``x (x) y``."""
        return self.form.operations.term(self.vectors, self.b, x, y)

    def largest(self, vector: Value) -> Value:
        """Return the (+) of the lanes, by halves: LLVM's own reduction goes from lane to lane."""
        indices, lanes = ir.VectorType(v.INDEX, self.lanes), self.lanes
        while lanes > 1:
            lanes //= 2
            half = ir.Constant(indices, [(i + lanes) % self.lanes for i in range(self.lanes)])
            vector = self.combine(vector, self.b.shuffle_vector(vector, vector, half))
        return self.b.extract_element(vector, v.index(0))

    def any_lane(self, lanes: Value) -> Value:
        """Return whether any lane of a vector of bits is set."""
        word = ir.IntType(self.lanes)
        return self.b.icmp_unsigned("!=", self.b.bitcast(lanes, word), ir.Constant(word, 0))

    def over_vectors(
        self, states: Value, state: list[Value], body: Callable[..., list[Value]], group: int = 1
    ) -> list[Value]:
        """Replace `state` by ``body(first, count, edge, *state)`` for all vectors of a line, `group` at a time.

        `first` is in bytes; `edge` is that of the last vector if it is not whole, else None.
        """
        b, done = self.b, v.size(0)
        for count in sorted({group, 1}, reverse=True):
            width = count * self.lanes
            parts = b.sdiv(b.sub(states, done), v.size(width))

            def one(q: Value, *now: Value, count: int = count, done: Value = done) -> list[Value]:
                return body(self.at(b.mul(done, v.size(self.size)), (q, count * self.bytes)), count, None, *now)

            state = self.for_each(parts, state, one)
            done = b.add(done, b.mul(parts, v.size(width)))
        rest = b.sub(states, done)

        def last(_: Value, *now: Value) -> list[Value]:
            return body(b.mul(done, v.size(self.size)), 1, self.vectors.edge(b, rest), *now)

        return self.for_each(b.zext(self.is_not(rest, 0), v.SIZE), state, last)


class Lines(NamedTuple):
    """Addresses of the work lines of a sequence, each padded to whole vectors: those after `weights` are spare."""

    x: Value
    weights: Value
    sums: Value
    next_x: Value
    next_weights: Value


def emit_sequence(form: Form, advance: Callable[..., list[Value]]) -> Callable[[Builder, Value, Value], None]:
    """Return what writes ``sequence(table, row)``: all steps of one sequence, by `advance`."""

    def emit(b: Builder, table: Value, row: Value) -> None:
        code = Code(b, form)
        w = code.words(table, WORDS)
        length, first = (code.scalar(code.at(x, (row, WORD)), v.SIZE) for x in (w.lengths, w.firsts))
        line = b.mul(code.parts(w.states, code.lanes), v.size(code.bytes))
        work = code.at(w.work, (row, w.work_row))
        lines = Lines(*(code.at(work, (line, i)) for i in range(len(Lines._fields))))
        emission = code.at(w.emission, (row, w.emission_row), (first, w.emission_step))
        matrix = code.at(w.transition, (row, w.transition_row), (first, w.transition_step))
        out = code.at(w.out, (row, w.out_row), (first, w.out_step))
        pointers = code.at(w.pointers, (row, w.pointers_row), (first, w.pointers_step))

        def here(t: Value) -> Here:
            return Here(t, code.at(emission, (t, w.emission_step)), code.at(out, (t, w.out_step)))

        def step(t: Value, *state: Value) -> list[Value]:
            at = code.at(matrix, (t, w.transition_step)), code.at(pointers, (t, w.pointers_step))
            following = b.add(t, v.size(1))
            made = advance(code, w, lines, *at, here(following), *state)
            take(following, made[0], state[0])
            return made

        def take(t: Value, offset: Value, before: Value) -> None:
            if form.is_relative:
                taken = code.at(w.taken, (row, w.taken_row), (first, WORD), (t, WORD))
                b.store(b.fsub(offset, before), code.pointer(taken))

        with b.if_then(b.icmp_signed(">", length, v.size(0))):
            begin = code.at(w.initial, (row, w.initial_row))
            code.copy(w.states, begin, lines.sums)
            state = advance(code, w, lines, None, None, here(v.size(0)), ir.Constant(DOUBLE, 0.0))
            take(v.size(0), state[0], ir.Constant(DOUBLE, 0.0))
            offset, *rest = code.for_each(b.sub(length, v.size(1)), state, step)
            b.store(offset, code.pointer(code.at(w.offsets, (row, WORD))))
            if rest:
                code.copy(w.states, rest[0], lines.x)

    return emit


def settle(code: Code, states: Value, lines: Lines, here: Here, offset: Value) -> Value:
    """Compute ``x = sums (x) emission`` with the largest taken off, store it, and return the new offset."""
    b, form, vectors = code.b, code.form, code.vectors
    takes_now = form.is_settled and not form.is_settled_rarely

    def combine(at: Value, _: int, edge: Value | None, *top: Value) -> list[Value]:
        value = code.load(b.add(lines.sums, at))
        if form.keeps == "before":
            code.keep(value, here, at, edge, offset)
        value = code.within(states, code.term(value, code.load(b.add(here.emission, at), edge)), at, edge)
        code.store(value, b.add(lines.x, at))
        if form.keeps == "after" and not form.is_settled:
            code.store(value, b.add(here.out, at), edge)
        return [code.combine(total, value) for total in top]

    def largest(at: Value, _: int, __: Value | None, top: Value) -> list[Value]:
        return [code.combine(top, code.load(b.add(lines.x, at)))]

    def taken_off(top: Value) -> Value:
        most = code.largest(top)
        is_possible = b.fcmp_ordered(">", most, ir.Constant(vectors.element, -np.inf))
        most = b.select(is_possible, most, ir.Constant(vectors.element, 0.0))
        following = b.fadd(offset, most if code.size == WORD else b.fpext(most, DOUBLE))

        def take_off(at: Value, _: int, edge: Value | None) -> list[Value]:
            value = b.fsub(code.load(b.add(lines.x, at)), vectors.splat(b, most))
            code.store(value, b.add(lines.x, at))
            if form.keeps == "after":
                code.keep(value, here, at, edge, following)
            return []

        code.over_vectors(states, [], take_off)
        return following

    tops = code.over_vectors(states, [code.zero] if takes_now else [], combine)
    if takes_now:
        return taken_off(tops[0])
    if not form.is_settled:
        return offset
    is_time = b.icmp_signed("==", b.and_(here.t, v.size(RARELY - 1)), v.size(0))
    return code.where(is_time, lambda: taken_off(code.over_vectors(states, [code.zero], largest)[0]), offset)
