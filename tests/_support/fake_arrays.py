"""A library of arrays on GPUs that do not exist: CuPy's and PyTorch's protocols, as far as the project uses them.

NumPy does the work. As with CuPy it may not convert such an array, an array of the host and one of a GPU do not mix, an
element is an array of no dimensions, and only `get` brings it to the host. What calls for another function of CuPy than
NumPy has, or for an attribute that CuPy's arrays lack, is found out. Tensors have memory of NumPy's arrays too, by its
address, so that a view shows what the tensor holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

# Of NumPy's arrays alone.
_NOT_CUPYS = {"base", "byteswap", "ctypes", "mT", "tofile", "setflags", "to_device"}


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on GPU `index`."""

    def __init__(self, values: Any, index: int = 0, mem: Any = None) -> None:
        self.values, self.device, self.mem = np.asarray(values), types.SimpleNamespace(id=index), mem

    data = property(
        lambda self: types.SimpleNamespace(ptr=self.values.ctypes.data, device_id=self.device.id, mem=self.mem)
    )
    __cuda_array_interface__ = property(lambda self: {"shape": self.values.shape})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in _NOT_CUPYS:
            raise AttributeError(name)
        found = getattr(self.values, name)
        return _on_gpu(found, self._like) if callable(found) else _wrapped(found, self._like)

    def _like(self, values: Any) -> Array:
        """Return an array that lies where this one does."""
        return Array(values, self.device.id)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        given = options if out is None else options | {"out": out}
        done = _on_gpu(getattr(ufunc, method), self._like)(*inputs, **given)
        return done if out is None else out[0]

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        return _on_gpu(function, self._like)(*arguments, **options)

    def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Array:
        """Return a copy of another dtype, to which CuPy takes subnormal numbers of float32 as zeros."""
        values = self.values
        if values.dtype in (np.float32, np.complex64) and np.dtype(dtype) != values.dtype:
            values = flushed(values)
        return self._like(values.astype(dtype, *arguments, **options))

    def __getitem__(self, at: Any) -> Array:
        return self._like(self.values[_plain(at)])

    def __setitem__(self, at: Any, x: Any) -> None:
        self.values[_plain(at)] = _plain(x)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def set(self, x: np.ndarray) -> None:
        self.values[...] = x

    def get(self, out: np.ndarray | None = None, *, blocking: bool = True) -> np.ndarray:
        if out is None:
            return self.values.copy()
        out[...] = self.values
        return out


Array.__module__, Array.__qualname__, Array.__name__ = "cupy", "ndarray", "ndarray"


def flushed(x: np.ndarray) -> np.ndarray:
    """Return a copy of float32 or complex64 in which subnormal numbers are zeros, as CuPy's own kernels read them."""
    copy = x.copy(order="K")
    for part in (copy.real, copy.imag) if copy.dtype.kind == "c" else (copy,):
        is_subnormal = np.abs(part) < np.finfo(np.float32).tiny
        part[is_subnormal] = np.copysign(0, part[is_subnormal])
    return copy


def _plain(x: Any) -> Any:
    """Return what NumPy computes with in place of `x`, which may be no array of the host."""
    if isinstance(x, tuple | list):
        return type(x)(map(_plain, x))
    if isinstance(x, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return x.values if isinstance(x, Array) else x


def _wrapped(x: Any, like: Callable[[Any], Array]) -> Any:
    if isinstance(x, tuple):
        wrapped = [_wrapped(each, like) for each in x]
        return type(x)(*wrapped) if hasattr(x, "_fields") else tuple(wrapped)
    return like(x) if isinstance(x, np.ndarray | np.generic) else x


def _on_gpu(function: Callable[..., Any], like: Callable[[Any], Array]) -> Callable[..., Any]:
    def compute(*arguments: Any, **options: Any) -> Any:
        given = {key: _plain(x) for key, x in options.items()}
        if "initial" in given:
            raise TypeError("CuPy's reductions take no initial value")
        return _wrapped(function(*map(_plain, arguments), **given), like)

    return compute


class Cupy:
    """Stands for the module `cupy`; knows which GPU is the current one, which ones were, and the streams used."""

    __name__, __spec__ = "cupy", None

    def __init__(self) -> None:
        self.current, self.entered = 0, list[int]()
        self.stream, self.used = 0, list[int]()
        self.ndarray: type = Array
        self.cuda = types.SimpleNamespace(
            Device=self._device,
            Stream=types.SimpleNamespace(from_external=self._from_external, null=self._on(0)),
            UnownedMemory=lambda address, size, owner, index: types.SimpleNamespace(
                address=address, owner=owner, index=index
            ),
            MemoryPointer=lambda memory, offset: memory,
            get_current_stream=self._stream,
            runtime=types.SimpleNamespace(getDevice=lambda: self.current),
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(np, name)
        is_type = isinstance(found, type) and issubclass(found, np.generic)
        return found if is_type else _on_gpu(found, lambda values: Array(values, self.current))

    def conjugate(self, x: Array) -> Array:
        """Return a conjugated copy, in which subnormal float32 are zeros, as CuPy's own kernels make them."""
        values = np.conjugate(_plain(x))
        return Array(flushed(values) if values.dtype == np.complex64 else values, self.current)

    def asarray(self, x: Any) -> Array:
        """Return a copy of an array of the host, or an array as it is."""
        return x if isinstance(x, Array) else Array(np.array(x), self.current)

    def empty(self, shape: Any, dtype: Any) -> Array:
        poisoned = np.frombuffer(b"\xa5" * (int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype)
        return Array(poisoned.reshape(shape).copy(), self.current)

    @contextlib.contextmanager
    def _device(self, index: int) -> Iterator[None]:
        before, self.current = self.current, index
        self.entered.append(index)
        yield
        self.current = before

    def _stream(self) -> Any:
        return types.SimpleNamespace(ptr=self.stream, is_capturing=lambda: False, synchronize=lambda: None)

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


class View(Array):
    """An array in memory that it does not own, made as CuPy makes it."""

    made = 0

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, memory: Any, strides: tuple[int, ...]) -> None:
        values = memory.owner.values
        assert (values.shape, values.dtype, values.strides) == (shape, dtype, strides)
        assert memory.address == values.ctypes.data
        super().__init__(values, memory.index, types.SimpleNamespace(_owner=memory.owner))
        View.made += 1


View.__module__ = "cupy"


@dataclasses.dataclass(frozen=True)
class DType:
    """A dtype that is none of NumPy."""

    name: str

    @property
    def is_complex(self) -> bool:
        return self.name.startswith("complex")

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

    def is_conj(self) -> bool:
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
        if name in {"float32", "float64", "int32", "complex64"}:
            return name
        raise AttributeError(name)

    def is_grad_enabled(self) -> bool:
        return True

    def device(self, kind: str, index: int) -> str:
        return f"{kind}:{index}"

    def empty(self, shape: Iterable[int], dtype: str, device: str) -> Tensor:
        self.made.append(Tensor(np.empty(shape, dtype), int(device.removeprefix("cuda:"))))
        return self.made[-1]

    def full(self, shape: Iterable[int], value: Any, dtype: str, device: str) -> Tensor:
        made = self.empty(shape, dtype, device)
        made.values[...] = value
        return made

    def from_dlpack(self, x: Array) -> Tensor:
        return Tensor(x.values, x.device.id)

    def _wrote(self, x: Tensor) -> None:
        x.version += 1
