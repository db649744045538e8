"""Listing of a generated tile: its loop over k in pseudo-code and in the assembly that LLVM makes of it.

The assembly is the innermost loop alone. The tile has several that differ by their prefetches; the listed one has none.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from backends.cpu._simd.kernel import KernelKey, steps_per_iteration, whole_tile_name
from backends.cpu._simd.kernel_table import assembly_of_tiles
from harness.dtypes import is_complex

_LABEL = re.compile(r"^([.\w$]+):", re.MULTILINE)
_LOCAL = re.compile(r"\.?L")  # how the labels inside a function begin, by file format
_COMMENT = re.compile(r"\s+(##?|//|;)\s.*$")
_PREFETCHES = ("prefetch", "prfm")  # of x86 and of ARM
_NO_INSTRUCTION = (".", "#", "//", ";")  # directives and comments


def list_tile(key: KernelKey) -> str:
    """Return the loop of the whole tile of `key`, compiled anew for this processor."""
    loop = hot_loop(assembly_of_tiles(key), whole_tile_name(key))
    return "\n".join([*pseudo_code(key), "", *loop])


def pseudo_code(key: KernelKey) -> list[str]:
    """Return the loop of the whole tile, line by line, as it is generated."""
    lanes, vectors = key.lanes, range(key.nv)
    parts, end = ("re(A[i, p])", "im(A[i, p])"), "C[i, j] := c_0[i, j] + i c_1[i, j]"
    if not is_complex(np.dtype(key.dtype)):
        parts, end = ("A[i, p]",), ""
    terms = [
        line
        for number, part in enumerate(parts)
        for line in (f"x := {part} in all lanes", *_extended(f"c_{number}" if end else "c", key.nv))
    ]
    return [
        f"{whole_tile_name(key)}: {key.mr} rows x {key.nv} vectors of {lanes} {key.dtype}, unit {key.unit}",
        f"(+) is {key.operations.add}, (x) is {key.operations.multiply}, every c begins as {key.operations.zero}",
        f"for p in range(k):                    steps in an iteration of the loop: {steps_per_iteration(key)}",
        *(f"    b[{j}] := B[p, {j * lanes}:{(j + 1) * lanes}]" for j in vectors),
        f"    for i in range({key.mr}):                unrolled",
        *(f"        {term}" for term in terms),
        *([end] if end else []),
    ]


def _extended(sums: str, vectors: int) -> list[str]:
    return [f"{sums}[i, {j}] := {sums}[i, {j}] (+) x (x) b[{j}]" for j in range(vectors)]


def hot_loop(assembly: str, function: str) -> list[str]:
    """Return label and instructions of the main loop of `function`, without comments.

    That is, the loop without prefetches that repeats an instruction most often, the shortest if there are several.

    Raises
    ------
    LookupError
        If the assembly has no such function, or the function no loop.
    """
    loops = list(_loops(assembly, function))
    if not loops:
        raise LookupError(f"no loop in a function {function!r}")
    return min(loops, key=_distance_from_main)


def _distance_from_main(loop: list[str]) -> tuple[bool, int, int]:
    mnemonics = Counter(line.split()[0] for line in loop[1:])
    has_prefetch = any(name.startswith(_PREFETCHES) for name in mnemonics)
    return has_prefetch, -max(mnemonics.values()), len(loop)


def _loops(assembly: str, function: str) -> Iterator[list[str]]:
    """Yield the loops of `function` that are one block: instructions from a label to a jump back to it."""
    labels = list(_LABEL.finditer(assembly))
    is_inside = False
    for label, following in itertools.zip_longest(labels, labels[1:]):
        if not _LOCAL.match(label[1]):
            is_inside = label[1] in (function, f"_{function}")  # the second on macOS
        if is_inside:
            text = assembly[label.end() : following.start() if following else None]
            yield from _loop(label[1], text)


def _loop(label: str, text: str) -> Iterator[list[str]]:
    """Yield the instructions at the beginning of `text` up to a jump back to `label`, if there is one."""
    loop = [f"{label}:"]
    for line in text.splitlines()[1:]:
        instruction = _COMMENT.sub("", line).strip().replace("\t", " ")
        if instruction and not instruction.startswith(_NO_INSTRUCTION):
            loop.append(f"    {instruction}")
            if instruction.split()[-1] == label:
                yield loop
                return
