"""The look of a series in every figure: its colour by role, and marker and line of the variants of one backend."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable

from harness.analysis import rates, rivals
from harness.report.figures.chart import Look
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
ON_THE_CPU, ON_A_GPU, OF_PEERS = "#4A8ABF", "#4FA562", "#B08D57"  # where nothing but its place is known of a row
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
# Stages of a call, in the order in which they come to pass. Computing is dark; what is sent between ranks is warm,
# memory and processes are cool, and what is left is pale.
STAGES = {
    "start of ranks": "#5B4A9E",
    "start of the GPU": "#7A68B8",
    "load": "#56B4E9",
    "prepare": "#9BB8D3",
    "pin": "#B5651D",
    "allocate": "#8C6D46",
    "redistribute": "#E69F00",
    "host to device": "#999933",
    "gather A": "#D55E00",
    "gather B": "#CC79A7",
    "exposed communication": "#AA4499",
    "compute": "#0072B2",
    "reduce": "#882255",
    "device to host": "#DDCC77",
    "collect": "#F0C987",
    "free": "#44AA99",
    "unpin": "#117733",
    "rest": "#D0D0D0",
}
FEWEST_VARIANTS = 3  # of one backend alone in a figure that have colours of their own


def dot(colour: str, marker: str = "o") -> Look:
    """Return the look of points that nothing joins."""
    return {"color": colour, "marker": marker, "linestyle": ""}


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

    def of(self, name: str) -> Look:
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
