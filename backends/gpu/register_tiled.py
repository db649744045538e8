"""Tiles of threads in registers: tm + tn values from shared memory serve tm * tn pairs.

    grid    tiles of C, bm x bn     a block of (bm / tm) * (bn / tn) threads each
    loop    p0 over k by bk         tiles of A and B in shared memory
    thread  tm x tn elements        p over bk by 1: tm + tn loads from shared memory for tm * tn pairs

With tn = 1 a thread has a column of elements (the "1-D" form), else a block of them. ``places`` says when the places
that a thread loads from are found: "once", before the loop over k, or "each load", by / and % with divisors that the
compiler does not know.

Source: Volkov and Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra" (2008), section 4.
"""

from __future__ import annotations

from backends.gpu._base.tiled_rung import TiledRung
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.program import Product
from backends.gpu._simt.copies import offset_type
from harness.plan import Launch, Plan

PLACES = ("once", "each load")


class RegisterTiled(TiledRung):
    """A tile of C in the registers of each thread."""

    name = "gpu-register-tiled"
    step = 40
    idea = "each thread computes a tile of C in registers, so that a value from shared memory serves many pairs"
    source = "Volkov and Demmel, Benchmarking GPUs to Tune Dense Linear Algebra (2008), section 4"
    stem = "register_tiled"

    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the bytes of a tile of A and one of B."""
        return (launch.bm + launch.bn) * launch.bk * itemsize

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles."""
        launch = plan.launch
        sizes = {name.upper(): getattr(launch, name) for name in "bm bn bk tm tn".split()}
        remainders = PLACES.index(str(plan.choice("places", PLACES)))
        return as_defines({**sizes, "OFFSET": offset_type(launch, product.a, product.b), "REMAINDERS": remainders})
