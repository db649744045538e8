"""The sums around the seven products, as data from which the kernels of the CPU and of GPUs are made.

Winograd's form has 15 sums, the classic one 18. A is cut into quarters x11, x12, x21, x22, and B likewise.

    winograd  left operands   A11  A12  S4 = A12 - S2   A22              S1 = A21 + A22   S2 = S1 - A11   S3 = A11 - A21
              right operands  B11  B21  B22             T4 = T2 - B21    T1 = B12 - B11   T2 = B22 - T1   T3 = B22 - B12
              U2 = P1 + P6    U3 = U2 + P7
              C11 = P1 + P2   C12 = U2 + P5 + P3   C21 = U3 - P4   C22 = U3 + P5

    classic   left operands   A11 + A22  A21 + A22  A11        A22        A11 + A12  A21 - A11  A12 - A22
              right operands  B11 + B22  B11        B12 - B22  B21 - B11  B22        B11 + B12  B21 + B22
              C11 = P1 + P4 - P5 + P7   C12 = P3 + P5   C21 = P2 + P4   C22 = P1 - P2 + P3 + P6

Source: classic: Strassen, "Gaussian Elimination is not Optimal" (1969); Winograd's form: Huss-Lederman et al.,
"Implementation of Strassen's Algorithm for Matrix Multiplication" (1996); errors: Higham, "Accuracy and Stability of
Numerical Algorithms" (2002), theorems 23.2 and 23.3.
"""

from __future__ import annotations

from typing import NamedTuple

PRODUCTS = 7
QUARTERS = ("x11", "x12", "x21", "x22")
RESULTS = ("c11", "c12", "c21", "c22")

# Semirings whose (+) has an inverse and whose (x) distributes over it.
RINGS = ("plus_times", "lxor_land")


class Sum(NamedTuple):
    """One sum or difference: ``name := x + y`` or ``name := x - y``."""

    name: str
    sign: str
    x: str
    y: str


class SevenOperands(NamedTuple):
    """The seven left or right operands.

    Attributes
    ----------
    sums : tuple of Sum
        Of quarters and of sums before.
    names : tuple of str
        Of each product the quarter or the sum that is its operand.
    """

    sums: tuple[Sum, ...]
    names: tuple[str, ...]

    @property
    def quarters(self) -> dict[int, str]:
        """By product the operand that is a quarter as it is, which needs no copy."""
        return {product: name for product, name in enumerate(self.names) if name in QUARTERS}


class StrassenForm(NamedTuple):
    """One way to compute a product of quarters by seven products.

    Attributes
    ----------
    name : str
    left, right : SevenOperands
    results : tuple of Sum
        Of products p1 to p7; they end in c11, c12, c21 and c22.
    error_growth, error_offset : int
        ``f = growth^levels (k0 + offset) - offset 2^levels`` is the factor of the error bound.
    largest_growth : int
        Of intermediate sums over a term of the product, by level: quarters in a left operand, times those in a right
        one, over half of k, times products in a result.
    """

    name: str
    left: SevenOperands
    right: SevenOperands
    results: tuple[Sum, ...]
    error_growth: int
    error_offset: int
    largest_growth: int


def _sums(text: str) -> tuple[Sum, ...]:
    """Return the sums of a text like ``"s1 = x21 + x22; s2 = s1 - x11"``."""
    fields = (line.split() for line in text.split(";"))
    return tuple(Sum(name, sign, x, y) for name, _, x, sign, y in fields)


def _operands(text: str, names: str) -> SevenOperands:
    return SevenOperands(_sums(text), tuple(names.split()))


WINOGRAD = StrassenForm(
    "winograd",
    _operands("s1 = x21 + x22; s2 = s1 - x11; s3 = x11 - x21; s4 = x12 - s2", "x11 x12 s4 x22 s1 s2 s3"),
    _operands("t1 = x12 - x11; t2 = x22 - t1; t3 = x22 - x12; t4 = t2 - x21", "x11 x21 x22 t4 t1 t2 t3"),
    _sums("u2 = p1 + p6; u3 = u2 + p7; u4 = u2 + p5; c11 = p1 + p2; c12 = u4 + p3; c21 = u3 - p4; c22 = u3 + p5"),
    error_growth=18,
    error_offset=6,
    largest_growth=32,
)

CLASSIC = StrassenForm(
    "classic",
    _operands(
        "s1 = x11 + x22; s2 = x21 + x22; s3 = x11 + x12; s4 = x21 - x11; s5 = x12 - x22", "s1 s2 x11 x22 s3 s4 s5"
    ),
    _operands(
        "t1 = x11 + x22; t2 = x12 - x22; t3 = x21 - x11; t4 = x11 + x12; t5 = x21 + x22", "t1 x11 t2 t3 x22 t4 t5"
    ),
    _sums(
        "u1 = p1 + p4; u2 = u1 - p5; c11 = u2 + p7; c12 = p3 + p5; c21 = p2 + p4; u3 = p1 - p2; u4 = u3 + p3; "
        "c22 = u4 + p6"
    ),
    error_growth=12,
    error_offset=5,
    largest_growth=8,
)

FORMS = {form.name: form for form in (WINOGRAD, CLASSIC)}
