"""gpu-ozaki on the CPU: its kernels through the shim, but the products of bytes by NumPy, which takes less time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._program.program import Place, Step
from backends.gpu._tensor.residue_product import neighbour
from harness import Operands, registry
from harness.machine import detect
from harness.problem import Problem
from harness.proof.verify import verify
from tests.gpu.host_kernels import HostExecution

OZAKI: Any = next(entry.backend for entry in registry.discover() if entry.name == "gpu-ozaki")


class ByteProducts(HostExecution):
    """Executes a program; `found` holds what its passes have left. With `has_native` the native kernel too."""

    has_native = False

    def is_compiled(self, step: Step) -> bool:
        return step.kernel.stem not in ("tensor_core_s8", *(() if self.has_native else ("tensor_core_f64_tma",)))

    def launch(self, step: Step) -> None:
        if step.kernel.stem == "tensor_core_s8" and "MODULI" in dict(step.kernel.defines):
            self._multiply_bytes(step)
        elif step.kernel.stem == "tensor_core_s8":
            self._multiply_sizes(step)
        elif step.kernel.stem == "tensor_core_f64_tma" and not self.has_native:
            self._multiply_natively(step)
        else:
            super().launch(step)

    def found(self, name: str) -> np.ndarray:
        return self._buffers[name]

    def _multiply_natively(self, step: Step) -> None:
        map_a, map_b, c, m, n, _, ld, *_ = step.arguments
        if self._buffers["moduli"][0] == 0:
            a, b = (self._matrix(x.place, x.rows, x.columns, x.ld) for x in (map_a, map_b))
            out = self._matrix(c, int(m), int(n), int(ld))
            before = out.copy() if dict(step.kernel.defines)["ACCUMULATE"] == "1" else 0
            with np.errstate(all="ignore"):
                out[...] = a @ b + before

    def _matrix(self, place: Place, rows: int, columns: int, ld: int) -> np.ndarray:
        memory = self._buffers[place.buffer].view(np.float64)[place.offset :]
        return np.lib.stride_tricks.as_strided(memory, (rows, columns), (8 * ld, 8))

    def _multiply_sizes(self, step: Step) -> None:
        map_a, map_b, c, m, columns, k, *_ = step.arguments
        if self._buffers["moduli"][0]:
            a, b = (
                self._buffers[x.place.buffer][x.place.offset :][: x.rows * x.ld].reshape(x.rows, x.ld)[:, : int(k)]
                for x in (map_a, map_b)
            )
            sums = self._buffers[c.buffer].view(np.int32)[: int(m) * int(columns)].reshape(int(m), int(columns))
            sums[...] = a.astype(np.int64) @ b.astype(np.int64).T

    def _multiply_bytes(self, step: Step) -> None:
        map_a, map_b, c, m, columns, k, *_ = step.arguments
        m, columns, k, width, first = int(m), int(columns), int(k), map_a.ld, map_a.place.offset
        order, defines = [neighbour(j) for j in range(columns)], dict(step.kernel.defines)
        for t, p in enumerate(map(int, defines["MODULI"].split(", "))):
            if t == int(self._buffers["moduli"][0]) * int(defines["LAYERS_EACH"]):
                break
            a, b, out = (
                self._buffers[buffer][t * rows * across : (t + 1) * rows * across].reshape(rows, across)
                for buffer, rows, across in (
                    (map_a.place.buffer, m, width),
                    (map_b.place.buffer, columns, width),
                    (c.buffer, m, columns),
                )
            )
            a, b = a.view(np.int8)[:, first : first + k], b.view(np.int8)[order, first : first + k]
            sums = a.astype(np.int64) @ b.astype(np.int64).T
            if defines["ACCUMULATE"] == "1":
                sums += out
            residues = sums % p
            is_p = (residues == 0) & (sums < 0) & (p < 256)  # as the kernel may have it
            out[...] = np.where(is_p, p, residues)


def compute(
    size: tuple[int, int, int],
    change: Callable[[Operands], Any] = lambda operands: None,
    *,
    accumulate: bool = False,
    alpha: complex | None = None,
    beta: complex | None = None,
    conjugate: str = "",
    layout: str = "CCC",
    dtype: str = "float64",
    **options: Any,
) -> tuple[Operands, np.ndarray, ByteProducts]:
    """Compute a product with these options, prove it right, and return operands, result and execution."""
    problem = Problem(
        *size, dtype=np.dtype(dtype), accumulate=accumulate, alpha=alpha, beta=beta, layout=layout, conjugate=conjugate
    )
    operands = Operands.generate(problem, sum(size))
    change(operands)
    plan = OZAKI.plan(problem, detect()).override({"blocks": 2, **options})
    execution: Any = OZAKI.prepare(plan, operands)
    execution.run()
    result = execution.result()
    verify(problem, operands, result, seed=1, extra_error=OZAKI.extra_error(plan, operands))
    return operands, result, execution
