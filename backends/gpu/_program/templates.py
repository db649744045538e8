"""Programs of a backend, each described once for all sizes that decide alike: others only have other numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Call, Matrix, Program
from backends.gpu._program.symbols import Recording
from harness.plan import Plan
from harness.problem import Problem

# Describes a product, and the same where B is A transposed, or None; of matrices in the order of their buffers.
Describe = Callable[..., tuple[Program, Program | None]]

# Numbers of the programs of some sizes; None: they are described otherwise.
_Template = tuple[Callable[..., Any], PackedProgram]

# Elements of the loads by which lines are told apart from the first: by conditions they would be, one after the other.
WHOLE = 4

# Most kinds of products that a backend keeps, and most templates of one.
_MOST, _MOST_OF_ONE = 1024, 64


class Templates:
    """What a backend describes, by all but sizes: the plan's tiles and options, dtypes, scalars, and how matrices lie.

    Parameters
    ----------
    describe : callable
    """

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._known: dict[Hashable, list[_Template] | None] = {}

    def find(self, plan: Plan, matrices: Sequence[Matrix], itemsizes: Mapping[str, int]) -> PackedProgram | None:
        """Return the program of a plan for matrices; None: it is to be described for these sizes alone.

        So it is if it is the first of its kind, if a library computes it, or if another program takes its place where
        B is A transposed.
        """
        # what is described reads columns or rows, with gaps or without
        problem, options = plan.problem.laid_out(plan.problem.layout.replace("A", "C")), plan.options
        key = (
            *(device.current_index(), plan.launch, *options, *options.values()),
            *(problem.semiring, problem.dtype, problem.operand_dtype, problem.accumulate, problem.triangle),
            *(problem.layout, _exactly(problem.alpha), _exactly(problem.beta)),
            *[(x.place, x.alignment, x.by_columns, x.ld % WHOLE == 0) for x in matrices],
        )  # fmt: skip
        templates = self._known.get(key, ())
        if templates is None or not (problem.m and problem.n and problem.k):
            return None
        sizes = problem.m, problem.n, problem.k, *[x.ld for x in matrices]
        for number, (numbers_of, packed) in enumerate(templates):
            numbers = numbers_of(*sizes)
            if numbers is not None:
                if number:
                    templates.insert(0, templates.pop(number))
                return packed.of(numbers)
        if templates == ():  # a program that comes once need not be described twice
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = []
            return None
        template = self._template(plan, problem, matrices, itemsizes, sizes) if len(templates) < _MOST_OF_ONE else None
        if template is None:
            self._known[key] = None
            return None
        templates.insert(0, template)
        return template[1].of(template[0](*sizes))

    def _template(
        self,
        plan: Plan,
        problem: Problem,
        matrices: Sequence[Matrix],
        itemsizes: Mapping[str, int],
        sizes: tuple[int, ...],
    ) -> _Template | None:
        """Return the template of these sizes and others; None: there is none."""
        names = ("m", "n", "k", *(f"ld_{number}" for number in range(len(matrices))))
        recording = Recording(dict(zip(names, sizes, strict=True)))
        m, n, k, *lds = recording.symbols.values()
        lines = {"a": (k, m), "b": (n, k)}
        symbols = [
            x._replace(ld=ld, line=lines.get(x.place.buffer, (n, m))[x.by_columns])
            for x, ld in zip(matrices, lds, strict=True)
        ]
        try:
            program, of_self = self._describe(
                _changed(plan, problem=problem.laid_out(problem.layout, m=m, n=n, k=k)), *symbols
            )
            if of_self is not None or any(isinstance(step, Call) for step in program.steps):
                return None
            packed = PackedProgram(program, itemsizes)
            return recording.function(packed.numbers), packed
        except Exception:  # noqa: BLE001 - what numbers raise too is raised by them
            return None


def _changed(x: Any, **fields: Any) -> Any:
    """Return a copy of a frozen object, whose fields are not checked again."""
    changed = copy.copy(x)
    vars(changed).update(fields)
    return changed


def _exactly(x: Any) -> bytes | None:
    """Return a scalar as a key, where zeros have signs."""
    return None if x is None else x.tobytes()
