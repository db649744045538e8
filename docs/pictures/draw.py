"""Draw the pictures of the first hour: what the inner loops touch, in which order, and where it lies then.

    .venv/bin/python docs/pictures/draw.py

The blocks of the rungs of the CPU are those of the explorable page.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from harness.page.colours import LEVELS
from harness.page.rungs import PICTURES, SIDE, Block

FOLDER = Path(__file__).parent
CELL, LEFT, TOP, GAP = 13, 24, 34, 64  # pixels: a cell of a matrix, margins, between matrices
EDGE = SIDE * CELL
WIDTH, HEIGHT = 2 * LEFT + 3 * EDGE + 2 * GAP, TOP + EDGE + 76
INK, FAINT, PAPER = "#1B1B1B", "#C9CED3", "#FFFFFF"
GPU = {
    "registers": LEVELS["registers"],
    "other threads": LEVELS["L3"],
    "shared memory": LEVELS["L1"],
    "global memory": LEVELS["memory"],
}
RANKS = {"computed": LEVELS["registers"], "its own": LEVELS["L2"], "received": LEVELS["memory"]}

# From row and column to row and column: the way of the inner loop through a matrix.
Arrow = tuple[str, float, float, float, float]


class Picture(NamedTuple):
    """Blocks of three matrices by where they lie, the ways through them, and a label below each matrix."""

    blocks: list[Block]
    arrows: list[Arrow]
    labels: tuple[str, str, str]
    colours: dict[str, str] = LEVELS


def rung(label: str, arrows: list[Arrow], labels: tuple[str, str, str]) -> Picture:
    """Return the picture of a rung of the CPU."""
    return Picture(PICTURES[label], arrows, labels)


OF_RUNGS = {
    "naive": rung(
        "cpu-naive",
        [("A", 4.5, 0.5, 4.5, 11.5), ("B", 0.5, 6.5, 11.5, 6.5)],
        ("along a row", "down: a new line each step", "one sum"),
    ),
    "transposed": rung(
        "cpu-transposed",
        [("A", 4.5, 0.5, 4.5, 11.5), ("B transposed", 6.5, 0.5, 6.5, 11.5)],
        ("along a row, by vectors", "along a row, by vectors", "one vector of sums"),
    ),
    "tiled": rung(
        "cpu-tiled reuse=2",
        [("A", 5, 0.5, 5, 5.5), ("B transposed", 7, 0.5, 7, 5.5)],
        ("two rows, used again", "two rows, used again", "2 x 2 vectors of sums"),
    ),
    "packed": rung(
        "cpu-packed",
        [("A", 6, 0.5, 6, 5.5), ("B", 0.5, 6, 5.5, 6)],
        ("4 broadcasts a step", "2 vectors of 4 a step", "4 x 2 vectors of sums"),
    ),
    "simd": rung(
        "cpu-simd",
        [("A", 7, 0.5, 7, 7.5), ("B", 0.5, 6, 7.5, 6)],
        ("6 broadcasts a step", "2 vectors of 4 a step", "6 x 2 vectors of sums"),
    ),
    "ranks": Picture(
        [
            ("A", 0, 6, 0, 6, "its own"),
            ("A", 0, 6, 6, 12, "received"),
            ("B", 0, 6, 0, 6, "its own"),
            ("B", 6, 12, 0, 6, "received"),
            ("C", 0, 6, 0, 6, "computed"),
        ],
        [("A", 3, 11, 3, 4), ("B", 11, 3, 4, 3)],
        ("from its row of ranks", "from its column of ranks", "one of 2 x 2 ranks"),
        RANKS,
    ),
    "gpu-naive": Picture(
        [("A", 4, 5, 0, 12, "global memory"), ("B", 0, 12, 2, 10, "global memory"), ("C", 4, 5, 2, 10, "registers")],
        [("A", 4.5, 0.5, 4.5, 11.5), ("B", 0.5, 6, 11.5, 6)],
        ("one element for a warp", "neighbours: one transaction", "a thread an element"),
        GPU,
    ),
    "gpu-row": Picture(
        [("A", 2, 10, 0, 12, "global memory"), ("B", 0, 12, 6, 7, "shared memory"), ("C", 2, 10, 6, 7, "registers")],
        [("A", 6, 0.5, 6, 11.5), ("B", 0.5, 6.5, 11.5, 6.5)],
        ("a line for each thread", "one column for all", "a thread a row"),
        GPU,
    ),
    "gpu-tiled": Picture(
        [
            ("A", 4, 8, 0, 12, "global memory"),
            ("A", 4, 8, 4, 8, "shared memory"),
            ("B", 0, 12, 4, 8, "global memory"),
            ("B", 4, 8, 4, 8, "shared memory"),
            ("C", 4, 8, 4, 8, "registers"),
        ],
        [("A", 6, 4.5, 6, 11.5), ("B", 4.5, 6, 11.5, 6)],
        ("tile by tile to the right", "tile by tile down", "a thread an element"),
        GPU,
    ),
    "gpu-register-tiled": Picture(
        [
            ("A", 2, 10, 0, 12, "global memory"),
            ("A", 2, 10, 4, 6, "shared memory"),
            *(("A", row, row + 1, 4, 5, "registers") for row in (3, 7)),
            ("B", 0, 12, 2, 10, "global memory"),
            ("B", 4, 6, 2, 10, "shared memory"),
            *(("B", 4, 5, column, column + 1, "registers") for column in (3, 7)),
            ("C", 2, 10, 2, 10, "other threads"),
            *(("C", row, row + 1, column, column + 1, "registers") for row in (3, 7) for column in (3, 7)),
        ],
        [],
        ("2 values (in truth 8)", "2 values (in truth 8)", "4 sums (in truth 64)"),
        GPU,
    ),
}


def text(x: float, y: float, said: str, *, anchor: str = "middle", size: int = 14) -> str:
    """Return a line of text."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{said}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, line: str = INK) -> str:
    """Return a rectangle."""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} fill="{fill}" stroke="{line}" stroke-width="0.7"/>'


def page(said: str, height: float, parts: list[str]) -> str:
    """Return an SVG on paper, which is light on a dark page too; `said` is read aloud."""
    arrow = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" role="img" '
        f'aria-label="{said}" font-family="Helvetica, Arial, sans-serif">'
    )
    defined = f'<defs>{arrow}<path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>'
    paper = f'<rect width="{WIDTH}" height="{height:g}" rx="6" fill="{PAPER}"/>'
    return "\n".join([head, defined, paper, *parts, "</svg>", ""])


def drawn(name: str, picture: Picture) -> str:
    """Return the picture of a rung as SVG."""
    names = list(dict.fromkeys(block[0] for block in picture.blocks))
    left = {matrix: LEFT + index * (EDGE + GAP) for index, matrix in enumerate(names)}
    parts = []
    for matrix, label in zip(names, picture.labels, strict=True):
        middle = left[matrix] + EDGE / 2
        parts += [text(middle, TOP - 11, matrix), box(left[matrix], TOP, EDGE, EDGE, PAPER)]
        for at in range(1, SIDE):
            x, y = left[matrix] + at * CELL, TOP + at * CELL
            grid = f"M{x} {TOP}v{EDGE}M{left[matrix]} {y}h{EDGE}"
            parts.append(f'<path d="{grid}" stroke="{FAINT}" stroke-width="0.6"/>')
        parts.append(text(middle, TOP + EDGE + 21, label))
    for matrix, top, bottom, first, last, level in picture.blocks:
        x, y = left[matrix] + first * CELL, TOP + top * CELL
        parts.append(box(x, y, (last - first) * CELL, (bottom - top) * CELL, picture.colours[level]))
    for matrix, from_row, from_column, to_row, to_column in picture.arrows:
        x, y = left[matrix] + from_column * CELL, TOP + from_row * CELL
        way = f"M{x:g} {y:g}L{left[matrix] + to_column * CELL:g} {TOP + to_row * CELL:g}"
        parts += [
            f'<path d="{way}" stroke="{PAPER}" stroke-width="5" stroke-linecap="round"/>',
            f'<path d="{way}" stroke="{INK}" stroke-width="2" marker-end="url(#tip)"/>',
        ]
    used = {block[5] for block in picture.blocks}
    x = float(LEFT)
    for level, colour in picture.colours.items():
        if level in used:
            parts += [box(x, TOP + EDGE + 43, 14, 14, colour), text(x + 20, TOP + EDGE + 55, level, anchor="start")]
            x += 44 + 8 * len(level)
    return page(f"What {name} touches: {'; '.join(picture.labels)}", HEIGHT, parts)


def sets() -> str:
    """Return where the lines of a column of B fall in a cache of 64 sets, for two lengths of its rows."""
    side, columns, number, line = 16, 16, 64, 64
    parts = []
    for index, n in enumerate((1000, 1024)):
        apart = n * 8 // line
        taken = {p * apart % number for p in range(n)}
        x0 = LEFT + index * (columns * side + 92)
        parts.append(text(x0, 26, f"n = {n}: rows {apart} lines apart", anchor="start"))
        for at in range(number):
            colour = LEVELS["L1"] if at in taken else PAPER
            parts.append(box(x0 + at % columns * side, 40 + at // columns * side, side, side, colour))
        plural = "s" * (len(taken) > 1)
        parts.append(text(x0, 128, f"a column of B meets {len(taken)} set{plural} of 64", anchor="start"))
    return page("The sets of L1 that a column of B meets, at n = 1000 and 1024", 144, parts)


def pictures() -> dict[str, str]:
    """Return every picture by the name of its file."""
    return {**{f"{name}.svg": drawn(name, picture) for name, picture in OF_RUNGS.items()}, "sets.svg": sets()}


if __name__ == "__main__":
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
        print(FOLDER / name)
