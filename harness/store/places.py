"""The folders of results and figures: in a checkout beside its sources, else below the working directory."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

# An installed package must not write beside its own code.
EXPERIMENTS = (_ROOT if (_ROOT / "pyproject.toml").exists() else Path()) / "experiments"
RESULTS, FIGURES = EXPERIMENTS / "results", EXPERIMENTS / "figures"
