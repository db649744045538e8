"""The ladder, rung by rung: idea, loops, the code of the innermost ones, where operands lie, and what it reaches."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness import registry
from harness.analysis import mean_sizes, peaks, rates
from harness.page import extra
from harness.page.colours import LEVELS, variable
from harness.page.recorded import Recorded, digits
from harness.report import tables
from harness.store.store import Cell

LADDER, ROOFLINE = "ladder", "roofline"
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
    alt = extra.altair()
    blocks = PICTURES[label]
    names = list(dict.fromkeys(matrix for matrix, *_ in blocks))
    outline = [_record((name, 0, SIDE, 0, SIDE, "")) for name in names]
    scale = alt.Scale(domain=[0, SIDE], nice=False)
    panels = []
    for name in names:
        rectangles = [_record(block) for block in blocks if block[0] == name]
        place = {
            "x": alt.X("left:Q", scale=scale, axis=None),
            "x2": "right:Q",
            "y": alt.Y("top:Q", scale=alt.Scale(domain=[SIDE, 0], nice=False), axis=None),
            "y2": "bottom:Q",
        }
        frame = alt.Chart(alt.Data(values=outline[:1])).mark_rect(fill=None, stroke="currentColor", strokeOpacity=0.5)
        parts = alt.Chart(alt.Data(values=rectangles)).mark_rect(stroke="currentColor", strokeWidth=0.6)
        layers = frame.encode(**place), parts.encode(**place, fill=alt.Fill("colour:N", scale=None))
        panels.append(alt.layer(*layers).properties(width=110, height=110, title=name))
    chart = alt.hconcat(*panels, spacing=18).configure(background="transparent", padding=2)
    chart = chart.configure_title(color="currentColor", fontWeight="normal", fontSize=13, offset=4)
    chart = chart.configure_view(stroke=None)
    said = "; ".join(f"{matrix} in {level}" for matrix, *_, level in blocks)
    drawn = str(extra.converter().vegalite_to_svg(chart.to_dict()))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="What {label} touches: {said}" ', 1)


def _record(block: Block) -> dict[str, Any]:
    _, top, bottom, left, right, level = block
    colour = f"var({variable(f'level {level}')})" if level else ""
    return {"top": top, "bottom": bottom, "left": left, "right": right, "colour": colour}


def levels() -> list[tuple[str, str]]:
    """Return the levels of memory with the variables of their colours, for a legend."""
    return [(name, variable(f"level {name}")) for name in LEVELS]


def roofline(recorded: Recorded) -> list[dict[str, Any]]:
    """Return the points of the roofline over plus_times float64: measured roofs, and each rung at each shape."""
    own = [c for c in recorded.cells if c.experiment == ROOFLINE and c.is_ok and not rates.is_on_device(c)]
    peak = next((c for c in own if rates.is_peak(c) and rates.axis(c, "semiring") == "plus_times"), None)
    bandwidths = [cell for cell in own if cell.axes.get("role") == "bandwidth"]
    products = [
        c for c in rates.contenders(own) if rates.axis(c, "semiring") == "plus_times" and c.facts.get("bytes_moved")
    ]
    if peak is None or not products:
        return []
    top = peaks.roof_rate(peak)
    intensities = [cell.facts["operations"] / cell.facts["bytes_moved"] for cell in products]
    least, most = min(intensities) / 2, max(intensities) * 2
    points: list[dict[str, Any]] = []
    for cell in bandwidths:
        slope, name = peaks.roof_rate(cell), f"reads from {cell.axes['level']}"
        knee = max(min(top / slope, most), least)
        points += [_roof(name, least, slope * least, "begin"), _roof(name, knee, min(top, slope * knee))]
    points += [_roof("measured peak", least, top), _roof("measured peak", most, top, "end")]
    return points + [_point(cell) for cell in _of_rungs(products)]


def _of_rungs(products: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in products if cell.contender in KERNELS]


def _roof(name: str, x: float, y: float, named_at: str = "") -> dict[str, Any]:
    return {"kind": "roof", "name": name, "x": digits(x), "y": digits(y), "named_at": named_at}


def _point(cell: Cell) -> dict[str, Any]:
    rate = rates.rate_interval(cell)
    return {
        "kind": "rung",
        "name": cell.contender,
        "shape": str(cell.axes.get("shape", "")),
        "x": digits(cell.facts["operations"] / cell.facts["bytes_moved"]),
        "y": digits(rate.estimate),
        "value": f"{tables.number(rate)} {rates.unit([cell])}",
        "colour": f"var({variable(str(rates.axis(cell, 'backend')))})",
    }
