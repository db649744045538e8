"""All pairs of best paths in dense graphs. They are computed in `harness.api.paths`."""

from harness.api.paths import CLOSED, METHODS, closure, shortest_paths

__all__ = ["CLOSED", "METHODS", "closure", "shortest_paths"]
