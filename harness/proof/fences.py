"""Arrays between pages that may not be touched: each access beside them is seen, and said where.

An array lies so that its last, or its first, byte has such a page for its neighbour. Rows that lie apart have nothing
behind the last one. An access to the page is a SIGSEGV. Its handler, compiled since Python's own would come too late,
notes the address, opens the page and goes on: so a check finds all faults, and no process ends by them. Whatever else
raises SIGSEGV, where nothing is mapped, ends the process as ever.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from harness.errors import BackendUnavailable, VerificationError
from harness.operands import Operands, span

Side = Literal["after", "before"]
SIDES: tuple[Side, ...] = ("after", "before")

_PAGE, _NO_ACCESS, _OPEN = mmap.PAGESIZE, 0, mmap.PROT_READ | mmap.PROT_WRITE
_FENCE = 16 * _PAGE  # bytes on each side
_FILL = 0xFF  # bytes of gaps between rows, NaN and no bool; and of the nearest page of each fence
_SIGSEGV, _SA_SIGINFO = 11, 4
_SIGINFO = struct.Struct("=16xQ")  # of siginfo_t on 64-bit Linux, si_addr


class _Fenced(NamedTuple):
    """An array between its fences, by addresses: of its first byte and behind its last, and of all that is mapped."""

    text: str
    low: int
    high: int
    begin: int
    end: int
    memory: mmap.mmap


class _Action(ctypes.Structure):
    """struct sigaction of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_LIBC = ctypes.CDLL(None, use_errno=True)

# What was fenced last; a product is over, and its arrays may be gone, when a fault is told.
_placed: collections.deque[_Fenced] = collections.deque(maxlen=16)


def missing() -> str | None:
    """Return why nothing can be fenced here, or None."""
    return None if sys.platform == "linux" and sys.maxsize > 2**32 else "signals are read as 64-bit Linux has them"


def fenced(x: np.ndarray, side: Side, name: str = "an array") -> np.ndarray:
    """Return an equal array with the strides of `x`, of any sign or zero, beside a page that may not be touched.

    Parameters
    ----------
    x : array
        Of any shape, nothing too.
    side : str
        ``"after"``: the page begins behind its last byte. ``"before"``: the page ends at its first.
    name : str
        By which a fault is told.
    """
    low, high = span(x.shape, x.strides, x.itemsize) if x.size else (0, 0)
    size = high - low
    room = -(-size // _PAGE) * _PAGE
    memory = mmap.mmap(-1, room + 2 * _FENCE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(begin + _FENCE - _PAGE, _FILL, room + 2 * _PAGE)
    first = _FENCE + (room - size if side == "after" else 0)
    y = np.ndarray(x.shape, x.dtype, memory, first - low, x.strides)
    y[...] = x
    y.flags.writeable = x.flags.writeable
    for fence in (begin, begin + _FENCE + room):
        _protect(fence, _FENCE)
    text, end = f"{name} ({x.dtype.name} of {x.shape}, strides {x.strides})", begin + len(memory)
    _placed.append(_Fenced(text, begin + first, begin + first + size, begin, end, memory))
    return y


def fenced_operands(operands: Operands, side: Side) -> Operands:
    """Return equal operands, each beside a page that may not be touched."""
    a, b, c, out = (x if x is None else fenced(x, side, name) for name, x in vars(operands).items())
    return Operands(a, b, c, out)  # type: ignore[arg-type]  # c alone may be None


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Let the block touch fences, and say so at its end.

    Raises
    ------
    VerificationError
        If it has, instead of what the block itself may raise.
    """
    handler, pipe = _handler()
    ours, before = _Action(handler, flags=_SA_SIGINFO), _Action()
    _LIBC.sigaction(_SIGSEGV, ctypes.byref(ours), ctypes.byref(before))
    try:
        yield
    finally:
        _LIBC.sigaction(_SIGSEGV, ctypes.byref(before), None)
        faults = [_told(address) for address in _drain(pipe)]
        if faults:
            more = f" ({len(faults)} fences are touched)" if len(faults) > 1 else ""
            raise VerificationError(f"memory that is not the operand's is touched: {faults[0]}{more}") from None


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its calls `watched`."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with watched():
            return function(*arguments, **options)

    return call


def _told(address: int) -> str:
    """Return what lies at `address`, and close the fence again."""
    for text, low, high, begin, end, _ in reversed(_placed):
        if begin <= address < end:
            page = address // _PAGE * _PAGE
            content = ctypes.string_at(page, _PAGE)
            is_read = content == content[:1] * _PAGE and content[0] in (0, _FILL)
            ctypes.memset(page, _FILL, _PAGE)
            _protect(page, _PAGE)
            beyond = f"{address - high} bytes behind the end"
            where = beyond if address >= high else f"{low - address} bytes before the begin"
            return f"{'read' if is_read else 'written'} {where} of {text}"
    return f"address {address:#x}, beside no operand"


def _protect(address: int, size: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), _NO_ACCESS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _drain(pipe: int) -> list[int]:
    """Return the addresses that the handler has noted."""
    noted = b""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(pipe, 1 << 16):
            noted += piece
    return [address for (address,) in _SIGINFO.iter_unpack(noted)]


@functools.cache
def _handler() -> tuple[int, int]:
    """Return the address of the handler, and the pipe that it writes to."""
    reason = missing()
    if reason is not None:
        raise BackendUnavailable("check --sanitize: operands cannot be fenced here", got=reason)
    import numba  # heavy, and needed here alone
    from numba import types

    protect = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)(("mprotect", _LIBC))
    write = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(("write", _LIBC))
    default = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)(("signal", _LIBC))
    out, into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    page, access, number, size = _PAGE, _OPEN, _SIGSEGV, _SIGINFO.size

    @numba.cfunc(types.void(types.int32, types.voidptr, types.voidptr))
    def handle(signal, info, context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        address = numba.carray(info, (3,), np.uint64)[2]  # type: ignore[attr-defined]
        if protect(address - address % np.uint64(page), page, access) != 0:
            default(number, 0)
        else:
            write(into, info, size)

    _kept.append(handle)
    return int(handle.address or 0), out


_kept: list[Any] = []  # the handler, which may be called until the process ends
