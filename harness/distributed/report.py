"""Report of a distributed product: grid, volume over its bound, memory, and where the time went."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.distributed.choice.volumes import lower_bound
from harness.distributed.grid import Decomposition
from harness.distributed.stages import STAGES


@dataclass(frozen=True)
class Report:
    """Measured by all ranks, and the same on each.

    Parameters
    ----------
    grid : str
        ``"2x2x1"``: pm x pn x pk.
    ranks : int
        Of the communicator; those beyond the grid were idle.
    used : int
        Ranks of the grid.
    words : int
        Elements that the busiest rank received to gather and to reduce.
    bound_words : float
        What some rank must receive, however the product is computed on `used` ranks.
    redistributed_words : int
        Elements that all ranks received because the caller's layout was another.
    predicted_bytes, used_bytes : int
        Memory of the fullest rank, by the formula and as allocated.
    total_s : float
        From the first rank that begins to the last that ends, in seconds.
    stages_s : dict
        Seconds of the slowest rank in each stage.
    """

    grid: str
    ranks: int
    used: int
    words: int
    bound_words: float
    redistributed_words: int
    predicted_bytes: int
    used_bytes: int
    total_s: float
    stages_s: dict[str, float] = field(default_factory=dict)

    @property
    def prepare_s(self) -> float:
        """Time in which the slowest rank loaded backends, compiled kernels and planned [s]: long in a first call."""
        return self.stages_s.get("prepare", 0.0)

    @property
    def exposed_s(self) -> float:
        """Time in which the slowest rank neither prepared nor computed [s]."""
        return max(0.0, self.total_s - self.prepare_s - self.stages_s.get("compute", 0.0))

    def rows(self) -> list[tuple[str, str]]:
        """Return what is told, with its name."""
        over = f"{self.words / self.bound_words:.2f}" if self.bound_words else "no words are needed"
        return [
            ("grid pm x pn x pk", self.grid),
            ("ranks in use", f"{self.used} of {self.ranks} ({100 * self.used / self.ranks:.0f} %)"),
            ("volume of a rank", f"{self.words:,} words"),
            ("volume / lower bound", over),
            ("redistributed, all ranks", f"{self.redistributed_words:,} words"),
            ("memory of a rank", f"{self.used_bytes / 1e6:.1f} MB, {self.predicted_bytes / 1e6:.1f} MB predicted"),
            ("total", f"{1e3 * self.total_s:.2f} ms"),
            *((f"  {stage}", f"{1e3 * self.stages_s[stage]:.2f} ms") for stage in STAGES if stage in self.stages_s),
            ("exposed communication", f"{1e3 * self.exposed_s:.2f} ms"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<26} {value}" for name, value in self.rows())

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        lines = (
            f"<tr><th>{html.escape(name.strip())}</th><td>{html.escape(value)}</td></tr>" for name, value in self.rows()
        )
        return f"<table>{''.join(lines)}</table>"


def make_report(sizes: Decomposition, counts: Sequence[dict[str, Any]], predicted_bytes: int, total_s: float) -> Report:
    """Return the report of what every rank counted.

    Parameters
    ----------
    sizes : Decomposition
    counts : sequence of dict
        Of each rank its ``seconds``, ``words`` and ``bytes``, as `harness.distributed.stages` counts them.
    predicted_bytes : int
    total_s : float
    """
    computing = ("gather A", "gather B", "reduce")
    stages = {name for count in counts for name in count["seconds"]}
    return Report(
        grid=str(sizes.grid),
        ranks=len(counts),
        used=sizes.grid.size,
        words=max(sum(count["words"].get(name, 0) for name in computing) for count in counts),
        bound_words=lower_bound(sizes.m, sizes.n, sizes.k, sizes.grid.size),
        redistributed_words=sum(count["words"].get("redistribute", 0) for count in counts),
        predicted_bytes=predicted_bytes,
        used_bytes=max(count["bytes"] for count in counts),
        total_s=total_s,
        stages_s={name: max(count["seconds"].get(name, 0.0) for count in counts) for name in stages},
    )
