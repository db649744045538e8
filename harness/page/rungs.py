"""The ladder, rung by rung: idea, loops, the code of the innermost ones, where operands lie, and what it reaches."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness import registry
from harness.analysis import mean_sizes, peaks, rates
from harness.page.colours import LEVELS, variable
from harness.page.recorded import Recorded
from harness.report import tables

LADDER = "ladder"
# The function that holds the innermost loops of a rung, by its label in the ladder: of these names the first that its
# module has.
KERNELS = {
    "cpu-naive": ("ijk", "naive"),
    "cpu-transposed": ("transposed",),
    "cpu-tiled reuse=1": ("one_by_one",),
    "cpu-tiled reuse=2": ("two_by_two",),
    "cpu-packed": ("step", "micro_kernel"),
    "cpu-simd": ("extend",),
}
# Where it lies, if not in the module of the backend.
ELSEWHERE = {"cpu-simd": "_simd/kernel.py"}
SIDE = 12  # of the matrices of a picture, in cells

# A block of a picture: matrix, first and last row and column (both from 0, the last excluded), where it lies.
Block = tuple[str, int, int, int, int, str]
# What the innermost loops of each rung touch, and where it lies then: a sketch of 12 x 12 matrices, not to scale but
# for the register tiles, which are those of float64 by AVX2.
PICTURES: dict[str, list[Block]] = {
    "cpu-naive": [("A", 4, 5, 0, 12, "L1"), ("B", 0, 12, 6, 7, "L3"), ("C", 4, 5, 6, 7, "registers")],
    "cpu-transposed": [("A", 4, 5, 0, 12, "L1"), ("B transposed", 6, 7, 0, 12, "L3"), ("C", 4, 5, 6, 7, "registers")],
    "cpu-tiled reuse=1": [
        ("A", 4, 8, 0, 6, "L2"),
        ("A", 5, 6, 0, 6, "L1"),
        ("B transposed", 4, 8, 0, 6, "L2"),
        ("B transposed", 6, 7, 0, 6, "L1"),
        ("C", 4, 8, 4, 8, "L2"),
        ("C", 5, 6, 6, 7, "registers"),
    ],
    "cpu-tiled reuse=2": [
        ("A", 4, 8, 0, 6, "L2"),
        ("A", 4, 6, 0, 6, "L1"),
        ("B transposed", 4, 8, 0, 6, "L2"),
        ("B transposed", 6, 8, 0, 6, "L1"),
        ("C", 4, 8, 4, 8, "L2"),
        ("C", 4, 6, 6, 8, "registers"),
    ],
    "cpu-packed": [
        ("A", 4, 12, 0, 6, "L2"),
        ("A", 4, 8, 0, 6, "L1"),
        ("B", 0, 6, 0, 12, "L3"),
        ("B", 0, 6, 2, 10, "L1"),
        ("C", 4, 12, 0, 12, "memory"),
        ("C", 4, 8, 2, 10, "registers"),
    ],
    "cpu-simd": [
        ("A", 4, 12, 0, 8, "L2"),
        ("A", 4, 10, 0, 8, "L1"),
        ("B", 0, 8, 0, 12, "L3"),
        ("B", 0, 8, 2, 10, "L1"),
        ("C", 4, 12, 0, 12, "memory"),
        ("C", 4, 10, 2, 10, "registers"),
    ],
}


class Rung(NamedTuple):
    """A rung of the ladder."""

    label: str
    idea: str
    source: str
    loops: str  # the loop nest, from the head of its module
    code: str
    picture: str  # SVG
    rate: str
    peak: str  # percent
    step: str  # speed over the rung below


def rungs(recorded: Recorded) -> list[Rung]:
    """Return the rungs that `recorded` has measured over plus_times, from the lowest; none without a ladder."""
    own = [c for c in recorded.cells if c.experiment == LADDER and rates.axis(c, "semiring") == "plus_times"]
    own = mean_sizes.merged(c for c in own if c.axes.get("role") in ("product", rates.PEAK))
    by_label = {row.cell.contender: row for row in tables.summary_rows(own)}
    backends = {entry.name: entry for entry in registry.discover() if entry.backend}
    found, below = [], None
    for label, functions in KERNELS.items():
        row, entry = by_label.get(label), backends.get(label.split()[0])
        if row is None or row.rate is None or entry is None or entry.backend is None:
            continue
        path = source_of(entry.origin)
        peak = peaks.interval_of_peak(row.cell, own)
        found.append(
            Rung(
                label=label,
                idea=entry.backend.idea,
                source=entry.backend.source,
                loops=loops_of(path),
                code=function_of(path.parent / ELSEWHERE.get(label, path.name), functions),
                picture=picture(label),
                rate=f"{tables.number(row.rate)} {row.unit}",
                peak=tables.number(peak),
                step=tables.number(rates.step(row.cell, below)) if below else "",
            )
        )
        below = row.cell
    return found


def source_of(module: str) -> Path:
    """Return the file of a module."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


def loops_of(path: Path) -> str:
    """Return the loop nest at the head of a module, as every kernel states it: its first indented lines."""
    head = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    rest = itertools.dropwhile(lambda line: not line.startswith("    "), head.splitlines())
    block = itertools.takewhile(lambda line: line.startswith("    "), rest)
    lines = [re.split(r"\s{2,}", line.strip()) for line in block]
    return "\n".join(f"{first:<14}  {', '.join(more)}" for first, *more in lines)


def function_of(path: Path, names: Sequence[str]) -> str:
    """Return the source of a function of a file, wherever it is nested, without its docstring; empty if it has none.

    It is the first of `names` that is there.
    """
    text = path.read_text(encoding="utf-8")
    functions = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    node = next((functions[name] for name in names if name in functions), None)
    if node is None:
        return ""
    first = node.body[1 if ast.get_docstring(node) else 0]
    lines = text.splitlines()
    body = lines[first.lineno - 1 : node.end_lineno]
    return textwrap.dedent("\n".join([*lines[node.lineno - 1 : node.body[0].lineno - 1], *body]))


def picture(label: str) -> str:
    """Return as SVG which parts of A, B and C the innermost loops of a rung touch, and where these lie."""
    blocks = PICTURES[label]
    names = list(dict.fromkeys(matrix for matrix, *_ in blocks))
    step, wide, drawn = 9, 9 * SIDE + 18, []
    for place, name in enumerate(names):
        drawn.append(f'<text x="{place * wide + step * SIDE / 2}" y="12" text-anchor="middle">{name}</text>')
        drawn.append(_rectangle((name, 0, SIDE, 0, SIDE, ""), place * wide, step))
        drawn += [_rectangle(block, place * wide, step) for block in blocks if block[0] == name]
    said = "; ".join(f"{matrix} in {level}" for matrix, *_, level in blocks)
    size = f'viewBox="-1 0 {wide * len(names)} {step * SIDE + 20}" width="{wide * len(names)}"'
    return f'<svg role="img" aria-label="What {label} touches: {said}" {size}>{"".join(drawn)}</svg>'


def _rectangle(block: Block, left: int, step: int) -> str:
    _, top, bottom, begin, end, level = block
    x, y, width, height = left + step * begin, 18 + step * top, step * (end - begin), step * (bottom - top)
    fill = f"var({variable(f'level {level}')})" if level else "none"
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="currentColor"/>'


def levels() -> list[tuple[str, str]]:
    """Return the levels of memory with the variables of their colours, for a legend."""
    return [(name, variable(f"level {name}")) for name in LEVELS]
