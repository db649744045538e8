"""The look of every figure: palette, type, a sheet with title, legend, panels and footer; reproducible files."""

from __future__ import annotations

import html
import io
import itertools
import math
import textwrap
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from harness.analysis import rates, rivals
from harness.store.store import Cell

# Okabe and Ito's palette: told apart with every common colour blindness. Yellow is left out: it vanishes on white.
GREY, INK, PALE = "#6E6E6E", "#222222", "#D9D9D9"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#5B4A9E", "#8C6D46", "#882255")

# Colour by role, the same in every figure: what users get is strong, the rungs of a ladder are one hue from light to
# dark (blue on the CPU, green on a GPU), libraries are warm or grey. Any other backend gets a colour by its name.
COLOURS = {
    "cpu-naive": "#C3D6E8",
    "cpu-transposed": "#9DBFDD",
    "cpu-tiled": "#74A6CF",
    "cpu-packed": "#4A8ABF",
    "cpu-simd": "#08519C",
    "cpu-mixed": "#08519C",
    "cpu-strassen": "#041F47",
    "cpu-numpy": "#7A7A7A",
    "cpu-scipy": "#B08D57",
    "cpu-blis": "#C9A227",
    "cpu-mkl": "#D55E00",
    "cpu-openblas": "#4D4D4D",
    "cpu-numkong": "#6B8E23",
    "cpu-torch": "#A23B72",
    "cpu-tropical-gemm": "#8C2D04",
    "gpu-naive-block": "#D3E8D3",
    "gpu-naive": "#B9DDB9",
    "gpu-row": "#A9D5AB",
    "gpu-tiled": "#98CD9C",
    "gpu-register-tiled": "#73B97C",
    "gpu-warp-tiled": "#4FA562",
    "gpu-pipelined": "#2F8C4B",
    "gpu-tuned": "#00632B",
    "gpu-tensor-core": "#5B2A86",
    "gpu-cublas": "#D55E00",
    "gpu-triton": "#B08D57",
    "gpu-torch": "#A23B72",
    "gpu-strassen": "#00331A",
    "gpu-mv-thread": "#C5E3C6",
    "gpu-mv-cached": "#9FD0A3",
    "gpu-mv-reduce": "#73B97C",
    "gpu-mv-grid": "#3F9A56",
    "gpu-mv-tuned": "#00632B",
    "gpu-mv-cublas": "#D55E00",
    "gpu-ozaki": "#5B2A86",
    "dist-root": "#C77CB5",
    "dist-1d": "#7FC4BD",
    "dist-2d": "#2F9088",
    "dist-3d": "#0B4F4A",
    "gemm": "#08519C",
    "harness": "#08519C",
    "gemm(a, b, out=c)": "#08519C",
    "gemm(a, b, out=c, threads=1)": "#74A6CF",
    "numpy.matmul": "#7A7A7A",
    "numpy.matmul(a, b, out=c)": "#7A7A7A",
    "scipy dijkstra": "#B08D57",
    "scipy floyd_warshall": "#7D5A2A",
    "scipy CSR": "#B08D57",
    "scipy DIA": "#7D5A2A",
    "PyTorch, broadcast": "#A23B72",
    "LAPACK": "#B08D57",
    "CUDA libraries": "#8C2D04",
    "factors of float64": "#74A6CF",
    "factors of float32": "#08519C",
    "factors of bfloat16": "#5B4A9E",
    "substitution": "#74A6CF",
    "blocks": "#08519C",
    "corrected": "#5B4A9E",
    "blocks, inverses on the host": "#009E73",
}
# Behind words that cross a line.
PAPER: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
ON_THE_CPU, ON_A_GPU, OF_PEERS = "#4A8ABF", "#4FA562", "#B08D57"  # where nothing but its place is known of a row
BELOW_MARKS = 1.8  # in the order of drawing: words on paper hide lines, but no mark
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
FEWEST_VARIANTS = 3  # of one backend alone in a figure that have colours of their own

# A figure is 8 inches wide: at the 800 pixels of a README page, 11 points are 15 pixels.
WIDTH, PNG_DPI, MARGIN = 8.0, 200, 0.12
FOOTER_CHARACTERS, SUBTITLE_CHARACTERS = 140, 96  # of a line; fewer where they do not fit
# Type of a title and characters of its lines, the largest in which it has no more lines than MOST_TITLE_LINES.
TITLE_TYPES = ((14.0, 72), (12.5, 80), (11.5, 88), (10.5, 96), (9.5, 106))
MOST_TITLE_LINES = 2
FEWEST_CHARACTERS = 20
TIED = "\N{NO-BREAK SPACE}"  # between a number and its percent sign, until lines are broken
ROW_GAP = 0.08  # inches above and below what belongs to a row of panels: the label of an axis is no title
PLACE_DIGITS = 5  # of a panel's place, in fractions of the figure: a hundredth of a pixel

FONTS = "'DejaVu Sans', Verdana, sans-serif"  # where the first is not installed, text is still text
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "gemm-harness",
    "svg.fonttype": "none",  # text is text: it can be searched, copied and read aloud
}


class Looks:
    """Colour by backend; marker and line tell the variants of one backend apart, colour too where it is the only one.

    Parameters
    ----------
    cells : iterable of Cell
        All that the figure shows.
    by : str
        The axis, or ``"contender"``, that separates one series from the next.
    """

    def __init__(self, cells: Iterable[Cell], by: str = "contender") -> None:
        self.by = by
        self._backend: dict[str, str] = {}
        for cell in cells:
            self._backend.setdefault(self.name(cell), str(rates.axis(cell, "backend")))
        self._colours = _colours(set(self._backend.values()))
        is_alone = len(self._colours) == 1 and len(self._backend) >= FEWEST_VARIANTS
        first = next(iter(self._colours.values()), INK)
        hues = [first, *(hue for hue in PALETTE if hue != first)]
        self._hues = dict(zip(self._backend, itertools.cycle(hues), strict=False)) if is_alone else {}

    def name(self, cell: Cell) -> str:
        """Return the series that `cell` belongs to."""
        return cell.contender if self.by == "contender" else str(rates.axis(cell, self.by))

    def of(self, name: str) -> dict[str, Any]:
        """Return matplotlib's arguments for the series called `name`."""
        backend = self._backend[name]
        variant = [other for other, other_backend in self._backend.items() if other_backend == backend].index(name)
        marker = list(dict.fromkeys(self._backend.values())).index(backend) + variant
        hue = self._hues.get(name, self._colours[backend])
        return {
            "color": hue,
            "marker": MARKERS[marker % len(MARKERS)],
            "linestyle": LINES[variant % len(LINES)],
            "markerfacecolor": "white" if variant % 2 else hue,
        }


def _colours(backends: set[str]) -> dict[str, str]:
    """Return a colour for each backend: that of `COLOURS`, else the first free one from a start by its name."""
    chosen = {backend: COLOURS[backend] for backend in backends if backend in COLOURS}
    for backend in sorted(backends - set(chosen)):
        first = zlib.crc32(backend.encode()) % len(PALETTE)
        wheel = [PALETTE[(first + i) % len(PALETTE)] for i in range(len(PALETTE))]
        chosen[backend] = next((hue for hue in wheel if hue not in chosen.values()), wheel[0])
    return chosen


def role_colour(cell: Cell) -> str:
    """Return the colour of a row that bears its name: that of its role, else the hue of where it computes."""
    known = COLOURS.get(str(rates.axis(cell, "backend")))
    own = OF_PEERS if rivals.is_peer(cell) else ON_A_GPU if rates.is_on_device(cell) else ON_THE_CPU
    return known or own


class Sheet:
    """A figure under construction: title and legend above, panels, footer below. Uses no global state of matplotlib.

    Attributes
    ----------
    title : str
        What came out, or what is shown where nothing can be said.
    subtitle : str
        What is shown, or empty.
    names : dict
        What stands behind the name of a series in the legend.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.subtitle = ""
        self.names: dict[str, str] = {}
        self.canvas = Canvas(figsize=(WIDTH, 4), dpi=PNG_DPI, layout="constrained")  # text is measured as it is drawn
        FigureCanvasAgg(self.canvas)
        self.legend: dict[str, Line2D] = {}
        self.notes: list[str] = []
        self._body = 4.0
        self._turned: list[tuple[Axes, Text, Any]] = []

    def panels(self, rows: int = 1, columns: int = 1, *, height: float = 3.4, **options: Any) -> list[Axes]:
        """Return ``rows x columns`` panels, row by row, `height` inches in all."""
        self._body = height
        return list(self.canvas.subplots(rows, columns, squeeze=False, **options).ravel())

    def add_to_legend(self, label: str, **look: Any) -> None:
        """Name a series once, even if several panels show it."""
        self.legend.setdefault(label, Line2D([], [], **look))

    def write_along(self, panel: Axes, text: str, line: tuple[tuple[float, float], tuple[float, float]]) -> None:
        """Write `text` above and along the straight line between two points of `panel`, from the first on."""
        label_style: dict[str, Any] = {
            "textcoords": "offset points",
            "rotation_mode": "anchor",
            "va": "bottom",
            "bbox": PAPER,
            "zorder": BELOW_MARKS,
        }
        self._turned.append((panel, panel.annotate(text, line[0], (10, 7), size=9.5, **label_style), line))

    def say(self, text: str) -> None:
        """Show `text` in a figure without data."""
        (panel,) = self.panels(height=1.2)
        panel.set_axis_off()
        panel.text(0.5, 0.5, text, ha="center", va="center", color=GREY, size=12)

    def save(self, path: Path, footer: str) -> list[Path]:
        """Lay out title, legend, panels and footer, and write ``path.svg`` and ``path.png``."""
        self._lay_out(footer)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = files(path)
        drawn = io.StringIO()
        self.canvas.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None, "Title": self.title})
        written[0].write_text(_described(drawn.getvalue(), f"{self.subtitle}. {footer}"), encoding="utf-8")
        self.canvas.savefig(written[1], dpi=PNG_DPI, metadata={"Software": None})
        return written

    def _lay_out(self, footer: str) -> None:
        """Give title, legend and footer the height they need, and the panels the rest."""
        title = self._written_title()
        about = self._written(self.subtitle, SUBTITLE_CHARACTERS, color=GREY, va="top")
        small = {"size": 8.2, "color": GREY, "va": "bottom", "linespacing": 1.35}
        below = self._written("\n".join([*self.notes, footer]), FOOTER_CHARACTERS, **small)
        legend = self._widest_legend() if self.legend else None
        below_title = self._inches(about)[1] + MARGIN / 2 if self.subtitle else 0.0
        heads = [self._inches(title)[1] + below_title, self._inches(legend)[1] if legend else 0.0]
        top, bottom = MARGIN + heads[0] + MARGIN + heads[1], 2 * MARGIN + self._inches(below)[1]
        height = top + self._body + bottom
        self.canvas.set_size_inches(WIDTH, height)
        title.set_position((MARGIN / WIDTH, 1 - MARGIN / height))
        about.set_position((MARGIN / WIDTH, 1 - (MARGIN + heads[0] - below_title + MARGIN / 2) / height))
        below.set_position((MARGIN / WIDTH, MARGIN / height))
        if legend:
            legend.set_bbox_to_anchor((MARGIN / WIDTH, 1 - (MARGIN + heads[0] + MARGIN / 2) / height))
        engine: Any = self.canvas.get_layout_engine()
        engine.set(h_pad=ROW_GAP, rect=(MARGIN / WIDTH, bottom / height, 1 - 2 * MARGIN / WIDTH, self._body / height))
        self._settle()
        for panel, label, line in self._turned:
            (x, y), (x_end, y_end) = panel.transData.transform(line)
            label.set_rotation(math.degrees(math.atan2(y_end - y, x_end - x)))

    def _settle(self) -> None:
        """Have the panels laid out and fix their positions, rounded: the solver does not repeat its last digits."""
        for _ in range(2):  # the second time starts from the first one's ticks and labels
            self.canvas.draw_without_rendering()
        self.canvas.set_layout_engine("none")
        for panel in self.canvas.axes:
            bounds = panel.get_position().bounds
            panel.set_position(Bbox.from_bounds(*(round(edge, PLACE_DIGITS) for edge in bounds)))

    def _written_title(self) -> Text:
        """Return the title on the canvas, in the largest type in which it has few lines."""
        for size, characters in TITLE_TYPES:
            title = self._written(self.title, characters, size=size, weight="bold", va="top")
            if title.get_text().count("\n") < MOST_TITLE_LINES or size == TITLE_TYPES[-1][0]:
                break
            title.remove()
        return title

    def _written(self, text: str, characters: int, **look: Any) -> Text:
        """Return `text` on the canvas, its lines broken so that they fit: letters differ in width."""
        while True:
            lines = [
                line.replace(TIED, " ")
                for part in text.replace(" %", f"{TIED}%").split("\n")
                for line in textwrap.wrap(part, characters, break_on_hyphens=False)
            ]
            written = self.canvas.text(0, 0, "\n".join(lines), **look)
            if self._inches(written)[0] <= WIDTH - 2 * MARGIN or characters <= FEWEST_CHARACTERS:
                return written
            written.remove()
            characters -= 2

    def _widest_legend(self) -> Legend:
        """Return the legend with as many columns as fit."""
        for columns in range(min(len(self.legend), 5), 0, -1):
            labels = [f"{name} ({self.names[name]})" if name in self.names else name for name in self.legend]
            handles = list(self.legend.values())
            legend = self.canvas.legend(handles, labels, loc="upper left", ncols=columns, borderaxespad=0)
            if columns == 1 or self._inches(legend)[0] <= WIDTH - 2 * MARGIN:
                break
            legend.remove()
        return legend

    def _inches(self, artist: Any) -> tuple[float, float]:
        box = artist.get_window_extent(self.canvas.canvas.get_renderer())  # type: ignore[attr-defined]
        return box.width / self.canvas.dpi, box.height / self.canvas.dpi


def files(path: Path) -> list[Path]:
    """Return the files of the figure called `path`: ``path.svg`` and ``path.png``."""
    return [path.with_name(f"{path.name}.{extension}") for extension in ("svg", "png")]


def table(panel: Axes, heads: list[str], rows: list[list[str]]) -> None:
    """Write columns of text in a panel of its own beside a horizontal chart, row 0 at y = 0, right-aligned."""
    panel.set_axis_off()
    panel.set_xlim(0, table_width(heads, rows))
    right = 0.0
    for index, head in enumerate(heads):
        right += _column_inches([head, *(row[index] for row in rows)])
        panel.text(right, -0.95, head, ha="right", va="center", size=9.5, color=GREY)
        for y, row in enumerate(rows):
            panel.text(right, y, row[index], ha="right", va="center", size=9.5)


def table_width(heads: list[str], rows: list[list[str]]) -> float:
    """Return the width of the `table` [inches]."""
    return sum(_column_inches([head, *(row[index] for row in rows)]) for index, head in enumerate(heads))


def _column_inches(texts: list[str]) -> float:
    return 0.078 * max(len(text) for text in texts) + 0.16


def _described(svg: str, text: str) -> str:
    """Return a drawing whose root says that it is an image, with a description beside its title."""
    head, title, rest = svg.replace("'DejaVu Sans'", FONTS).partition("</title>")
    return head.replace("<svg ", '<svg role="img" ', 1) + title + f"\n <desc>{html.escape(text)}</desc>" + rest


def styled() -> Any:
    """Return a context manager in which matplotlib has the style of the harness, and after which it has its own."""
    settings: Any = {**mpl.rcParamsDefault, **STYLE, "backend": mpl.rcParams["backend"]}
    return mpl.rc_context(settings)
