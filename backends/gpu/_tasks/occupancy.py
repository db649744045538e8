"""What a block of a kernel takes of a multiprocessor, and how many blocks one multiprocessor holds at once."""

from __future__ import annotations

import math

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import load_kernel
from backends.gpu._program.program import Kernel
from harness.interface import Backend
from harness.plan import Plan

# cuda.h, CUfunction_attribute: static shared memory of a block, and registers of a thread.
_SHARED_BYTES, _REGISTERS = 1, 4


def of_product(backend: Backend, plan: Plan) -> dict[str, int]:
    """Return `taken` of the kernel by which a rung of the GPU ladder computes the product of `plan`."""
    kernels = backend.kernels_of(plan)  # type: ignore[attr-defined]  # a GpuBackend
    return taken(next(kernel for kernel in kernels if kernel.function == "gemm"))


def taken(kernel: Kernel) -> dict[str, int]:
    """Return what `kernel` takes of a multiprocessor of the current GPU.

    Returns
    -------
    dict
        ``registers`` of a thread, ``threads`` and ``shared_bytes`` of a block, and ``blocks``: how many of them one
        multiprocessor holds at once, as the driver computes it from these three. All are the driver's: the compiler's
        report may be empty.
    """
    threads = math.prod(kernel.block)
    function = load_kernel(kernel.stem, kernel.defines, kernel.function, kernel.shared_bytes, kernel.suffix).ptr
    driver = device.cupy().cuda.driver
    return {
        "registers": int(driver.funcGetAttribute(_REGISTERS, function)),
        "threads": threads,
        "shared_bytes": kernel.shared_bytes + int(driver.funcGetAttribute(_SHARED_BYTES, function)),
        "blocks": int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function, threads, kernel.shared_bytes)),
    }
