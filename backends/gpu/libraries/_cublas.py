"""cublasGemmEx, called directly: CuPy's wrappers change from version to version, and choose the arithmetic for us."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda import device
from harness.errors import BackendUnavailable, HarnessError

# cublas_api.h and library_types.h
_NO_TRANSPOSE, _DEFAULT_ALGORITHM = 0, -1
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14}
_FLOAT, _TF32, _DOUBLE, _INTEGER = 68, 77, 70, 72
_ARITHMETIC = {"float32": _FLOAT, "float64": _DOUBLE, "int32": _INTEGER}


class Gemm(NamedTuple):
    """What is asked of cuBLAS: ``out := alpha a b + beta out`` over row-major matrices.

    Attributes
    ----------
    m, n, k : int
    lda, ldb, ldc : int
        Leading dimensions, in elements.
    operand_dtype, dtype : str
        Of A and B; and of alpha, beta, the sums and the result.
    alpha, beta : float or int
    uses_tf32 : bool
        Whether float32 operands are rounded to TF32 first.
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    operand_dtype: str
    dtype: str
    alpha: float | int
    beta: float | int
    uses_tf32: bool

    def bind(self, a: Any, b: Any, out: Any) -> Callable[[], object]:
        """Return what launches it on the current stream, for operands at these addresses.

        cuBLAS takes columns for rows, so it is asked for ``out^T := b^T a^T``.
        """
        scalars = (np.array([x], self.dtype) for x in (self.alpha, self.beta))
        alpha, beta = (ctypes.c_char_p(x.tobytes()) for x in scalars)
        narrow, wide = _TYPES[self.operand_dtype], _TYPES[self.dtype]
        arithmetic = _TF32 if self.uses_tf32 else _ARITHMETIC[self.dtype]
        x, y, z = (ctypes.c_void_p(int(address)) for address in (b, a, out))
        arguments = (
            _NO_TRANSPOSE, _NO_TRANSPOSE, self.n, self.m, self.k, alpha, x, narrow, self.ldb, y, narrow, self.lda,
            beta, z, wide, self.ldc, arithmetic, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        return functools.partial(_launch, library(), handle(), arguments)


def _launch(cublas: ctypes.CDLL, context: ctypes.c_void_p, arguments: tuple[Any, ...]) -> None:
    stream = ctypes.c_void_p(device.cupy().cuda.get_current_stream().ptr)
    _check(cublas.cublasSetStream_v2(context, stream), "set the stream")
    _check(cublas.cublasGemmEx(context, *arguments), "compute the product")


@functools.cache
def library() -> ctypes.CDLL:
    """Return cuBLAS, as CuPy loads it.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except (ImportError, RuntimeError, OSError) as error:  # DynamicLibNotFoundError is a RuntimeError
        raise BackendUnavailable(
            "cuBLAS cannot be loaded", got=str(error), fix="pip install nvidia-cublas, or a CUDA toolkit"
        ) from None


@functools.cache
def handle() -> ctypes.c_void_p:
    """Return this process's context of cuBLAS on the current GPU, made once, with the arithmetic that is asked for."""
    context = ctypes.c_void_p()
    _check(library().cublasCreate_v2(ctypes.byref(context)), "begin")
    return context


def _check(status: int, what: str) -> None:
    if status:
        raise HarnessError(f"cuBLAS could not {what}", got=f"status {status} (cublas_api.h, cublasStatus_t)")
