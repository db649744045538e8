"""Packages of this project whose names are common: a program may have its own of that name, which comes first."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

# What computes on a GPU, with the libraries of CUDA, so that a driver is enough.
INSTALL_CUPY = (
    "pip install 'cupy-cuda13x[ctk]' nvidia-ml-py, or cupy-cuda12x for a driver before 580 or a GPU before 7.5"
)


def shadow_of(package: ModuleType) -> dict[str, str]:
    """Return the parts of a message that another module was imported in place of a package of this project.

    An empty dict: it is this project's own, which lies beside the package `harness`.
    """
    own = Path(__file__).resolve().parents[2] / package.__name__
    places = [Path(place).resolve() for place in getattr(package, "__path__", ())]
    if own in places:
        return {}
    return {
        "expected": str(own),
        "got": str(getattr(package, "__file__", None) or places[0]),
        "fix": "rename it, or start Python elsewhere: the folder of a script, or with -m the current one, goes first",
    }
