"""Require IEEE arithmetic: products of floats as sums of rounded products, on every path.

``backend="auto"`` may compute products over float64 and float32 on a GPU by exact products of integers
(docs/float64-by-int8.md). Their errors are no larger, but they are others. A program that wants sums in IEEE arithmetic
says so here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

# If it is set and not empty when this package is imported, everything is native.
VARIABLE = "GEMM_HARNESS_NATIVE_FLOATS"

_is_native = ContextVar("native_floats", default=bool(os.environ.get(VARIABLE)))

# Whether products are native here and now, in this thread or task.
is_native = _is_native.get


@contextlib.contextmanager
def native_floats() -> Iterator[None]:
    """Have ``backend="auto"`` compute products of floats natively inside the ``with``, in this thread or task.

    A backend that is named computes as it does. The environment variable ``GEMM_HARNESS_NATIVE_FLOATS=1`` does the
    same for a whole process.

    Examples
    --------
    >>> import harness
    >>> with harness.native_floats():
    ...     pass
    """
    token = _is_native.set(True)
    try:
        yield
    finally:
        _is_native.reset(token)
