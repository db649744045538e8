"""Tensors of PyTorch: on a GPU in its current stream, with results in memory that it allocates itself."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Collection, Hashable
from typing import Any

import numpy as np

from harness.api.libraries.base import Address, Library, Place, type_name
from harness.api.libraries.gpu import cupy, named, on_stream
from harness.dtypes import TABLE, dtype_name, is_float8
from harness.errors import ProblemError
from harness.interface import ALIGNMENT


class PyTorch(Library):
    """PyTorch."""

    spelling = (
        (r"(?:numpy|cupy)\.empty\((.*), '(\w+)'\)", r"torch.empty(\1, dtype=torch.\2)"),
        (r"\.astype\('?(\w+)'?\)", r".to(torch.\1)"),
        (r"convert with astype\('(\w+)'\)", r"convert with .to(torch.\1)"),
        (r"convert with astype", "convert with .to(dtype)"),
        (r"numpy\.(multiply|atleast_2d)\b", r"torch.\1"),
        (r"cupy\.ascontiguousarray", ".contiguous()"),
        (r"x\.get\(\) of each", "x.cpu() of each"),
    )

    has_addresses = True

    def __init__(self) -> None:
        super().__init__("torch")
        self.name = "PyTorch"
        self._dtypes: dict[Any, Any] = {None: None}  # those of NumPy, by those of PyTorch

    def uncompiled(self) -> Callable[..., Any] | None:
        if not sys.modules["torch"].compiler.is_compiling():
            return None
        from harness.api.libraries import uncompiled

        call: Callable[..., Any] = uncompiled.call
        return call

    def quick_place(self, arrays: Collection[Any]) -> tuple[Place] | None:
        torch = sys.modules["torch"]
        if torch.autograd.forward_ad._current_level >= 0:  # noqa: SLF001 - tangents are looked for by `check`
            return None
        tensor, strided, index = torch.Tensor, torch.strided, -1
        for number, x in enumerate(arrays):
            if x.__class__ is not tensor or x.requires_grad or not (x.is_cpu or x.is_cuda):
                return None
            where = x.get_device()  # -1: the host
            if number and where != index:
                return None
            if x.is_conj() or x.is_neg() or (where >= 0 and x.layout is not strided):  # on the host `numpy` complains
                return None
            index = where
        return (None,) if index < 0 else (index,)

    def check(self, caller: str, name: str, x: Any) -> None:
        torch = sys.modules["torch"]
        if x.requires_grad and torch.is_grad_enabled():
            raise ProblemError(
                f"{caller}: {name} requires gradients, which this call does not record",
                expected="tensors that require none; harness.torch.gemm records them",
                got=f"{type_name(x)} with requires_grad=True",
                fix=f"harness.torch.gemm, {name}.detach(), or with torch.no_grad()",
            )
        forward_ad = torch.autograd.forward_ad
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:  # noqa: SLF001
            raise ProblemError(
                f"{caller}: {name} has a tangent of forward mode, which this call does not pass on",
                expected="tensors without tangents",
                got=f"{type_name(x)} in torch.autograd.forward_ad.dual_level()",
                fix=f"torch.autograd.forward_ad.unpack_dual({name}).primal",
            )
        functorch = getattr(torch._C, "_functorch", None)  # noqa: SLF001 - there is no public way
        if functorch is not None and functorch.is_functorch_wrapped_tensor(x):
            raise ProblemError(
                f"{caller}: {name} is transformed by torch.func, and has no elements of its own",
                expected="a tensor outside of torch.func.vmap, grad and the like",
                got=type_name(x),
                fix="harness.torch.gemm, which torch.func transforms",
            )
        is_lazy = name.startswith("out") and (x.is_neg() or x.is_conj())
        if x.layout is not torch.strided or is_lazy:
            raise ProblemError(
                f"{caller}: {name} does not hold its elements in memory as they are",
                expected="a dense tensor",
                got=f"{x.layout}" + (", to be negated or conjugated when it is read" if is_lazy else ""),
                fix=f"{name}.to_dense()" if x.layout is not torch.strided else f"{name}.resolve_conj().resolve_neg()",
            )

    def is_conjugated(self, x: Any) -> bool:
        return isinstance(x, sys.modules["torch"].Tensor) and bool(x.is_conj())

    def place(self, x: Any) -> Place:
        if x.is_cpu:
            return None
        if x.is_cuda:
            return int(x.get_device())
        raise ValueError(f"device {x.device}")

    def in_force(self, place: Place) -> contextlib.AbstractContextManager[Any] | None:
        if place is None or self.stream_in_force(place) is not None:
            return None
        return on_stream(place, current_stream(place))

    def stream_in_force(self, place: int) -> int | None:
        handle, cuda = current_stream(place), cupy().cuda
        is_in_force = cuda.runtime.getDevice() == place and cuda.get_current_stream().ptr == handle
        return handle if is_in_force else None

    def view(self, x: Any, place: Place) -> Any:
        if x.requires_grad:
            x = x.detach()
        if x.is_conj() or x.is_neg():
            x = x.resolve_conj().resolve_neg()
        if place is None:
            bits = _bits(x.dtype)
            return x.numpy() if bits is None else x.view(bits).numpy().view(self.dtype(x.dtype))
        cuda, address = cupy().cuda, self.address(x, place)
        memory = cuda.UnownedMemory(address.ptr, x.nbytes, x, place)
        shape, dtype, memory = tuple(x.shape), address.dtype, cuda.MemoryPointer(memory, 0)
        if is_float8(dtype):
            return named(cupy().ndarray(shape, np.uint8, memory, address.strides), dtype)
        return cupy().ndarray(shape, dtype, memory, address.strides)

    def address(self, x: Any, place: int) -> Address:
        dtype = self.dtype(x.dtype)
        size = dtype.itemsize
        return Address(dtype, x.shape, tuple([step * size for step in x.stride()]), place, x.data_ptr())

    def layouts(self, arrays: Collection[Any]) -> tuple[list[Hashable], list[int]] | None:
        torch = sys.modules["torch"]
        if torch.autograd.forward_ad._current_level >= 0:  # noqa: SLF001 - tangents are looked for by `check`
            return None
        tensor, pointers = torch.Tensor, []
        layouts: list[Hashable] = []  # `list[Hashable]()` takes 0.7 us
        try:
            for x in arrays:
                if x.__class__ is not tensor or not x.is_cuda or x.requires_grad or x.is_neg():
                    return None
                pointer = x.data_ptr()
                layouts += x.dtype, x.shape, x.stride(), x.get_device(), pointer % ALIGNMENT == 0
                pointers.append(pointer)
        except RuntimeError:  # it has no memory of its own, as one that is sparse
            return None
        return layouts, pointers

    def pointer(self, x: Any) -> int:
        pointer: int = x.data_ptr()
        return pointer

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], place: int, fill: Any = None) -> Callable[[], Any]:
        torch = sys.modules["torch"]
        kind, device = getattr(torch, dtype_name(dtype)), torch.device("cuda", place)
        if fill is not None:
            return functools.partial(torch.full, shape, fill.item(), dtype=kind, device=device)
        return functools.partial(torch.empty, shape, dtype=kind, device=device)

    def quick_maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Any] | None:
        torch = sys.modules["torch"]
        # of its compiled programs, which make theirs so: the public way takes three times as long
        guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)  # noqa: SLF001
        make = getattr(guards, "_empty_strided_cuda", None)
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        return make and functools.partial(make, shape, strides, getattr(torch, dtype_name(dtype)))

    def makes_results(self, place: Place) -> bool:
        return place is not None

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], place: Place) -> Any:
        assert place is not None
        return self.view(self.maker(shape, dtype, place)(), place)

    def namespace(self, x: Any) -> Any:
        return sys.modules["torch"]

    def give(self, x: Any, place: Place, namespace: Any) -> Any:
        if place is None:
            return namespace.from_numpy(x if min(x.strides, default=0) >= 0 else x.copy())
        owner = getattr(x.data.mem, "_owner", None)
        if isinstance(owner, namespace.Tensor) and owner.shape == x.shape:  # `empty` has made it
            return owner
        return namespace.from_dlpack(x)

    def launched(self, views: list[Any]) -> None:
        """Do nothing: PyTorch gives memory away again in the order of the stream."""

    def wrote(self, out: Any) -> None:
        sys.modules["torch"].autograd.graph.increment_version(out)  # so that a backward pass that reads it complains

    def converted(self, name: str, place: Place) -> str:
        return f"torch.asarray({name}" + (")" if place is None else f", device='cuda:{place}')")

    def moved(self, name: str, place: Place) -> str:
        return f"{name}.cpu()" if place is None else f"{name}.to('cuda:{place}')"

    def dtype(self, dtype: Any) -> Any:
        if dtype.__class__ is str:
            return dtype
        try:
            return self._dtypes[dtype]
        except (KeyError, TypeError):
            converted = super().dtype(dtype)
        if isinstance(dtype, sys.modules["torch"].dtype):
            self._dtypes[dtype] = converted
        return converted


@functools.cache
def _bits(dtype: Any) -> Any:
    """Return PyTorch's integers of the size of `dtype`, as which NumPy reads those that are not its own; else None."""
    row = TABLE.get(str(dtype).rpartition(".")[2])
    return None if row is None or row.is_of_sums else getattr(sys.modules["torch"], f"int{8 * row.itemsize}")


def current_stream(index: int) -> int:
    """Return the handle of PyTorch's current stream of a GPU."""
    torch = sys.modules["torch"]
    # of its compiled programs, which ask for it as often; the public way takes 1.7 us
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001
    return int(quick(index) if quick else torch.cuda.current_stream(index).cuda_stream)
