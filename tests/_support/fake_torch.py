"""Tensors that obey PyTorch's protocol as far as the public calls use it, on GPUs that do not exist, and CuPy for them.

They hold no memory but that of NumPy's arrays, by its address, so that a view shows what the tensor holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests._support import fake_cupy


@dataclasses.dataclass(frozen=True)
class DType:
    """A dtype that is none of NumPy."""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Tensor:
    """A tensor on GPU `index`, or on the host."""

    layout, requires_grad = "strided", False

    def __init__(self, values: np.ndarray, index: int | None = 0) -> None:
        self.values, self._index, self.version = values, index, 0

    is_cpu = property(lambda self: self._index is None)
    is_cuda = property(lambda self: self._index is not None)
    dtype = property(lambda self: DType(self.values.dtype.name))
    shape = property(lambda self: self.values.shape)
    nbytes = property(lambda self: self.values.nbytes)
    device = property(lambda self: f"cuda:{self._index}")

    ndim = property(lambda self: self.values.ndim)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.values[key], self._index)

    def swapaxes(self, one: int, other: int) -> Tensor:
        return Tensor(self.values.swapaxes(one, other), self._index)

    def get_device(self) -> int:
        return -1 if self._index is None else self._index

    def is_neg(self) -> bool:
        return False

    def data_ptr(self) -> int:
        return self.values.ctypes.data

    def element_size(self) -> int:
        return self.values.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.values.itemsize for step in self.values.strides)


Tensor.__module__ = "torch"


class Torch:
    """Stands for the module `torch`, whose current stream of each GPU is `streams`."""

    _C = None
    Tensor, strided, bfloat16, dtype = Tensor, "strided", DType("bfloat16"), DType

    def __init__(self) -> None:
        self.streams = {0: 0, 1: 0}
        current = lambda index: types.SimpleNamespace(cuda_stream=self.streams[index])  # noqa: E731
        self.cuda = types.SimpleNamespace(current_stream=current)
        self.autograd = types.SimpleNamespace(
            graph=types.SimpleNamespace(increment_version=self._wrote),
            forward_ad=types.SimpleNamespace(_current_level=-1),
        )
        self.compiler = types.SimpleNamespace(is_compiling=lambda: False)
        self.made: list[Tensor] = []

    def __getattr__(self, name: str) -> str:
        if name in {"float32", "float64", "int32"}:
            return name
        raise AttributeError(name)

    def is_grad_enabled(self) -> bool:
        return True

    def empty(self, shape: tuple[int, ...], dtype: str, device: str) -> Tensor:
        self.made.append(Tensor(np.empty(shape, dtype), int(device.removeprefix("cuda:"))))
        return self.made[-1]

    def from_dlpack(self, x: fake_cupy.Array) -> Tensor:
        return Tensor(x.values, x.device.id)

    def _wrote(self, x: Tensor) -> None:
        x.version += 1


class Ndarray(fake_cupy.Array):
    """An array in memory that it does not own, made as CuPy makes it."""

    made = 0

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, memory: Any, strides: tuple[int, ...]) -> None:
        values = memory.owner.values
        assert (values.shape, values.dtype, values.strides) == (shape, dtype, strides)
        assert memory.address == values.ctypes.data
        super().__init__(values, memory.index, types.SimpleNamespace(_owner=memory.owner))
        Ndarray.made += 1


Ndarray.__module__ = "cupy"


class Cupy(fake_cupy.Gpus):
    """Stands for the module `cupy` beside that; `stream` is the handle of its current stream."""

    def __init__(self) -> None:
        super().__init__()
        self.ndarray, self.stream, self.used = Ndarray, 0, list[int]()
        vars(self.cuda).update(
            UnownedMemory=lambda address, size, owner, index: types.SimpleNamespace(
                address=address, owner=owner, index=index
            ),
            MemoryPointer=lambda memory, offset: memory,
            Stream=types.SimpleNamespace(from_external=self._from_external, null=self._on(0)),
            get_current_stream=lambda: types.SimpleNamespace(ptr=self.stream, is_capturing=lambda: False),
            runtime=types.SimpleNamespace(getDevice=lambda: self.current),
        )

    def _from_external(self, given: Any) -> Any:
        version, handle = given.__cuda_stream__()
        assert version == 0
        return self._on(handle)

    def _on(self, handle: int) -> Any:
        outer = self

        class Stream:
            def __enter__(self) -> None:
                self._before, outer.stream = outer.stream, handle
                outer.used.append(handle)

            def __exit__(self, *_: object) -> None:
                outer.stream = self._before

        return Stream()

    @contextlib.contextmanager
    def on(self, handle: int) -> Iterator[None]:
        """Make a stream current, as a user of CuPy does."""
        with self._on(handle):
            yield
