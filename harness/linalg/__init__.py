"""Triangular solves, QR, Hessenberg reduction and iterative refinement on top of matrix products.

The backend of the products is the only thing that changes: what a faster kernel buys a whole algorithm is then visible.
All are functions of plus_times over float32 and float64, for arrays of any library.

Users import the names below. Imports the nouns and `api`. Never imports `run`, `timing`, `store` or a backend.
"""

from harness.linalg.orthogonal import QR, qr
from harness.linalg.reduction import hessenberg
from harness.linalg.refinement import Refined, refine
from harness.linalg.triangular_systems import trsm

__all__ = ["QR", "Refined", "hessenberg", "qr", "refine", "trsm"]
