"""Where results and figures are: a user's own, and those that the project publishes, which git holds."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
# An installed package must not write beside its own code.
HOME = _ROOT if (_ROOT / "pyproject.toml").exists() else Path()


class Place(NamedTuple):
    """Two folders, each with a folder for every machine."""

    results: Path
    figures: Path

    @property
    def is_empty(self) -> bool:
        """Whether there are no results."""
        return not any(self.results.glob("*/*/*.jsonl"))


# Git ignores the first: no run changes what is published.
OWN = Place(HOME / "measured" / "results", HOME / "measured" / "figures")
PUBLISHED = Place(HOME / "experiments" / "results", HOME / "experiments" / "figures")


def to_read() -> Path:
    """Return the user's own results; the published ones until there are any."""
    return (PUBLISHED if OWN.is_empty else OWN).results
