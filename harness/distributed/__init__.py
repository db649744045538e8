"""Products on many ranks: grids and what they move, the product of a rank, jobs, `gemm` and paths for MPI programs.

May be imported by backends of `backends/distributed/`, experiments and programs. Imports the nouns, `api` and `tuning`.
MPI is imported only by what runs on a rank.
"""

from harness.distributed.agreement import DistributedError
from harness.distributed.choice.model import Rates, choose_grid
from harness.distributed.choice.volumes import grids, lower_bound, volume
from harness.distributed.grid import Grid
from harness.distributed.paths import closure, shortest_paths
from harness.distributed.report import Report
from harness.distributed.spmd import gemm, pieces

__all__ = [
    "DistributedError",
    "Grid",
    "Rates",
    "Report",
    "choose_grid",
    "closure",
    "gemm",
    "grids",
    "lower_bound",
    "pieces",
    "shortest_paths",
    "volume",
]
