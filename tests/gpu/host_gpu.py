"""A GPU that is played by the host, below CuPy: whole calls of the public API run, and all that they ask is recorded.

It stands for the module `cupy`. Kernels are launched through its driver as on a GPU, from packed arguments, and
executed by the shim. cuBLAS is a product by NumPy.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from backends.gpu._cuda import device, launches
from backends.gpu._program import packed, templates
from backends.gpu._program.program import Kernel
from backends.gpu._program.tensor_map import MAP_BYTES, TensorMap
from backends.gpu.libraries import _cublas, _cublas_lt
from harness.api import arrays
from harness.dtypes import is_float8, named_dtype
from harness.tuning.device import MEASURED
from tests._support.fake_arrays import Array, Cupy
from tests.gpu.host_kernels import describe, expect, fenced, load

CAPTURING = 0xCA  # handle of the stream that is captured
_DTYPES = {
    0: "float32",
    1: "float64",
    2: "float16",
    14: "bfloat16",
    4: "complex64",
    5: "complex128",
}  # of library_types.h
_Dimensions = ctypes.c_uint * 3
_KEPT: list[Any] = []  # functions that programs of earlier tests may call


class Named(Array):
    """An array of float8, as CuPy has them: bytes, of which views alone keep the name."""

    dtype: Any

    def __init__(self, bits: np.ndarray, index: int, dtype: np.dtype) -> None:
        super().__init__(bits, index)
        self.dtype = dtype

    def _like(self, values: Any) -> Array:
        is_view = values.dtype == self.values.dtype and (np.shares_memory(values, self.values) or not values.size)
        return Named(values, self.device.id, self.dtype) if is_view else super()._like(values)

    def reshape(self, *shape: Any) -> Named:
        return Named(self.values.reshape(*shape), self.device.id, self.dtype)


Named.__module__ = "cupy"


class HostGpu(Cupy):
    """The module `cupy` with one GPU or more.

    Attributes
    ----------
    launches : list of (str, int)
        Function and stream of each kernel, "cublas" for a product by that library.
    compiled : set
        Kernels by stem and defines.
    allocated : list of int
        Bytes of each array and each scratch.
    held, most_held : int
        Bytes of all that are there, now and at most.
    graph : list of (str, int)
        Memory that a captured call has taken from its graph, and has given back.
    contexts : list of int
        The stream of each context of cuBLAS.
    raised : list of BaseException
        What kernels that C called have raised.
    """

    def __init__(self) -> None:
        self._here = threading.local()
        super().__init__()
        self.launches, self.compiled, self.allocated = [], set(), []
        self.held = self.most_held = 0
        self.graph, self.contexts, self.raised = [], [], []
        self._callbacks: dict[str, Any] = {}
        self._functions: dict[int, Kernel] = {}
        self._kept: dict[int, np.ndarray] = {}
        self._one_at_a_time = threading.Lock()  # the shim runs one kernel at a time
        memory = types.SimpleNamespace(OutOfMemoryError=MemoryError)
        driver = types.SimpleNamespace(launchKernel=self._launch, ctxGetCurrent=lambda: 1)
        runtime = types.SimpleNamespace(
            getDevice=lambda: self.current,
            getDeviceCount=lambda: 1,
            memGetInfo=lambda: (1 << 30, 1 << 30),
            streamIsCapturing=lambda stream: stream == CAPTURING,
            mallocAsync=self._malloc_of_graph,
            memcpyAsync=lambda to, source, size, kind, stream: ctypes.memmove(to, source, size),
            memcpyPeerAsync=lambda to, there, source, here, size, stream: ctypes.memmove(to, source, size),
            deviceCanAccessPeer=lambda here, there: False,
            memsetAsync=lambda address, value, size, stream: ctypes.memset(address, value, size),
            freeAsync=lambda address, stream: self.graph.append(("free", stream)),
        )
        vars(self.cuda).update(
            get_current_stream=self._stream, alloc=self._alloc, memory=memory, driver=driver, runtime=runtime
        )
        vars(self.cuda).update(
            Stream=lambda non_blocking: _stream_of(1), Event=lambda **_: _event(), alloc_pinned_memory=bytearray
        )
        vars(self)["get_default_memory_pool"] = lambda: types.SimpleNamespace(free_bytes=lambda: 0)

    @property
    def current(self) -> int:
        """The GPU of this thread."""
        return getattr(self._here, "index", 0)

    @current.setter
    def current(self, index: int) -> None:
        self._here.index = index

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        if is_float8(np.dtype(dtype)):
            raise ValueError(f"Unsupported dtype {dtype}")
        memory = self._take(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return Array(memory.view(dtype).reshape(shape), self.current)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
        filled = self.empty(shape, dtype)
        filled.fill(value)
        return filled

    def array(self, x: Any, order: Any = "K") -> Array:
        """Return a copy on the current GPU, not counted as allocated."""
        values = getattr(x, "values", x).copy(order=order)
        is_named = is_float8(values.dtype)
        return Named(values.view(np.uint8), self.current, values.dtype) if is_named else Array(values, self.current)

    asarray = array

    def ascontiguousarray(self, x: Array) -> Array:
        copy = self.empty(x.shape, x.values.dtype)
        copy[...] = x
        return copy

    def broadcast_to(self, x: Array, shape: tuple[int, ...]) -> Array:
        return x._like(np.broadcast_to(x.values, shape))

    @contextmanager
    def on_stream(self, handle: int) -> Iterator[None]:
        """Make the stream of that handle current in this thread."""
        self._here.stream = handle
        try:
            yield
        finally:
            self._here.stream = 0

    def _stream(self) -> Any:
        handle = getattr(self._here, "stream", 0)
        return _stream_of(handle)

    def _alloc(self, size: int) -> Any:
        memory = self._take(size)
        return types.SimpleNamespace(ptr=memory.ctypes.data, keeps=memory)

    def _take(self, size: int) -> np.ndarray:
        """Return memory of the GPU, counted until it is given back."""
        memory = _used(size)
        self.allocated.append(size)
        self._hold(size)
        owner = memory
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        weakref.finalize(owner, self._hold, -size).atexit = False
        return memory

    def _hold(self, size: int) -> None:
        self.held += size
        self.most_held = max(self.most_held, self.held)

    def _malloc_of_graph(self, size: int, stream: int) -> int:
        self.graph.append(("malloc", stream))
        memory = _used(size)
        self._kept[memory.ctypes.data] = memory
        return memory.ctypes.data

    def load(self, stem: str, defines: Any, function: str, shared_bytes: int = 0, suffix: str = "") -> Any:
        """Stand for `load_kernel`."""
        handle = len(self._functions) + 1
        self._functions[handle] = Kernel(stem, defines, (1,), shared_bytes, function, suffix)
        return types.SimpleNamespace(ptr=handle)

    def compile_together(self, kernels: Iterable[tuple[str, Any, str]], alike: Any = None) -> None:
        """Stand for `compile_together`."""
        kernels = [*kernels]
        self.compiled.update(kernels)
        expect((stem, defines) for stem, defines, _ in kernels)

    def _launch(self, handle: int, *sizes: int) -> None:
        *extents, shared, stream, parameters, extra = sizes
        assert extra == 0
        kernel = self._functions[handle]
        with self._one_at_a_time:
            self.launches.append((kernel.function, stream))
            grid, block = _Dimensions(*extents[:3]), _Dimensions(*extents[3:])
            said = load(kernel)(grid, block, ctypes.c_size_t(shared), ctypes.c_void_p(parameters))
        assert not said, said

    def function_of_driver(self, name: str) -> int:
        """Stand for `function_of_driver`."""
        return self._address(name, {"cuLaunchKernel": 11, "cuLaunchKernelEx": 4}[name])

    def address(self, routine: str) -> int:
        """Stand for `_cublas.address`."""
        return self._address(routine, {"cublasSetStream_v2": 2, "cublasGemmEx": 19}.get(routine, 23))

    def _address(self, name: str, count: int) -> int:
        """Return the address of a method as a function of C, which returns an int."""
        if name not in self._callbacks:

            def call(*words: int) -> int:
                try:
                    return int(getattr(self, name)(*words) or 0)
                except BaseException as error:  # noqa: BLE001 - C knows none
                    self.raised.append(error)
                    return 1

            self._callbacks[name] = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * count)(call)
            _KEPT.append(self._callbacks[name])
        return ctypes.cast(self._callbacks[name], ctypes.c_void_p).value or 0

    # The driver

    def cuLaunchKernel(self, handle: int, *sizes: int) -> None:  # noqa: N802 as CUDA calls it
        self.cuda.driver.launchKernel(handle, *sizes)

    def cuLaunchKernelEx(self, config: int, handle: int, parameters: int, extra: int) -> None:  # noqa: N802
        sizes, stream = (ctypes.c_uint * 7).from_address(config), ctypes.c_uint64.from_address(config + 32).value
        self.cuda.driver.launchKernel(handle, *sizes, stream, parameters, extra)

    # cuBLAS

    def cublasCreate_v2(self, reference: Any) -> int:  # noqa: N802 as cuBLAS calls it
        reference._obj.value = len(self.contexts) + 1
        self.contexts.append(0)  # its stream
        return 0

    def cublasSetStream_v2(self, context: int, stream: int) -> int:  # noqa: N802
        self.contexts[context - 1] = stream
        return 0

    def cublasGemmEx(self, context: int, *arguments: int) -> int:  # noqa: N802
        of_b, of_a, n, m, k, alpha, b, narrow, ldb, a, _, lda, beta, c, wide, ldc, *_ = arguments
        kind, of_operands = np.dtype(_DTYPES[wide]), named_dtype(_DTYPES[narrow])
        alpha, beta = (np.frombuffer(ctypes.string_at(x, kind.itemsize), kind)[0] for x in (alpha, beta))
        x = _matrix(a, m, k, lda, of_operands, of_a).astype(kind)
        y = _matrix(b, k, n, ldb, of_operands, of_b).astype(kind)
        z = _matrix(c, m, n, ldc, kind, 0)
        self.launches.append(("cublas", self.contexts[context - 1]))
        z[...] = alpha * (x @ y) + (beta * z if beta else 0)
        return 0

    def cublasGemmStridedBatchedEx(self, context: int, *arguments: int) -> int:  # noqa: N802
        of_b, of_a, n, m, k, alpha, b, narrow, ldb, step_b, a, _, lda, step_a, *rest = arguments
        beta, c, wide, ldc, step_c, count, *_ = rest
        kind, of_operands = np.dtype(_DTYPES[wide]), named_dtype(_DTYPES[narrow])
        alpha, beta = (np.frombuffer(ctypes.string_at(x, kind.itemsize), kind)[0] for x in (alpha, beta))
        self.launches.append(("cublas", self.contexts[context - 1]))
        for i in range(count):
            x, y, z = (
                _matrix(address + i * ctypes.c_int64(step).value * of.itemsize, rows, columns, ld, of, turned)
                for address, step, rows, columns, ld, turned, of in (
                    (a, step_a, m, k, lda, of_a, of_operands), (b, step_b, k, n, ldb, of_b, of_operands),
                    (c, step_c, m, n, ldc, 0, kind),
                )
            )  # fmt: skip
            z[...] = alpha * (x.astype(kind) @ y.astype(kind)) + (beta * z if beta else 0)
        return 0


def _stream_of(handle: int) -> Any:
    """Return a stream in which all is done at once."""
    return types.SimpleNamespace(
        ptr=handle,
        is_capturing=lambda: handle == CAPTURING,
        synchronize=lambda: None,
        record=_event,
        wait_event=lambda event: None,
    )


def _event() -> Any:
    return types.SimpleNamespace(record=lambda stream=None: None, synchronize=lambda: None, done=True)


def _used(size: int) -> np.ndarray:
    """Return bytes of memory that others have used: not zeros."""
    memory = fenced(size, np.dtype(np.uint8), at_end=False)
    memory[...] = 0xA5
    return memory


def _matrix(address: int, rows: int, columns: int, ld: int, dtype: np.dtype[Any], turned: int) -> np.ndarray:
    if turned:  # it lies by columns
        return _matrix(address, columns, rows, ld, dtype, 0).T
    size = ((rows - 1) * ld + columns) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(address)
    return np.ndarray((rows, columns), dtype, memory, 0, (ld * dtype.itemsize, dtype.itemsize))


def _encode(tensor_map: TensorMap, address: int, position: int) -> None:
    """Stand for `TensorMap.encode`: write what the shim's copy engine reads."""
    ctypes.memmove(position, describe(tensor_map, address).ljust(MAP_BYTES, b"\0"), MAP_BYTES)


def install(patch: Any) -> HostGpu:
    """Have the GPU backends compute on a `HostGpu`, by pytest's monkeypatch, and return it."""
    gpu = HostGpu()
    chip = dataclasses.replace(MEASURED, name="host", l2=1 << 20, memory=1 << 30)
    patch.setitem(sys.modules, "cupy", gpu)
    patch.setattr(device, "cupy", lambda: gpu)
    patch.setattr(arrays, "named", lambda x, dtype: Named(x.values.view(np.uint8), x.device.id, dtype))
    patch.setattr(arrays, "unnamed", lambda x: Array(x.values, x.device.id))
    patch.setattr(device, "_no_gpu", lambda: None)
    patch.setattr(device, "device", lambda index=None: chip)
    patch.setattr(device, "current_index", lambda: gpu.current)
    patch.setattr(packed, "_functions", {})
    patch.setattr(templates, "_known", {})
    patch.setattr(packed, "load_kernel", gpu.load)
    patch.setattr(launches, "function_of_driver", gpu.function_of_driver)
    patch.setattr(packed, "compile_together", gpu.compile_together)
    patch.setattr(TensorMap, "encode", _encode)
    patch.setattr(_cublas, "library", lambda: gpu)
    patch.setattr(_cublas, "address", gpu.address)
    patch.setattr(_cublas_lt, "library", lambda: None)
    spare: dict[int, list[Any]] = {}
    patch.setattr(_cublas, "spare_contexts", lambda index: spare.setdefault(index, []))
    return gpu
