"""Triton: the same products, written in a language of tiles.

    min_plus, max_plus   rank-1 updates of a tile of C from rows of A transposed (timed) and of B, 8 steps unrolled
    plus_times float32   tl.dot in full precision

Source: Tillet, Kung and Cox, "Triton" (2019); tile, warps and unrolling: the fastest of a study on one H200.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._program.program import ceil_div
from backends.gpu.libraries._peer import Peer
from harness.problem import Problem
from harness.tuning.device import ASYNC_COPY

_GROUP = 8
_TROPICAL = {"BM": 128, "BN": 128, "STEPS": 8, "num_warps": 4}
_TROPICAL_DOUBLE = {"BM": 64, "BN": 128, "STEPS": 8, "num_warps": 4}
_ORDINARY = {"BM": 128, "BN": 128, "BK": 16, "num_warps": 8, "num_stages": 3}


class TritonPeer(Peer):
    """Kernels in Triton."""

    name = "gpu-triton"
    step = 93
    idea = "tiles as values of a language: Triton chooses threads, registers and shared memory"
    source = "Tillet, Kung and Cox, Triton (2019)"
    project = "Triton"
    package = "triton"
    needs = ASYNC_COPY

    def declines(self, problem: Problem) -> str | None:
        """Decline products that no kernel here computes."""
        semiring, dtype = problem.semiring, problem.dtype
        if dtype.kind != "f":
            return "the kernels in Triton are for floats"
        if semiring.is_ordinary:
            return None if dtype.itemsize == 4 else "the kernel for plus_times is for float32"
        is_known = semiring.is_named and semiring.name in ("min_plus", "max_plus")
        return None if is_known else "the kernels in Triton compute min_plus, max_plus and plus_times"

    def bind(self, problem: Problem, a: Any, b: Any, out: Any) -> Any:
        """Return the launch, compiled at the first call at the latest."""
        import torch

        from backends.gpu.libraries import _triton_kernels as kernels

        a, b, out = (torch.as_tensor(x, device="cuda") for x in (a, b, out))
        m, n, k = problem.m, problem.n, problem.k
        if problem.semiring.is_ordinary:
            blocks = (ceil_div(m, _ORDINARY["BM"]) * ceil_div(n, _ORDINARY["BN"]),)
            leading = a.stride(0), b.stride(0), out.stride(0)
            return lambda: kernels.ordinary[blocks](
                a, b, out, m, n, k, *leading, ADDS=problem.accumulate, GROUP=_GROUP, **_ORDINARY
            )
        tile = _TROPICAL if problem.dtype.itemsize == 4 else _TROPICAL_DOUBLE
        blocks = (ceil_div(m, tile["BM"]) * ceil_div(n, tile["BN"]),)
        transposed = torch.empty((k, m), dtype=a.dtype, device="cuda")
        leading = m, b.stride(0), out.stride(0)
        options = {"IS_MAX": problem.semiring.add.name == "max", "ADDS": problem.accumulate, "GROUP": _GROUP}
        zero = float(np.asarray(problem.semiring.zero(problem.dtype)))

        def run() -> None:
            transposed.copy_(a.T)
            kernels.tropical[blocks](transposed, b, out, m, n, k, *leading, zero, **options, **tile)

        return run
