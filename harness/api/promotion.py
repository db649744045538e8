"""The dtypes of a product, by those of its operands and the one that is asked for. Nothing is converted silently.

Without a dtype NumPy's promotion decides, and the result has the promoted dtype. A dtype that is asked for is either
that one, or the dtype of the sums of a mixed product (`harness.problem.MIXED`), whose A and B stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.errors import ProblemError
from harness.problem import MIXED


def choose_dtypes(arrays: dict[str, np.ndarray], wanted: Any) -> tuple[np.dtype[Any], np.dtype[Any] | None]:
    """Return the dtype of the sums and of the result, and that of a and b if the product is mixed.

    Parameters
    ----------
    arrays : dict
        The operands by name: a, b, and c if there is one.
    wanted : numpy dtype or None
        What the caller asks for.

    Raises
    ------
    ProblemError
        If the operands have no common dtype, or `wanted` is neither that nor the dtype of the sums of a mixed product.
    """
    found = {name: x.dtype.newbyteorder("=") for name, x in arrays.items()}
    if wanted is None:
        return _promoted(found), None
    dtype, narrow = _as_dtype(wanted), found["a"]
    if narrow != found["b"] or MIXED.get(narrow.name) != dtype.name:
        promoted = _promoted(found)
        if dtype != promoted:
            mixed = ", ".join(f"{wide} for a and b of {name}" for name, wide in MIXED.items())
            raise _misfit(
                f"gemm: dtype={dtype.name!r} is not that of the product", f"{promoted.name}; or {mixed}", found
            )
        return dtype, None
    if found.get("c", dtype) != dtype:
        raise _misfit("gemm: c has not the dtype of the sums", f"c of {dtype.name}", found)
    return dtype, narrow


def _promoted(found: dict[str, np.dtype[Any]]) -> np.dtype[Any]:
    try:
        promoted: np.dtype[Any] = np.result_type(*found.values()).newbyteorder("=")
    except TypeError:
        raise _misfit("gemm: the operands have no common dtype", "dtypes that NumPy promotes to one", found) from None
    return promoted


def _as_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        native: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        raise ProblemError("gemm: dtype is not a NumPy dtype", expected="'float32'", got=repr(dtype)) from None
    return native


def _misfit(what: str, expected: str, found: dict[str, np.dtype[Any]]) -> ProblemError:
    got = ", ".join(f"{name} of {dtype.name}" for name, dtype in found.items())
    return ProblemError(what, expected=expected, got=got, fix="convert with astype: gemm converts nothing by itself")
