"""Arrays that a compiled function makes of an address: contiguous, so that LLVM vectorises loops over them."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def as_pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as the pointer that `numba.carray` takes."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), emit
