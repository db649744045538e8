"""The local product of a rank: any backend of this machine, by the public call."""

from __future__ import annotations

from typing import Any

from harness.api.gemm import gemm
from harness.distributed.product import Local
from harness.problem import Problem


def host_local(problem: Problem, backend: str, threads: int | None) -> Local:
    """Return the local product of `problem`'s semiring and dtype by `backend` on `threads` threads."""

    def local(a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> Any:
        return gemm(
            a,
            b,
            c,
            semiring=problem.semiring,
            alpha=alpha,
            beta=beta if c is not None else None,
            out=out,
            backend=backend,
            threads=threads,
            dtype=problem.dtype,
        )

    return local
