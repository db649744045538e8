"""A sheet with title, legend, panels and footer, in the type of every figure; reproducible files."""

from __future__ import annotations

import html
import io
import textwrap
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

from harness.report.figures.looks import GREY, INK, PALE
from harness.surroundings import write_whole

# A figure is 8 inches wide: at the 800 pixels of a README page, 11 points are 15 pixels.
WIDTH, DPI, MARGIN = 8.0, 200, 0.12
FOOTER_CHARACTERS, SUBTITLE_CHARACTERS = 140, 96  # of a line; fewer where they do not fit
# Type of a title and characters of its lines, the largest in which it has no more lines than MOST_TITLE_LINES.
TITLE_TYPES = ((14.0, 72), (12.5, 80), (11.5, 88), (10.5, 96), (9.5, 106))
MOST_TITLE_LINES = 2
FEWEST_CHARACTERS = 20
TIED = "\N{NO-BREAK SPACE}"  # between a number and its percent sign, until lines are broken
ROW_GAP = 0.08  # inches above and below what belongs to a row of panels: the label of an axis is no title
PLACE_DIGITS = 5  # of a panel's place, in fractions of the figure: a hundredth of a pixel

# On a dark screen light and dark change places, and hues stay: what is strong on white stays strong. A print is light.
DARK = (
    "<style>@media screen and (prefers-color-scheme: dark) { svg { filter: invert(0.92) hue-rotate(180deg); } }</style>"
)
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
    identifier : str or None
        Names what the figure is made of, in the metadata of its SVG.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.subtitle = ""
        self.names: dict[str, str] = {}
        self.identifier: str | None = None
        self.canvas = Canvas(figsize=(WIDTH, 4), dpi=DPI, layout="constrained")  # text is measured as it is drawn
        FigureCanvasAgg(self.canvas)
        self.legend: dict[str, Line2D] = {}
        self.notes: list[str] = []
        self._body = 4.0

    def panels(self, rows: int = 1, columns: int = 1, *, height: float = 3.4, **options: Any) -> list[Axes]:
        """Return ``rows x columns`` panels, row by row, `height` inches in all."""
        self._body = height
        return list(self.canvas.subplots(rows, columns, squeeze=False, **options).ravel())

    def add_to_legend(self, label: str, **look: Any) -> None:
        """Name a series once, even if several panels show it."""
        self.legend.setdefault(label, Line2D([], [], **look))

    def say(self, text: str) -> None:
        """Show `text` in a figure without data."""
        (panel,) = self.panels(height=1.2)
        panel.set_axis_off()
        panel.text(0.5, 0.5, text, ha="center", va="center", color=GREY, size=12)

    def save(self, path: Path, footer: str) -> Path:
        """Lay out title, legend, panels and footer, and write the file of the figure called `path`: ``path.svg``."""
        self._lay_out(footer)
        path.parent.mkdir(parents=True, exist_ok=True)
        svg, about = io.StringIO(), {"Date": None, "Creator": None, "Title": self.title, "Identifier": self.identifier}
        self.canvas.savefig(svg, format="svg", metadata=about)
        write_whole(file_of(path), _described(svg.getvalue(), f"{self.subtitle}. {footer}"))
        return file_of(path)

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
        self._settle(engine)

    def _settle(self, engine: Any) -> None:
        """Have the panels laid out and fix their positions, rounded: the solver does not repeat its last digits."""
        for _ in range(2):  # the second time starts from the first one's ticks and labels
            engine.execute(self.canvas)
        self.canvas.set_layout_engine(None)  # none, and no placeholder, for which saving would draw twice
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


def file_of(path: Path) -> Path:
    """Return the file of the figure called `path`."""
    return path.with_name(f"{path.name}.svg")


def _described(svg: str, text: str) -> str:
    """Return a drawing whose root says that it is an image, described beside its title, and dark on dark screens."""
    head, title, rest = svg.replace("'DejaVu Sans'", FONTS).partition("</title>")
    return head.replace("<svg ", '<svg role="img" ', 1) + title + f"\n <desc>{html.escape(text)}</desc>\n {DARK}" + rest


def styled() -> Any:
    """Return a context manager in which matplotlib has the style of the harness, and after which it has its own."""
    settings: Any = {**mpl.rcParamsDefault, **STYLE, "backend": mpl.rcParams["backend"]}
    return mpl.rc_context(settings)
