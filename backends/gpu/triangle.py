"""Products with a triangle on a GPU by products of whole matrices (`backends._triangle`): the baseline of symv, syrk.

D = (alpha A B) + (beta C), A symmetric, or of D its lower triangle; any semiring
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends._triangle import Triangle
from backends.gpu._cuda import device
from backends.gpu._cuda.queue import CudaQueue, current_queue
from backends.gpu._passes.mirror import add_mirror
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Matrix, Place, Program
from harness.dtypes import is_complex
from harness.interface import Execution
from harness.operands import Operands, conjugated
from harness.plan import Plan
from harness.tuning.gpu.triangles import TRIANGLE_ROWS
from harness.tuning.static_order import AUTO_FIRST_ON_GPU


class GpuTriangle(Triangle):
    """Mirror A, or compute D by rows of blocks, with another backend of the GPU."""

    name = "gpu-triangle"
    takes = Triangle.takes | {"device arrays", "half", "mixed", "complex"}
    calls_libraries = False
    base_family = "gpu-"
    bases, fewest_rows = AUTO_FIRST_ON_GPU, TRIANGLE_ROWS

    def missing(self) -> str | None:
        """Say whether there is a GPU."""
        return device.missing()

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Upload host arrays, and have the base prepare every part."""
        return TriangleExecution(self, plan, operands)

    def room(self, x: Any, arrays: Any) -> Any:
        """Return an uninitialised array of the shape of `x`, whose elements CuPy may not know."""
        return device.empty(x.shape, x.dtype)

    def mirror(
        self, x: Any, whole: Any, arrays: Any, conjugate: Callable[[Any], Any] | None = None
    ) -> Callable[[], object]:
        """Return a call that mirrors `x` by one launch; complex numbers by launches of CuPy."""
        if x.shape[0] == 0:
            return lambda: None
        if is_complex(x.dtype):
            return lambda: _mirror_complex(x, whole, arrays, is_hermitian=conjugate is not None)
        x = x if x.itemsize in x.strides else arrays.ascontiguousarray(x)
        packed = PackedProgram.of(mirror_program(x), {"a": x.itemsize, "out": x.itemsize})
        return lambda: packed.launch([x.data.ptr, whole.data.ptr], device.current_stream())


def _mirror_complex(x: Any, whole: Any, arrays: Any, *, is_hermitian: bool) -> None:
    """Write to `whole` the matrix whose triangle is that of `x`; a Hermitian one has a real diagonal."""
    mirrored = conjugated(x, arrays).T if is_hermitian else x.T
    whole[...] = arrays.where(arrays.tri(x.shape[0], dtype=arrays.bool_), x, mirrored)
    if is_hermitian:
        diagonal = arrays.arange(x.shape[0])
        whole[diagonal, diagonal] = x[diagonal, diagonal].real


def mirror_program(x: Any) -> Program:
    """Return the launch that mirrors a triangle in buffer ``a``, laid out as `x` with contiguous rows or columns."""
    program, n = Program(), x.shape[0]
    down, across = (step // x.itemsize for step in x.strides)
    triangle = Matrix(Place("a"), across if across != 1 else down, by_columns=across != 1)
    add_mirror(program, triangle, Matrix(Place("out"), n), n, x.itemsize)
    return program


class TriangleExecution(Execution):
    """A product of arrays of CuPy, or of copies of host arrays."""

    def __init__(self, triangle: GpuTriangle, plan: Plan, operands: Operands) -> None:
        self._operands = operands
        self._placed = Operands(*(None if x is None else _on_device(x) for x in _arrays(operands)))
        self._parts = triangle.parts(plan, self._placed, device.cupy())

    @property
    def queue(self) -> CudaQueue:
        """Where `run` launches, as the harness times it."""
        return current_queue()

    def upload(self) -> None:
        """Copy the host arrays anew."""
        for x, placed in zip(_arrays(self._operands), _arrays(self._placed), strict=True):
            if placed is not x:
                placed[...] = device.upload(x)
        device.synchronize()

    def run(self) -> None:
        """Compute once, on the current stream."""
        for part in self._parts:
            part()

    def wait(self) -> None:
        """Return when the current stream has done all of it."""
        device.synchronize()

    def result(self) -> Any:
        """Return D: as a host array, or `out` if that lies on the GPU."""
        placed = self._placed.out
        return placed if placed is self._operands.out else placed.get()


def _arrays(operands: Operands) -> tuple[Any, ...]:
    return operands.a, operands.b, operands.c, operands.out


def _on_device(x: Any) -> Any:
    return x if hasattr(x, "__cuda_array_interface__") else device.upload(x)
