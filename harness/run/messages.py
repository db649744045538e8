"""Read replies from an untrusted worker: size-limited, with a deadline, plain data only.

Commands and answers travel as `multiprocessing.Connection` sends them, a length and a pickle. `Connection.recv` would
wait forever for the rest of a message whose sender stopped in its middle. A pickle may call any function of the process
that reads it. Here neither is possible. Workers of older trees, which `bench-compare` talks to, send only pickles, so
the format is not JSON.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import time
from multiprocessing.connection import Connection
from typing import Any, NoReturn

_HEADER = struct.Struct("!i")
LONGEST = 1 << 24  # bytes of an answer; a hundred thousand samples are less than a tenth of it


class Garbled(Exception):
    """A message that is no answer."""


def receive(connection: Connection, deadline: float) -> Any:
    """Return the next message on `connection`.

    Parameters
    ----------
    connection : Connection
    deadline : float
        Time of `time.monotonic` by which the whole message must have arrived [s].

    Raises
    ------
    TimeoutError
        If it has not.
    EOFError, OSError
        If the other side has closed the connection.
    Garbled
        If it is no message, is longer than `LONGEST`, or holds anything but numbers, strings and containers of them.
    """
    (length,) = _HEADER.unpack(_read(connection, _HEADER.size, deadline))
    if not 0 < length <= LONGEST:
        raise Garbled(f"a message of {length} bytes")
    text = _read(connection, length, deadline)
    try:
        return _PlainUnpickler(io.BytesIO(text)).load()
    except Garbled:
        raise
    except Exception as error:  # a pickle that was damaged may raise anything
        raise Garbled(f"{type(error).__name__}: {error}") from error


def _read(connection: Connection, size: int, deadline: float) -> bytes:
    parts, left = [], size
    while left:
        if not connection.poll(max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        part = os.read(connection.fileno(), min(left, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler without classes and functions, so that it can make and call none."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse classes and functions: raise Garbled."""
        raise Garbled(f"it names {module}.{name}")
