"""All pairs of best paths in dense graphs. They are computed in `harness.api.paths`."""

from harness.api.paths import CLOSED, closure, shortest_paths
from harness.api.paths.checks import METHODS
from harness.api.paths.csgraph import from_csgraph
from harness.api.paths.predecessors import path, paths

__all__ = ["CLOSED", "METHODS", "closure", "from_csgraph", "path", "paths", "shortest_paths"]
