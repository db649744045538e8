"""Tensors of PyTorch as arrays of NumPy or CuPy over the same memory, and back."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
import torch

from harness.api.libraries.gpu import on_stream
from harness.api.libraries.pytorch import current_stream
from harness.dtypes import TABLE
from harness.errors import BackendUnavailable, ProblemError
from harness.surroundings import INSTALL_CUPY

DEVICES = "cpu", "cuda"
DTYPES = tuple(getattr(torch, row.name) for row in TABLE.values() if row.is_in_torch and row.is_of_sums)
_NO_WAIT = -1  # for CuPy's __dlpack__: the consumer reads in the same stream


def check(tensors: dict[str, Any]) -> None:
    """Raise unless the arguments, by name, are dense tensors of one device and of one dtype that NumPy has.

    Raises
    ------
    ProblemError
    """
    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise ProblemError(
                f"harness.torch.gemm: {name} is no tensor",
                expected="tensors of PyTorch",
                got=f"{type(x).__module__}.{type(x).__name__}",
                fix=f"torch.as_tensor({name}), or harness.gemm for arrays",
            )
        if x.layout != torch.strided or x.device.type not in DEVICES:
            raise ProblemError(
                f"harness.torch.gemm: {name} cannot be read in place",
                expected="dense tensors on the CPU or on a GPU",
                got=f"layout {x.layout}, device {x.device}",
                fix=f"{name}.to_dense()" if x.layout != torch.strided else f"{name}.cpu()",
            )
        if x.dtype not in DTYPES:
            raise ProblemError(
                f"harness.torch.gemm: {name} has a dtype that is not read here",
                expected=", ".join(str(dtype) for dtype in DTYPES),
                got=str(x.dtype),
                fix=f"{name}.float()",
            )
    first, *rest = tensors
    for name in rest:
        for noun, expected, got in (
            ("device", tensors[first].device, tensors[name].device),
            ("dtype", tensors[first].dtype, tensors[name].dtype),
        ):
            if expected != got:
                raise ProblemError(
                    f"harness.torch.gemm: {first} and {name} have not the same {noun}",
                    expected=f"{name} of {noun} {expected}",
                    got=str(got),
                    fix=f"{name}.to({first}.{noun})",
                )


def check_recorded(tensors: dict[str, Any]) -> None:
    """Raise unless the factors, by name, can be kept for gradients.

    Raises
    ------
    ProblemError
    """
    for name, x in tensors.items():
        if x.is_inference():
            raise ProblemError(
                f"harness.torch.gemm: {name} was made in torch.inference_mode(), and cannot be kept for gradients",
                expected="tensors that were made outside, where a gradient is asked for",
                got=f"{name} of shape {tuple(x.shape)}",
                fix=f"{name}.clone(), or torch.no_grad() in place of torch.inference_mode()",
            )


def are_transformed() -> bool:
    """Return whether PyTorch has to be told of every product.

    In a transform of torch.func tensors have no memory, nor has what comes of others. In forward mode a tangent would
    be lost. `Function.apply` asks the same, by the same private names.
    """
    if torch.autograd.forward_ad._current_level >= 0:  # noqa: SLF001
        return True
    return bool(torch._C._are_functorch_transforms_active())  # noqa: SLF001


def array(x: Any) -> Any:
    """Return the array over the memory of a tensor: of NumPy, or on a GPU of CuPy. Nothing is copied."""
    x = x.detach()
    x = x.resolve_conj().resolve_neg()  # itself, but for what is to be done when it is read
    if not x.is_cuda:
        return x.numpy()
    cuda, size = cupy().cuda, x.element_size()
    memory = cuda.MemoryPointer(cuda.UnownedMemory(x.data_ptr(), x.nbytes, x, x.device.index), 0)
    return cupy().ndarray(tuple(x.shape), _dtype(x.dtype), memory, tuple(size * step for step in x.stride()))


@functools.cache
def _dtype(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's name of a dtype of PyTorch."""
    found: np.dtype[Any] = torch.empty(0, dtype=dtype).numpy().dtype
    return found


def tensor(x: Any) -> Any:
    """Return the tensor over the memory of an array of NumPy or of CuPy, which the current stream wrote."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    return torch.utils.dlpack.from_dlpack(x.__dlpack__(stream=_NO_WAIT))


def stream_of(x: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which CuPy computes on the device of `x`, in PyTorch's current stream there."""
    if not x.is_cuda:
        return contextlib.nullcontext()
    cuda, device = cupy().cuda, x.device.index
    handle = current_stream(device)
    if cuda.runtime.getDevice() == device and cuda.get_current_stream().ptr == handle:
        return contextlib.nullcontext()
    return on_stream(device, handle)


@functools.cache
def cupy() -> Any:
    """Return CuPy, or raise BackendUnavailable."""
    try:
        import cupy
    except ImportError:
        raise BackendUnavailable(
            "harness.torch.gemm: products of tensors on a GPU need CuPy",
            got="not installed",
            fix=f"{INSTALL_CUPY}; or tensor.cpu()",
        ) from None
    return cupy
