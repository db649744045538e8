"""The dtypes: one table of what each is called, how its products are summed, and what is exact in it.

Code that differs by dtype asks here. To add one, add a row; `harness.semiring.operations` says for which kinds an
operation is defined.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import numpy as np

from harness.errors import ProblemError

# NumPy's letters of the kinds that products take: bool, signed and unsigned integers, floats, complex numbers.
KINDS = "biufc"


class DType(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    name : str
        NumPy's. CuPy, PyTorch, JAX and ml_dtypes have the same.
    kind : str
        One of `KINDS`. That of NumPy, which calls a dtype of ml_dtypes "V".
    itemsize : int
        Bytes of an element.
    wide : str
        Dtype of the sums of a mixed product over plus_times; empty: there is none.
    c, ptx, blas : str
        Its type in CUDA C, its suffix in PTX, and the letter of its routines in a BLAS.
    digits, exponent : int
        Of a float, or of each part of a complex number: bits of the mantissa, with the hidden one; exponent of the
        least normal number.
    cublas, tma : int
        Its numbers in cudaDataType, if cuBLAS multiplies it or sums in it, and in CUtensorMapDataType; -1: none.
    is_in_torch : bool
        Whether PyTorch computes with it.
    is_of_sums : bool
        Whether it may be the dtype of C and of the result; else of A and B alone. Its NumPy dtype is then of ml_dtypes.
    """

    name: str
    kind: str
    itemsize: int
    wide: str
    c: str
    ptx: str
    blas: str = ""
    digits: int = 0
    exponent: int = 0
    cublas: int = -1
    tma: int = -1
    is_in_torch: bool = True
    is_of_sums: bool = True

    @property
    def llvm(self) -> str:
        """The type in names of LLVM's functions."""
        return f"{'f' if self.kind == 'f' else 'i'}{8 * self.itemsize}"


TABLE = {
    row.name: row
    for row in (
        DType("float64", "f", 8, "", "double", "f64", "d", 53, -1022, cublas=1, tma=8),
        DType("float32", "f", 4, "float64", "float", "f32", "s", 24, -126, cublas=0, tma=7),
        DType("float16", "f", 2, "float32", "Half", "f16", "", 11, -14, cublas=2, tma=6),
        DType("bfloat16", "f", 2, "float32", "", "bf16", "", 8, -126, cublas=14, tma=9, is_of_sums=False),
        DType("float8_e4m3fn", "f", 1, "float32", "E4M3", "e4m3", "", 4, -6, is_of_sums=False),
        DType("float8_e5m2", "f", 1, "float32", "E5M2", "e5m2", "", 3, -14, is_of_sums=False),
        DType("complex128", "c", 16, "", "", "", "z", 53, -1022, cublas=5),
        DType("complex64", "c", 8, "complex128", "", "", "c", 24, -126, cublas=4),
        DType("int64", "i", 8, "", "long long", "s64", tma=5),
        DType("int32", "i", 4, "", "int", "s32", cublas=10, tma=3),
        DType("int16", "i", 2, "", "short", "s16"),
        DType("int8", "i", 1, "int32", "signed char", "s8", cublas=3),
        DType("uint64", "u", 8, "", "unsigned long long", "u64", tma=4, is_in_torch=False),
        DType("uint32", "u", 4, "", "unsigned", "u32", tma=2, is_in_torch=False),
        DType("uint16", "u", 2, "", "unsigned short", "u16", tma=1, is_in_torch=False),
        DType("uint8", "u", 1, "int32", "unsigned char", "u8", tma=0),
        DType("bool", "b", 1, "", "unsigned char", "u8"),
    )
}

# Those of C and of the result, as NumPy's own objects, and the one of them that nothing is summed in.
DTYPES = tuple(np.dtype(row.name) for row in TABLE.values() if row.is_of_sums)
HALF = np.dtype(np.float16)
# Mixed precision: the dtype of A and B, and the wider one of the sums, of C and of D; those of the widest sums last.
_narrow = [row for row in TABLE.values() if row.wide]
MIXED = {row.name: row.wide for row in sorted(_narrow, key=lambda row: TABLE[row.wide].itemsize)}


@functools.cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return ``dtype.name``, for which NumPy imports a module each time: that takes long, and fails as Python ends."""
    return dtype.name


for _dtype in DTYPES:
    dtype_name(_dtype)  # while modules can be imported


def row_of(dtype: np.dtype[Any]) -> DType:
    """Return the row of a dtype of the table."""
    return TABLE[dtype_name(dtype)]


def is_known(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of `dtype` hold numbers that some product takes."""
    return dtype.kind in KINDS or dtype_name(dtype) in TABLE


def is_bool(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are true or false."""
    return dtype.kind == "b"


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are integers, with signs or without."""
    return dtype.kind in "iu"


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are real numbers that are rounded, of a dtype of NumPy."""
    return dtype.kind == "f"


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are complex numbers: a real and an imaginary part side by side, each rounded."""
    return dtype.kind == "c"


def is_float8(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are floats of one byte of the table, which no library on a CPU multiplies."""
    return dtype.itemsize == 1 and dtype_name(dtype) in TABLE and row_of(dtype).kind == "f"


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of arrays of CuPy that hold elements of `dtype`: unsigned integers for those of ml_dtypes."""
    return np.dtype(f"u{dtype.itemsize}") if is_known(dtype) and not row_of(dtype).is_of_sums else dtype


def parts_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real and the imaginary part of complex numbers; that of other numbers is their own."""
    return np.dtype(f"f{dtype.itemsize // 2}") if is_complex(dtype) else dtype


def count_parts(dtype: np.dtype[Any]) -> int:
    """Return how many real numbers an element is: 2 if it is complex, else 1."""
    return 2 if is_complex(dtype) else 1


def is_exact(dtype: np.dtype[Any]) -> bool:
    """Return whether nothing is rounded: sums are equal in any order, and there is no NaN."""
    return dtype.kind in "biu"


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the least value of `dtype`: -inf, the integer minimum, or False."""
    return dtype.type(np.iinfo(dtype).min if is_integer(dtype) else False if is_bool(dtype) else -np.inf)


def highest(dtype: np.dtype[Any]) -> Any:
    """Return the greatest value of `dtype`: +inf, the integer maximum, or True."""
    return dtype.type(np.iinfo(dtype).max if is_integer(dtype) else True if is_bool(dtype) else np.inf)


def float_limits(dtype: np.dtype[Any]) -> Any:
    """Return the limits of floats, or of the parts of complex numbers, as `numpy.finfo` does; of `ml_dtypes` too."""
    if row_of(dtype).is_of_sums:
        return np.finfo(dtype)
    import ml_dtypes  # where the dtype itself comes from

    return ml_dtypes.finfo(dtype)


def named_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype called `name`; those that are not NumPy's are of `ml_dtypes`, which is imported only here.

    Raises
    ------
    ProblemError
        If `ml_dtypes` is needed and not installed.
    """
    if name not in TABLE or TABLE[name].is_of_sums:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ProblemError(
            f"{name} needs the package ml_dtypes", got="not installed", fix="pip install ml_dtypes"
        ) from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def factors_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of A and B in a product of factors of `dtypes`: theirs if it is one, or of floats a narrow one.

    That one has the same sums, and holds every number of each. None: there is no such dtype.
    """
    names = frozenset(map(dtype_name, dtypes))
    name = _narrowest(names) if len(names) > 1 else ""
    return dtypes[0] if len(names) == 1 else None if name is None else named_dtype(name)


@functools.cache
def _narrowest(names: frozenset[str]) -> str | None:
    rows = [TABLE[name] for name in names if name in TABLE]
    if len(rows) < len(names) or len({(row.kind, row.wide) for row in rows}) > 1 or rows[0].kind != "f":
        return None
    digits, exponent = max(row.digits for row in rows), min(row.exponent for row in rows)
    holds = [x for x in _narrow if x.wide == rows[0].wide and x.digits >= digits and x.exponent <= exponent]
    return min(holds, key=lambda row: row.digits).name if holds else None


def mixed_dtypes() -> list[tuple[np.dtype[Any], np.dtype[Any]]]:
    """Return the pairs of `MIXED` that can be made here: some need `ml_dtypes`."""
    pairs = []
    for narrow, wide in MIXED.items():
        with contextlib.suppress(ProblemError):
            pairs.append((named_dtype(narrow), np.dtype(wide)))
    return pairs
