"""Programs of a backend, each described once for all sizes that decide alike: others only have other numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._program.packed import PackedProgram, Packing
from backends.gpu._program.program import Call, Matrix, Program
from backends.gpu._program.symbols import Recording
from harness.interface import ALIGNMENT
from harness.plan import Plan
from harness.problem import Problem

# Describes a product, and the same where B is A transposed, or None; of matrices in the order of their buffers.
Describe = Callable[..., tuple[Program, Program | None]]

# Numbers of the programs of some sizes; None: they are described otherwise.
_Template = tuple[Callable[..., Any], Packing | None]

# Most kinds of products that are kept, and most templates of one.
_MOST, _MOST_OF_ONE = 1024, 64


# By what describes, and all but sizes: the plan's tiles and options, dtypes, scalars, and how matrices lie.
_known: dict[Hashable, tuple[_Template, ...]] = {}


def find(
    describe: Describe, plan: Plan, matrices: Sequence[Matrix], itemsizes: Mapping[str, int]
) -> PackedProgram | None:
    """Return the program of a plan for matrices; None: it is to be described for these sizes alone.

    So it is if it is the first of its kind, if a library computes it, or if another program takes its place where
    B is A transposed.
    """
    problem, options, alpha, beta = plan.problem, plan.options, plan.problem.alpha, plan.problem.beta
    layout = problem.layout.replace("A", "C")  # what is described reads columns or rows, with gaps or without
    key = (
        *(describe, device.current_index(), plan.launch, *options, *options.values(), layout),
        *(problem.semiring, problem.dtype, problem.operand_dtype, problem.accumulate),
        *(problem.triangle, problem.conjugate),
        *(alpha if alpha is None else alpha.tobytes(), beta if beta is None else beta.tobytes()),  # zeros have signs
        *[(x.place, x.alignment, x.by_columns, x.ld * itemsizes[x.place.buffer] % ALIGNMENT == 0) for x in matrices],
    )
    templates = _known.get(key)
    sizes = problem.m, problem.n, problem.k, *[x.ld for x in matrices]
    if 0 in sizes:
        return None
    if templates is None:  # a program that comes once need not be described twice
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = ()
        return None
    for template in templates:
        numbers_of, packing = template
        numbers = numbers_of(*sizes)
        if numbers is not None:
            if template is not templates[0]:
                _known[key] = (template, *(x for x in templates if x is not template))
            return packing and PackedProgram(packing, numbers)
    if len(templates) >= _MOST_OF_ONE:
        return None
    template = _template(describe, plan, problem.laid_out(layout), matrices, itemsizes, sizes)
    _known[key] = (template, *templates)
    numbers_of, packing = template
    return packing and PackedProgram(packing, numbers_of(*sizes))


def _template(
    describe: Describe,
    plan: Plan,
    problem: Problem,
    matrices: Sequence[Matrix],
    itemsizes: Mapping[str, int],
    sizes: tuple[int, ...],
) -> _Template:
    """Return the template of these sizes and others: without a program if they are described for each alone."""
    names = ("m", "n", "k", *(f"ld_{number}" for number in range(len(matrices))))
    recording = Recording(dict(zip(names, sizes, strict=True)))
    m, n, k, *lds = recording.symbols.values()
    lines = {"a": (k, m), "b": (n, k)}
    symbols = [
        x._replace(ld=ld, line=lines.get(x.place.buffer, (n, m))[x.by_columns])
        for x, ld in zip(matrices, lds, strict=True)
    ]
    try:
        of_symbols = problem.laid_out(problem.layout, m=m, n=n, k=k)
        program, of_self = describe(_changed(plan, problem=of_symbols), *symbols)
        if of_self is None and not any(isinstance(step, Call) for step in program.steps):
            packing = Packing(program, itemsizes)
            return recording.function(packing.numbers), packing
    except Exception:  # noqa: BLE001, S110 - what numbers raise too is raised by them
        pass
    return recording.function(()), None


def _changed(x: Any, **fields: Any) -> Any:
    """Return a copy of a frozen object, whose fields are not checked again."""
    changed = copy.copy(x)
    vars(changed).update(fields)
    return changed
