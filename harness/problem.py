"""One product to compute: sizes, dtype, semiring, alpha and beta. Validates itself; knows its work and its traffic."""

from __future__ import annotations

import dataclasses
import math
import reprlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.dtypes import DTYPES, MIXED, dtype_name, is_bool, is_complex, is_exact, named_dtype
from harness.errors import ProblemError
from harness.scalars import as_count, as_value
from harness.semiring import SEMIRINGS, Scalar, Semiring, as_semiring

# Values of `Problem.triangle` and of `Problem.conjugate`, with what `str` says of each.
TRIANGLES = {"": "", "a": ", A symmetric", "h": ", A Hermitian", "d": ", lower triangle of D"}
CONJUGATES = {"": "", "a": ", A conjugated", "b": ", B conjugated", "ab": ", A and B conjugated"}


@dataclass(frozen=True)
class Problem:
    """``D = (alpha (x) A (x) B) (+) (beta (x) C)`` with A (m, k), B (k, n), C and D (m, n).

    Parameters
    ----------
    m, n, k : int
        Sizes, in elements; zero is legal.
    semiring : Semiring or str
    dtype : numpy dtype
        Of the sums, of C and of the result; of A and B too, unless `operand_dtype` says otherwise.
    alpha : scalar, optional
        None: the semiring's one, that is, no factor.
    beta : scalar, optional
        None: the semiring's one. Only with `accumulate`.
    accumulate : bool
        Whether there is a C. Without one, the earlier content of the output is never read.
    layout : str
        Memory order of A, B and the output, a letter each: ``C`` rows contiguous, ``F`` columns contiguous, ``A`` any
        strides.
    operand_dtype : numpy dtype, optional
        Of A and B in a mixed product, one of `harness.dtypes.MIXED`; bfloat16 is that of `ml_dtypes`. None: `dtype`.
    triangle : str
        ``"a"``: A is symmetric, and nothing above its diagonal is used (BLAS: symv, symm). ``"h"``: A is Hermitian, and
        nothing above its diagonal and no imaginary part on it is used (hemv, hemm); over real dtypes it becomes
        ``"a"``. ``"d"``: nothing of D above its diagonal is computed or written, and nothing of C there is read (syrk,
        syr, herk, her). Empty: whole matrices.
    batch : tuple of int
        Leading dimensions of A, B, C and D: so many products of these sizes, with the same scalars. Empty: one product.
    conjugate : str
        Which of A and B are conjugated as they are read: ``"a"``, ``"b"`` or ``"ab"``. It becomes empty over real
        dtypes, where nothing is to be done.

    Raises
    ------
    ProblemError
        If a size is negative, the semiring is unknown, the dtype makes no sense in it, a scalar is NaN or no value of
        the dtype, the dtype is not the one in which products of `operand_dtype` are summed, a matrix with a triangle is
        not square, or `triangle` or `conjugate` is none of the values above.
    """

    m: int
    n: int
    k: int
    semiring: Semiring = field(default=SEMIRINGS["plus_times"])
    dtype: np.dtype[Any] = field(default=np.dtype(np.float64))
    alpha: Scalar = None
    beta: Scalar = None
    accumulate: bool = False
    layout: str = "CCC"
    operand_dtype: np.dtype[Any] | None = None
    triangle: str = ""
    batch: tuple[int, ...] = ()
    conjugate: str = ""

    def __post_init__(self) -> None:
        fields = vars(self)  # `object.__setattr__` of each takes as long as all checks
        for name in "mnk":
            fields[name] = _as_size(name, fields[name])
        fields["batch"] = _as_batch(self.batch)
        fields["semiring"] = as_semiring(self.semiring)
        fields["dtype"] = _as_dtype(self.dtype, self.semiring)
        fields["operand_dtype"] = self._as_operand_dtype(self.operand_dtype)
        if self.beta is not None and not self.accumulate:
            raise ProblemError("beta is given without a C", fix="give c, or leave beta out")
        for name in ("alpha", "beta"):
            fields[name] = self._as_scalar(name, fields[name])
        if self.accumulate and self.beta is not None and self.beta == self.semiring.zero(self.dtype):
            fields |= {"accumulate": False, "beta": None}  # zero (x) C is absent: C is not read
        if not isinstance(self.layout, str) or len(self.layout) != 3 or set(self.layout) - set("CFA"):
            raise ProblemError(
                "layout is not understood",
                expected="three letters of C, F and A, for A, B and the output",
                got=repr(self.layout),
            )
        self._check_triangle()
        _check_choice("conjugate", self.conjugate, CONJUGATES)
        if not is_complex(self.dtype):
            fields |= {"conjugate": "", "triangle": self.triangle.replace("h", "a")}

    def laid_out(self, layout: str, **others: Any) -> Problem:
        """Return the same product in the memory order `layout`, with `others` changed: nothing is checked."""
        changed = object.__new__(Problem)
        vars(changed).update(vars(self), layout=layout, **others)
        return changed

    def _check_triangle(self) -> None:
        _check_choice("triangle", self.triangle, TRIANGLES)
        of_a = "A", self.m, self.k
        sizes = {"a": of_a, "h": of_a, "d": ("D", self.m, self.n)}.get(self.triangle)
        if sizes and sizes[1] != sizes[2]:
            matrix, rows, columns = sizes
            raise ProblemError(
                f"triangle={self.triangle!r}: {matrix} is not square",
                expected=f"as many rows as columns in {matrix}",
                got=f"{rows}x{columns}",
                fix="leave triangle out",
            )

    def _as_operand_dtype(self, dtype: Any) -> np.dtype[Any] | None:
        if dtype is None:
            return None
        try:
            native = (named_dtype(dtype) if isinstance(dtype, str) else np.dtype(dtype)).newbyteorder("=")
        except TypeError:
            raise ProblemError("operand_dtype is not a dtype", expected=", ".join(MIXED), got=repr(dtype)) from None
        if native == self.dtype:
            return None
        if MIXED.get(dtype_name(native)) != dtype_name(self.dtype):
            what = f"products of {native.name} are not summed in {self.dtype.name}"
            expected = ", ".join(f"{narrow} in {wide}" for narrow, wide in MIXED.items()) + ", or one dtype for all"
        elif not self.semiring.is_ordinary or not self.semiring.is_named:
            what, expected = f"semiring {self.semiring.name} has no mixed products", "plus_times"
        else:
            return native
        got, fix = f"operands of {native.name}, dtype {self.dtype.name}", f"convert with astype({self.dtype.name!r})"
        raise ProblemError(what, expected=expected, got=got, fix=fix)

    def _as_scalar(self, name: str, value: Scalar) -> Scalar:
        if value is None:
            return None
        converted = as_value(value, self.dtype)
        if converted is not None and np.isnan(converted):
            raise ProblemError(f"{name} is NaN", expected=f"a value of {self.dtype.name}", got=repr(value))
        if converted is None or (np.asarray(value).dtype == bool) != (self.dtype == bool):
            is_number = isinstance(value, int | float | complex | np.number) and not isinstance(value, bool)
            is_real = isinstance(value, complex | np.complexfloating) and not is_complex(self.dtype)
            raise ProblemError(
                f"{name} is no value of the product's dtype",
                expected=f"a scalar that {self.dtype.name} can hold",
                got=reprlib.repr(value),
                fix="operands of complex128, as a.astype('complex128'), or a real number"
                if is_real
                else "change it, or take operands of a wider dtype"
                if is_number
                else "one number: scales of rows and of columns multiply the result"
                if getattr(value, "ndim", 0)
                else "a number of Python or of NumPy",
            )
        one = self.semiring.one(self.dtype)
        return None if one is not None and converted == one else converted

    @property
    def is_mixed(self) -> bool:
        """True if A and B have a narrower dtype than the sums, C and D."""
        return self.operand_dtype is not None

    @property
    def is_complex(self) -> bool:
        """True if the sums, C and D are complex numbers."""
        return is_complex(self.dtype)

    @property
    def is_exact(self) -> bool:
        """True if every correct implementation gives equal results, whatever the order of its operations."""
        return is_exact(self.dtype) or self.semiring.add.is_selective

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """The dtype of A and B."""
        return self.dtype if self.operand_dtype is None else self.operand_dtype

    @property
    def products(self) -> int:
        """The number of products: of a batch, all of them."""
        return math.prod(self.batch)

    @property
    def lines(self) -> tuple[int, int, int]:
        """Elements of a line of A, of B and of the output as they lie: of a row, or in order ``F`` of a column."""
        m, n, k, layout = self.m, self.n, self.k, self.layout
        return m if layout[0] == "F" else k, k if layout[1] == "F" else n, m if layout[2] == "F" else n

    def of_one(self) -> Problem:
        """Return the problem of one product of the batch."""
        return dataclasses.replace(self, batch=()) if self.batch else self

    @property
    def pairs(self) -> int:
        """One (x) followed by one (+): a k step of one element of the result that is computed."""
        return self.products * self._elements_of_d * self.k

    @property
    def operations(self) -> int:
        """Two per pair, eight of complex numbers. They are FLOP only for plus_times over floats and complex numbers."""
        return (8 if is_complex(self.dtype) else 2) * self.pairs

    @property
    def bytes_moved(self) -> int:
        """Least traffic, in bytes: each element that counts of A, B and C read once, and of D written once."""
        read, written = self._elements_of_a + self.n * self.k, self._elements_of_d
        each = read * self.input_dtype.itemsize + written * (2 if self.accumulate else 1) * self.dtype.itemsize
        return self.products * each

    @property
    def work(self) -> dict[str, Any]:
        """The facts of computing it once: ``operations``, ``bytes_moved`` and ``problem``."""
        return {"operations": self.operations, "bytes_moved": self.bytes_moved, "problem": self.to_json()}

    @property
    def _elements_of_a(self) -> int:
        return _triangular(self.m) if self.triangle in ("a", "h") else self.m * self.k

    @property
    def _elements_of_d(self) -> int:
        return _triangular(self.m) if self.triangle == "d" else self.m * self.n

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object from which `from_json` makes an equal Problem; the semiring must be a named one."""
        if not self.semiring.is_named:
            raise ProblemError(
                f"semiring {self.semiring.name!r} has no name in the table",
                expected="one of " + ", ".join(SEMIRINGS) + " where a problem is stored",
            )
        record = {**vars(self), "semiring": self.semiring.name, "dtype": self.dtype.name}
        for name in ("alpha", "beta"):
            record[name] = _to_json(record[name])
        record["operand_dtype"] = self.operand_dtype and self.operand_dtype.name
        record["batch"] = list(self.batch)
        for name in ("operand_dtype", "triangle", "batch", "conjugate"):
            if not record[name]:  # then left out: the keys of stored results are hashes of records
                del record[name]
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Problem:
        """Return the Problem that `to_json` described."""
        values: dict[str, Any] = {
            name: named_dtype(record[name]) for name in ("dtype", "operand_dtype") if record.get(name)
        }
        values |= {name: complex(*record[name]) for name in ("alpha", "beta") if isinstance(record.get(name), list)}
        return cls(**{**record, **values})

    def __str__(self) -> str:
        dtype = self.dtype.name if self.operand_dtype is None else f"{self.operand_dtype.name} to {self.dtype.name}"
        batch = f"{'x'.join(map(str, self.batch))} of " if self.batch else ""
        marks = TRIANGLES[self.triangle] + CONJUGATES[self.conjugate]
        return f"{self.semiring.name} {dtype} {batch}{self.m}x{self.n}x{self.k}{marks}"


def _to_json(scalar: Scalar) -> Any:
    """Return a scalar as JSON has it; of a complex number both parts."""
    value = None if scalar is None else scalar.item()
    return [value.real, value.imag] if isinstance(value, complex) else value


def _triangular(size: int) -> int:
    """Return the number of elements on and below the diagonal of a square matrix."""
    return size * (size + 1) // 2


def _check_choice(name: str, value: Any, known: dict[str, str]) -> None:
    if not isinstance(value, str) or value not in known:
        expected = "one of " + ", ".join(repr(key) + words.replace(",", ":", 1) for key, words in known.items())
        raise ProblemError(f"{name} is not understood", expected=expected, got=repr(value), fix=f"leave {name} out")


def _as_size(name: str, value: Any) -> int:
    size = as_count(value, least=0)
    if size is not None:
        return size
    raise ProblemError(f"size {name} is not a size", expected="an integer, 0 or more", got=repr(value))


def _as_batch(sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, (tuple, list)):
        raise ProblemError(
            "batch is no tuple of sizes", expected="leading dimensions, as (3,) or (2, 3)", got=repr(sizes)
        )
    return tuple(_as_size("of the batch", size) for size in sizes)


def _as_dtype(dtype: Any, semiring: Semiring) -> np.dtype[Any]:
    try:
        native: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        raise ProblemError("dtype is not a NumPy dtype", expected=_dtype_names(), got=repr(dtype)) from None
    if native not in DTYPES:
        raise ProblemError(
            f"dtype {native.name} is not supported",
            expected=_dtype_names(),
            got=native.name,
            fix=_fix(native, semiring, "convert with astype"),
        )
    reason = semiring.unsupported(native)
    if reason:
        legal = [d.name for d in DTYPES if semiring.unsupported(d) is None]
        raise ProblemError(
            f"semiring {semiring.name} does not take {native.name}: {reason}",
            expected=", ".join(legal),
            got=native.name,
            fix=_fix(native, semiring, f"convert with astype({legal[0]!r})") if legal else "",
        )
    return DTYPES[DTYPES.index(native)]  # NumPy's own object, by which shortcuts recognise a dtype


def _fix(dtype: np.dtype[Any], semiring: Semiring, otherwise: str) -> str:
    """Return the remedy for a product that cannot be summed in `dtype`."""
    if is_complex(dtype) and semiring.is_ordinary:
        return "convert with astype('complex128')"
    if is_complex(dtype):
        return "a real number of each: a.real, a.imag or abs(a), in the same way for b"
    if is_bool(dtype) and semiring.is_tabled:
        return f"semiring='lor_land', whose sums are or and whose products are and; or {otherwise}"
    if not semiring.is_ordinary or dtype_name(dtype) not in MIXED:
        return otherwise
    return f"dtype={MIXED[dtype.name]!r} in the call, the dtype of the sums and of the result; or {otherwise}"


def _dtype_names() -> str:
    return ", ".join(d.name for d in DTYPES)
