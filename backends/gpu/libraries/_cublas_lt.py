"""cublasLt: products whose algorithm is chosen once, and not in each call.

It is the one that cuBLAS chooses itself. Those that need work memory are left to cuBLAS, which has some.

Source: cuBLAS, cublasLtMatmulAlgoGetHeuristic and cublasLtMatmul.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.launches import STREAM, Given, Routine, address_of
from backends.gpu.libraries._cublas import check

# cublasLt.h
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # of cublasLtMatmulDescAttributes_t
_BATCH_COUNT, _BATCH_STEP = 5, 6  # of cublasLtMatrixLayoutAttribute_t
_MOST_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)  # of cublasLtMatmulPreferenceAttributes_t, of A, B, C and D
_WORKSPACE = 1 << 25  # bytes that cuBLAS has for itself on a GPU of today
_RESULT_WORDS, _ALGORITHM_WORDS = 12, 8  # of cublasLtMatmulHeuristicResult_t, in which bytes of work memory are next

_Place = ctypes.c_void_p


class Layout(NamedTuple):
    """A matrix of a product by columns, or such a matrix of every product of a batch, `step` elements apart."""

    type: int
    rows: int
    columns: int
    ld: int
    step: int = 0


def matmul(
    layouts: tuple[Layout, Layout, Layout],
    turned: tuple[int, int],
    arithmetic: tuple[int, int],
    scalars: tuple[np.ndarray, np.ndarray],
    products: int,
    alignment: int,
) -> Routine | None:
    """Return ``D := alpha A B + beta D`` as a routine of the addresses A, B and D; None: cuBLAS is to be called.

    Parameters
    ----------
    layouts : (Layout, Layout, Layout)
        Of A, B and D.
    turned : (int, int)
        Whether A, and B, is transposed, as cublasOperation_t.
    arithmetic : (int, int)
        cublasComputeType_t, and cudaDataType_t of the scalars.
    scalars : (array, array)
        alpha and beta.
    products : int
        Of a batch; 0: there is none.
    alignment : int
        Bytes of which the addresses are multiples.
    """
    lt = library()
    if lt is None:
        return None
    made: list[tuple[str, Any]] = []

    def create(kind: str, *arguments: Any) -> Any:
        place = _Place()
        check(getattr(lt, f"{kind}Create")(ctypes.byref(place), *arguments), "describe a product")
        made.append((f"{kind}Destroy", place))
        return place

    def put(kind: str, place: Any, attribute: int, value: Any) -> None:
        status = getattr(lt, f"{kind}SetAttribute")(
            place, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        )
        check(status, "describe a product")

    try:
        described = create("cublasLtMatmulDesc", *arithmetic)
        for attribute, is_turned in zip((_TRANSPOSE_A, _TRANSPOSE_B), turned, strict=True):
            put("cublasLtMatmulDesc", described, attribute, ctypes.c_int32(is_turned))
        matrices = []
        for layout in layouts:
            rows, columns, ld = ctypes.c_uint64(layout.rows), ctypes.c_uint64(layout.columns), ctypes.c_int64(layout.ld)
            matrices.append(create("cublasLtMatrixLayout", layout.type, rows, columns, ld))
            if products:
                put("cublasLtMatrixLayout", matrices[-1], _BATCH_COUNT, ctypes.c_int32(products))
                put("cublasLtMatrixLayout", matrices[-1], _BATCH_STEP, ctypes.c_int64(layout.step))
        preference = create("cublasLtMatmulPreference")
        put("cublasLtMatmulPreference", preference, _MOST_WORKSPACE, ctypes.c_size_t(_WORKSPACE))
        for attribute in _ALIGNMENTS:
            put("cublasLtMatmulPreference", preference, attribute, ctypes.c_uint32(alignment))
        a, b, d = matrices
        found, count, handle = (ctypes.c_uint64 * _RESULT_WORDS)(), ctypes.c_int(), _handle(device.current_index())
        status = lt.cublasLtMatmulAlgoGetHeuristic(
            _Place(handle), described, a, b, d, d, preference, 1, ctypes.byref(found), ctypes.byref(count)
        )
    finally:
        kept = _Kept()
        weakref.finalize(kept, _destroy, lt, made).atexit = False
    if status or not count.value or found[_ALGORITHM_WORDS]:
        return None
    alpha, beta = (int(x.ctypes.data) for x in scalars)
    arguments = (
        handle, described.value, alpha, Given(0), a.value, Given(1), b.value, beta, Given(2), d.value, Given(2),
        d.value, ctypes.addressof(found), 0, 0, STREAM,
    )  # fmt: skip
    refuse = functools.partial(check, action="compute the product")
    return Routine(address(), arguments, refuse, (kept, found, scalars))


class _Kept:
    """What was made for a product lives as long as this."""


def _destroy(lt: Any, made: list[tuple[str, Any]]) -> None:
    for name, place in made:
        getattr(lt, name)(place)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return cublasLt, as cuBLAS loads it, or None where it is not found."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
    except (ImportError, RuntimeError, OSError):
        return None


def address() -> int:
    """Return the address of cublasLtMatmul."""
    return address_of(library(), "cublasLtMatmul")


@functools.cache
def _handle(index: int) -> int:
    """Return the handle of a GPU, the current one, which all threads share."""
    place, lt = _Place(), library()
    assert lt is not None
    check(lt.cublasLtCreate(ctypes.byref(place)), "begin")
    return place.value or 0
