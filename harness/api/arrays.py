"""The kinds of arrays that the public calls take, with the few operations that differ by kind.

A call chooses the kind once, at its edge, by the types of its arguments. Products of CuPy arrays are computed on the
GPU that holds them, in its current stream, without a copy. CuPy is never imported here: a caller with its arrays has
loaded it. Arrays of other libraries come as views of one of these kinds (harness/api/libraries/views.py).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from harness.api.conversion import of_cupy, of_float8
from harness.api.libraries import check_one_library, type_name
from harness.api.libraries.gpu import named, unnamed
from harness.dtypes import is_float8
from harness.errors import ProblemError
from harness.operands import span
from harness.tuning import static_order


class Arrays:
    """Arrays of NumPy, and objects that `numpy.asarray` takes. Another kind overrides what differs.

    Attributes
    ----------
    module : module
        The library, which names `empty`, `broadcast_to` and `may_share_memory` as NumPy does.
    on_device : bool
        Whether they lie on a device, so that backends must take them there.
    other_way : str
        A caller's fix if no backend computes with them, or the one asked for does not.
    """

    module: ModuleType = np
    on_device = False
    other_way = "another from `python -m harness list`"

    def tried_first(self) -> tuple[str, ...]:
        """Return the backends that ``backend="auto"`` asks before all others, the first one first."""
        return static_order.AUTO_FIRST

    def take(self, caller: str, name: str, x: Any) -> Any:
        """Return the operand `name` of `caller` as an array of this kind, or raise ProblemError."""
        if hasattr(x, "__cuda_array_interface__"):
            raise ProblemError(
                f"{caller}: {name} lies on a GPU",
                expected="a host array, or all arrays of CuPy",
                got=type_name(x),
                fix=f"cupy.asarray({name}), which copies nothing, for all arrays",
            )
        if is_masked(x):
            raise ProblemError(
                f"{caller}: {name} is a masked array",
                expected="an array whose every element counts",
                got=type(x).__name__,
                fix=f"{name}.filled(value): the semiring's zero makes an element absent",
            )
        return as_array(caller, name, x)

    def is_writable(self, out: Any) -> bool:
        """Return whether the array `out`, of this kind, may be written to."""
        return bool(out.flags.writeable)

    def plain(self, out: Any) -> Any:
        """Return `out`, of this kind, or a view of it without what a subclass says of functions and operators."""
        return np.asarray(out)

    def converted(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return `x` with that dtype, native and aligned, as backends read it; a copy only if it must be."""
        if x.dtype != dtype and is_float8(x.dtype):
            return of_float8(x, x.view(np.uint8), dtype, self.constant)
        return x.astype(dtype, order="K") if x.dtype != dtype or not x.flags.aligned else x

    def in_force(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which new arrays are made on the device of these, and NumPy reports no arithmetic.

        Steps inside a product may underflow, or overflow, where its result does not, which no `numpy.errstate` of the
        caller is meant for.
        """
        return np.errstate(all="ignore")

    def is_in_force(self) -> bool:
        """Return whether new arrays are made on the device of these already."""
        return True

    def refuse_capture(self, what: str, fix: str) -> None:
        """Raise ProblemError, which says `what` cannot be captured, if a CUDA graph captures what is done now."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised C-ordered array."""
        return self.module.empty(shape, dtype)

    def operand(self, x: Any, dtype: np.dtype[Any], batch: tuple[int, ...]) -> Any:
        """Return `x` with the product's dtype, broadcast to the batch."""
        converted = self.converted(x, dtype)
        return converted if x.ndim == 2 and not batch else self.module.broadcast_to(converted, (*batch, *x.shape[-2:]))

    def overlaps(self, x: Any, y: Any) -> bool:
        """Return whether `x` and `y` may share memory."""
        return bool(self.module.may_share_memory(x, y))

    def constant(self, value: np.ndarray) -> Any:
        """Return `value`, an array of few bytes, where these lie; it is kept there, and not to be written to."""
        return value

    def fetch(self, x: Any) -> Callable[[], np.ndarray]:
        """Begin to copy `x` to the host; return ``wait()``, which returns the copy, or `x` itself if it lies there."""
        return lambda: x


def is_masked(x: Any) -> bool:
    """Return whether `x` is a masked array of NumPy, whose module nobody without one need load."""
    # Another thread may be loading the module: until it has the class, there is no such array.
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return kind is not None and isinstance(x, kind)


def as_array(caller: str, name: str, x: Any) -> np.ndarray:
    """Return `x` as an array of NumPy, or raise ProblemError, as of a list whose rows have several lengths."""
    try:
        return np.asarray(x)
    except ValueError as error:
        what, expected = f"{caller}: {name} is no array", "what numpy.asarray takes: of lists, rows of one length"
        raise ProblemError(what, expected=expected, got=str(error)) from None


class CupyArrays(Arrays):
    """Arrays of CuPy on one GPU.

    Parameters
    ----------
    caller : str
        Named in messages.
    arguments : dict
        All arrays of the call by name; at least one is of CuPy.

    Raises
    ------
    ProblemError
        If one of them lies on the host, or on another GPU.
    """

    on_device = True
    other_way = "x.get() of each"

    def __init__(self, caller: str, arguments: dict[str, Any]) -> None:
        self.module, self._caller = sys.modules["cupy"], caller
        first = next(name for name, x in arguments.items() if isinstance(x, self.module.ndarray))
        self._index = int(arguments[first].device.id)
        for name, x in arguments.items():
            if not isinstance(x, self.module.ndarray):
                raise ProblemError(
                    f"{caller}: {first} lies on a GPU, {name} does not",
                    expected="all arrays of CuPy, or all on the host",
                    got=f"{name}: {type_name(x)}",
                    fix=f"cupy.asarray({name}), or {first}.get()",
                )
            if int(x.device.id) != self._index:
                raise ProblemError(
                    f"{caller}: {first} and {name} lie on different GPUs",
                    expected=f"all arrays on GPU {self._index}, where {first} is",
                    got=f"{name} on GPU {int(x.device.id)}",
                    fix=f"with cupy.cuda.Device({self._index}): {name} = cupy.array({name})",
                )

    def tried_first(self) -> tuple[str, ...]:
        return static_order.AUTO_FIRST_ON_GPU

    def take(self, caller: str, name: str, x: Any) -> Any:
        return named(x, x.dtype) if is_float8(x.dtype) else x  # it lies on the GPU already

    def is_writable(self, out: Any) -> bool:
        return True  # CuPy has no read-only arrays

    def plain(self, out: Any) -> Any:
        return out

    def converted(self, x: Any, dtype: np.dtype[Any]) -> Any:
        if x.dtype == dtype:
            return x
        if is_float8(x.dtype):
            return of_float8(x, unnamed(x), dtype, self.constant)
        return of_cupy(x, dtype, self.module)

    def overlaps(self, x: Any, y: Any) -> bool:
        # by addresses: `cupy.may_share_memory` compares blocks of memory, which differ in views of one tensor
        begin, end = addresses(x)
        other_begin, other_end = addresses(y)
        return begin < other_end and other_begin < end and x.size > 0 and y.size > 0

    def constant(self, value: np.ndarray) -> Any:
        key = self.module, self._index, value.dtype, value.shape, value.tobytes()
        kept = _constants.get(key)
        if kept is None:
            self.refuse_capture("this product has not been computed before", "call it once before the capture begins")
            with self.in_force():
                kept = self.module.asarray(value)
                self.module.cuda.get_current_stream().synchronize()  # calls in other streams read it, too
            if len(_constants) >= _MOST_CONSTANTS:
                _constants.clear()
            _constants[key] = kept
        return kept

    def fetch(self, x: Any) -> Callable[[], np.ndarray]:
        cuda, copy = self.module.cuda, x.copy()  # without gaps, as it is transferred
        pinned = np.frombuffer(cuda.alloc_pinned_memory(max(x.nbytes, 1)), x.dtype, x.size).reshape(x.shape)
        copy.get(out=pinned, blocking=False)
        done = cuda.Event(block=False, disable_timing=True)
        done.record()

        def wait() -> np.ndarray:
            done.synchronize()
            return pinned

        return wait

    def in_force(self) -> contextlib.AbstractContextManager[Any]:
        return super().in_force() if self.is_in_force() else self._elsewhere()

    @contextlib.contextmanager
    def _elsewhere(self) -> Iterator[None]:
        with super().in_force(), self.module.cuda.Device(self._index):
            yield

    def is_in_force(self) -> bool:
        return bool(self.module.cuda.runtime.getDevice() == self._index)

    def refuse_capture(self, what: str, fix: str) -> None:
        stream = self.module.cuda.get_current_stream()
        if stream.ptr not in _NEVER_CAPTURED and stream.is_capturing():
            raise ProblemError(
                f"{self._caller}: {what}, and a CUDA graph captures this call",
                expected="a product that has been computed before, and takes no copies",
                fix=fix,
            )


# Small arrays that calls share, by GPU and value: to make one takes longer than all else of a small call.
_constants: dict[tuple[Any, ...], Any] = {}
_MOST_CONSTANTS = 64

# Handles of the stream that all threads share, which no graph captures.
_NEVER_CAPTURED = (0, 1)

HOST = Arrays()

# Kinds of other libraries, by the package that defines the type of their arrays.
_BY_PACKAGE: dict[str, Callable[[str, dict[str, Any]], Arrays]] = {"cupy": CupyArrays}


def addresses(x: Any) -> tuple[int, int]:
    """Return the addresses of the first byte of an array of CuPy, and of the one after its last."""
    low, end = span(x.shape, x.strides, x.itemsize)
    return x.data.ptr + low, x.data.ptr + end


def kind_of(caller: str, arguments: dict[str, Any]) -> Arrays:
    """Return the kind of the arrays `arguments`, by name; `HOST` if no other library has made one.

    Raises
    ------
    ProblemError
        If they are not all of one library, or do not lie on one device.
    """
    check_one_library(caller, arguments)
    for x in arguments.values():
        package = type(x).__module__.partition(".")[0]
        if package in _BY_PACKAGE and isinstance(x, sys.modules[package].ndarray):
            return _BY_PACKAGE[package](caller, arguments)
    return HOST
