"""Run a program, and hold what it computes and what it touches against the definition.

After each of its three calls the result must be that of `oracle`; every byte that is no element of the result, of gaps
and of operands too, what it was; and the call refused where the docs say so, and nowhere else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from harness import registry
from harness.errors import BackendUnavailable, ProblemError, VerificationError
from harness.operands import shares_with_itself
from harness.proof.programs import oracle
from harness.proof.programs.memory import Memory
from harness.proof.programs.program import PRODUCTS, SEQUENCES, Program, View, contents, semiring_of
from harness.semiring import HALF

TURNS = (0, 1, 2)  # the first arrays, others of the same layouts, and the first again

Calls = Mapping[str, Callable[..., Any]]  # the public calls, by name


# Options that a simpler program has not.
_NEEDLESS = set("threads alpha beta path block method sources directed lengths reverse".split())


class Outcome(NamedTuple):
    """What became of a program: empty texts if it was computed, and all is right."""

    refusal: str = ""  # the first line of the message, where the rules have one
    wrong: str = ""  # what is wrong, and at which call


def run(program: Program, calls: Calls, memory: Memory) -> Outcome:
    """Run a program three times, and return what became of it."""
    first: tuple[list[Any], list[Any]] | None = None
    refusal = ""
    for turn in TURNS:
        before = contents(program, turn)
        if first and turn == TURNS[-1]:
            placed, arrays = first
            for buffer, content in zip(placed, before, strict=True):
                memory.store(buffer, content)
        else:
            placed = [memory.place(content) for content in before]
            arrays = [memory.view(placed[view.buffer], view) for view in program.views]
            first = first or (placed, arrays)
        results, wrong = None, ""
        try:
            got = _call(program, calls[program.call], arrays)
            results = _results(program, got, arrays)
        except (ProblemError, BackendUnavailable) as error:
            refusal, wrong = str(error).partition("\n")[0], _wrong_refusal(program, memory, error)
        except Exception as error:  # noqa: BLE001 whatever a call raises is told
            wrong = f"{type(error).__name__}: {error}"
        if results is not None and (rule := _refused_by_rule(program)):
            wrong = f"computed, where {rule}"
        if not wrong:
            wrong = _compared(program, before, [memory.fetch(x) for x in placed], results, memory)
        if wrong:
            return Outcome(wrong=f"call {turn + 1}: {wrong}")
    return Outcome(refusal)


def _call(program: Program, function: Callable[..., Any], arrays: list[Any]) -> Any:
    """Return what the public call returns."""
    options = {name: x for name, x in program.options.items() if name != "subscripts"}
    semiring, count = semiring_of(program.semiring), len(program.operands)
    if not SEQUENCES.get(program.call):
        options["semiring"] = program.semiring if semiring.is_named else semiring
    if program.out:
        options["out"] = arrays[count] if len(program.out) == 1 else tuple(arrays[count:])
    if program.call == "einsum":
        return function(program.options["subscripts"], *arrays[:count], **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*looks like probabilities")
        return function(**dict(zip(program.operands, arrays, strict=False)), **options)


def _results(program: Program, got: Any, arrays: list[Any]) -> list[Any]:
    results = list(got) if isinstance(got, tuple) else [got]
    if not program.out and any(np.shares_memory(x, y) for x in arrays for y in results if isinstance(y, np.ndarray)):
        raise AssertionError("a new result shares memory with an operand")
    if any(given is not result for given, result in zip(arrays[len(program.operands) :], results, strict=False)):
        raise AssertionError("out was given, and another array was returned")
    return results


def _compared(
    program: Program, before: list[np.ndarray], after: list[np.ndarray], results: list[Any] | None, memory: Memory
) -> str:
    """Return what is wrong with the results, or which bytes have changed that are none of theirs; or nothing."""
    if results is not None:
        on_host = [view.of(after[view.buffer]).copy() for view in program.out] or [memory.fetch(x) for x in results]
        try:
            oracle.check(program, before, on_host)
        except VerificationError as error:
            return str(error)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        changed = old != new
        for view in program.out if results is not None else ():
            if view.buffer == number:
                view.bytes_of(changed)[...] = False
        if changed.any():
            at, names = int(changed.argmax()), [x for x, view in program.operands.items() if view.buffer == number]
            where = f"byte {at} of {old.size} of the buffer of {', '.join(names) or 'out'}"
            return f"{where} is no element of the result, and has changed from {old[at]} to {new[at]}"
    return ""


def _refused_by_rule(program: Program) -> str:
    """Return why the docs say that the program is refused, or nothing."""
    for name in ("alpha", "beta"):
        if np.isnan(program.options.get(name, 0)):
            return f"{name} is NaN"
    for view in program.out:
        if not view.is_writable:
            return "out is read-only"
        if shares_with_itself(view.shape, view.strides, view.numpy_dtype.itemsize):
            return "elements of out share memory"
    if len(program.out) == 2 and _share(*program.out):
        return "the two results share memory"
    return ""


def _share(x: View, y: View) -> bool:
    """Return whether two arrays have a byte in common."""
    marks = np.zeros(max(x.span[1], y.span[1]), np.uint8)
    x.bytes_of(marks)[...] = 1
    return x.buffer == y.buffer and bool(y.bytes_of(marks).any())


def _wrong_refusal(program: Program, memory: Memory, error: Exception) -> str:
    """Return why it is wrong that the program was refused, or nothing."""
    if _refused_by_rule(program):
        return "" if isinstance(error, ProblemError) else f"refused by the wrong error: {error}"
    if len(program.out) == 2 and memory.on_device and program.out[0].buffer == program.out[1].buffer:
        return ""  # on a device they are compared by what they span
    if isinstance(error, BackendUnavailable):
        is_mixed = "dtype" in program.options
        if is_mixed and np.isinf(program.options.get("alpha", 0)):
            return ""  # docs/mixed.md
        is_half = any(view.numpy_dtype == HALF for view in program.operands.values())
        if program.call == "gemm_argk" and is_half and not memory.on_device:
            return ""  # docs/semirings.md
        if program.backend != "auto":
            before = contents(program, 0)
            problem = oracle.product_of(program, [oracle.read(view, before) for view in program.operands.values()])[0]
            if registry.refusal(registry.find(program.backend), problem.of_one()):
                return ""
    return f"refused: {error}"


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """Return the program without what it does not need to be wrong: options, C, `out`, layouts, and odd values."""
    for simpler in _simplifications(program):
        if simpler != program and is_wrong(simpler):
            return shrunk(simpler, is_wrong)
    return program


def _simplifications(program: Program) -> Iterator[Program]:
    """Yield programs that lack one thing of `program`."""
    added = PRODUCTS[program.call][1] if program.call in PRODUCTS else ""
    without_c = {name: view for name, view in program.operands.items() if name != added}
    yield replace(program, operands=without_c, options={x: y for x, y in program.options.items() if x != "beta"})
    for name in set(program.options) & _NEEDLESS:
        yield replace(program, options={x: y for x, y in program.options.items() if x != name})
    yield replace(program, out=())
    yield replace(program, values=program.values if program.call == "closure" else "few")
    for index, view in enumerate(program.views):
        itemsize, views = view.numpy_dtype.itemsize, program.views
        plain = replace(
            view, buffer=len(program.buffers), strides=np.empty(view.shape, f"V{itemsize}").strides, offset=0
        )
        if plain.strides != view.strides or sum(other.buffer == view.buffer for other in views) > 1:
            views[index], count = plain, len(program.operands)
            operands = dict(zip(program.operands, views[:count], strict=True))
            buffers = (*program.buffers, math.prod(view.shape) * itemsize)
            yield replace(program, operands=operands, out=tuple(views[count:]), buffers=buffers)
