"""All pairs of best paths in dense graphs. They are computed in `harness.api.paths`."""

from harness.api.paths import CLOSED, METHODS, closure, shortest_paths
from harness.api.predecessors import path

__all__ = ["CLOSED", "METHODS", "closure", "path", "shortest_paths"]
