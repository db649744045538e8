"""Programs of a backend, each described once for all sizes that decide alike: others only have other numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._program.packed import Numbers, PackedProgram, Packing
from backends.gpu._program.program import Call, Matrix, Program
from backends.gpu._program.symbols import Recording
from harness.plan import Plan

# Describes a product, and the same where B is A transposed, or None; of matrices in the order of their buffers.
Describe = Callable[..., tuple[Program, Program | None]]

# Numbers of the programs of some sizes; None: they are described otherwise.
_Template = tuple[Callable[..., Numbers | None], Packing]

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
        problem, options = plan.problem, plan.options
        key = (
            *(device.current_index(), plan.launch, *options, *options.values()),
            *(problem.semiring, problem.dtype, problem.operand_dtype, problem.accumulate, problem.triangle),
            *(problem.layout, _exactly(problem.alpha), _exactly(problem.beta)),
            *[(x.place, x.alignment, x.by_columns) for x in matrices],
        )  # fmt: skip
        templates = self._known.get(key, ())
        if templates is None or not (problem.m and problem.n and problem.k):
            return None
        sizes = problem.m, problem.n, problem.k, *[x.ld for x in matrices]
        for number, (numbers_of, packing) in enumerate(templates):
            numbers = numbers_of(*sizes)
            if numbers is not None:
                if number:
                    templates.insert(0, templates.pop(number))
                return PackedProgram.of(packing, numbers)
        if templates == ():  # a program that comes once need not be described twice
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = []
            return None
        template = self._template(plan, matrices, itemsizes, sizes) if len(templates) < _MOST_OF_ONE else None
        if template is None:
            self._known[key] = None
            return None
        templates.insert(0, template)
        return PackedProgram.of(template[1], template[0](*sizes))

    def _template(
        self, plan: Plan, matrices: Sequence[Matrix], itemsizes: Mapping[str, int], sizes: tuple[int, ...]
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
            program, of_self = self._describe(_changed(plan, problem=_changed(plan.problem, m=m, n=n, k=k)), *symbols)
            if of_self is not None or any(isinstance(step, Call) for step in program.steps):
                return None
            packing = Packing(program, itemsizes)
            return recording.function(packing.numbers), packing
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
