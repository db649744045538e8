"""A semiring product by CuPy alone: all terms of some rows as one array, then a reduction along k.

    loop  over rows of C in chunks    terms[i, p, j] = a[i, p] (x) b[p, j];  c[i, j] = (+)_p terms[i, p, j]

Source: broadcasting, as in NumPy.
"""

from __future__ import annotations

from typing import Any

from backends.gpu._cuda import device
from backends.gpu.libraries._peer import Peer, broadcast
from harness.problem import Problem

# Names in CuPy: the reduction and the operation of (+), and the operation of (x).
_ADD = {"min": ("min", "minimum"), "max": ("max", "maximum"), "plus": ("sum", "add")}
_MULTIPLY = {"plus": "add", "times": "multiply", "min": "minimum", "max": "maximum"}


class CupyBroadcast(Peer):
    """Broadcast and reduce."""

    name = "gpu-cupy-broadcast"
    step = 5
    idea = "no kernel of one's own: CuPy makes every term in memory and reduces along k"
    source = "CuPy: broadcasting and reductions"
    project = "CuPy"
    writes_expressions = True
    package = "cupy"

    def declines(self, problem: Problem) -> str | None:
        """Decline pairs of operations that CuPy lacks or defines otherwise."""
        semiring = problem.semiring
        if not semiring.is_named or semiring.add.name not in _ADD or semiring.multiply.name not in _MULTIPLY:
            return "CuPy has no reduction for it"
        if problem.dtype.name != "float64":
            return "float64 only: CuPy compiles with -ftz=true, which takes subnormal float32 for zero"
        return None

    def bind(self, problem: Problem, a: Any, b: Any, out: Any) -> Any:
        """Return the loop over chunks."""
        names = *_ADD[problem.semiring.add.name], _MULTIPLY[problem.semiring.multiply.name]
        return broadcast(device.cupy(), names, problem, a, b, out)
