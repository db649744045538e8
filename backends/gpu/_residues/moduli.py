"""The constants of products by residues, from Python's integers: the bits that moduli hold, and weights.

With P the product of the first N moduli, an integer in -P/2..P/2 is ``sum_t c_t w_t mod P`` from its residues c_t, by
the Chinese remainder theorem; ``w_t = (P / p_t) ((P / p_t)^-1 mod p_t)``.

Modulo a p for which s^2 = -1 has a root, a complex number x + i y is a pair, x + s y and x - s y, and a product of
pairs is that of each: two products in place of four. Their sum is 2 x, and their difference 2 s y.

Source of the second: Caday, arXiv 2609.05419.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._tensor.residue_product import MODULI, SPLIT_MODULI
from harness.tuning.gpu.residues import ResidueNumbers

_BYTE_BITS, _MANTISSA_BITS = 8, 53
# By how many parts numbers have: which `table` they take.
PARTS = {1: ("",), 2: ("re", "im")}
SYSTEMS = {1: MODULI, 2: SPLIT_MODULI}  # their moduli
# Room for rounding to integers: the norm of a scaled vector grows by sqrt(k) / 2 units of 2^46 at least.
_ROUNDING_BITS = 1e-6


class Table(NamedTuple):
    """The constants of one number of moduli, of real numbers or of one part of complex ones.

    Attributes
    ----------
    half_bits : float
        Norms of scaled vectors are below ``2**half_bits``; so by Cauchy and Schwarz a product is below P / 2.
    upper, lower : tuple of float
        Of each weight. Upper parts are multiples of one power of two, so that sums of bytes times them are exact.
    product : int
        P.
    """

    half_bits: float
    upper: tuple[float, ...]
    lower: tuple[float, ...]
    product: int


def root_of(p: int) -> int:
    """Return the least s with ``s^2 = -1 mod p``, for one of `SPLIT_MODULI`."""
    return next(s for s in range(p) if (s * s + 1) % p == 0)


@functools.cache
def table(count: int, part: str = "") -> Table:
    """Return the constants of the first `count` moduli; of complex numbers for `part` ``"re"`` or ``"im"``."""
    moduli = (SPLIT_MODULI if part else MODULI)[:count]
    product, bits = math.prod(moduli), _BYTE_BITS + bool(part)  # sums and differences of bytes have a bit more
    grain = product.bit_length() + bits + math.ceil(math.log2(count)) - _MANTISSA_BITS
    factors = {"": lambda p: 1, "re": lambda p: 2, "im": lambda p: 2 * root_of(p)}
    weights = [product // p * pow(product // p * factors[part](p), -1, p) for p in moduli]
    upper = [w >> max(grain, 0) << max(grain, 0) for w in weights]
    half_bits = (math.log2(product) - 1) / 2 - _ROUNDING_BITS
    lower = tuple(float(w - u) for w, u in zip(weights, upper, strict=True))
    return Table(half_bits, tuple(map(float, upper)), lower, product)


def residue_macros(parts: int) -> dict[str, object]:
    """Return the moduli, and of complex numbers their roots, as macros of residues.cu."""
    lists = {"MODULI": SYSTEMS[parts], **({"ROOTS": map(root_of, SPLIT_MODULI)} if parts > 1 else {})}
    return {name: ", ".join(map(str, numbers)) for name, numbers in lists.items()}


def look_defines(numbers: ResidueNumbers, least: int, most: int, gate: str, *, parts: int = 1) -> Defines:
    """Return the macros of look.cuh.

    Parameters
    ----------
    numbers : ResidueNumbers
        Of the dtype.
    least, most : int
        Numbers of moduli that the gate may choose.
    gate : str
        One of ``harness.tuning.gpu.residues.GATES``.
    parts : int
        Of a number: 2 of complex ones.
    """
    counts, part = range(least, most + 1), PARTS[parts][0]
    return as_defines(
        {
            "LEAST": least,
            "MOST": most,
            "UNIT_BITS": numbers.unit_bits,
            "HALF_BITS": _listed(table(count, part).half_bits for count in counts),
            "LIMITS": _listed(numbers.limits[count] for count in counts),
            "SHARES": _listed(numbers.shares[count] for count in counts),
            "CHECKS": gate != "off",
            "PROVES": gate == "proven",
            "CERTIFIES": gate == "certified",
        }
    )


def crt_defines(least: int, most: int, *, parts: int = 1) -> Defines:
    """Return the macros of crt.cu: the tables of each number of moduli."""
    macros = {}
    for part, suffix in zip(PARTS[parts], ("", "_IM"), strict=False):
        tables = [table(count, part) for count in range(least, most + 1)]
        macros[f"UPPER{suffix}"] = ", ".join(f"{{{_listed(x.upper)}}}" for x in tables)
        macros[f"LOWER{suffix}"] = ", ".join(f"{{{_listed(x.lower)}}}" for x in tables)
    first = [float(x.product) for x in tables]
    return as_defines(
        macros
        | {
            "INVERSES": _listed(1 / x.product for x in tables),
            "FIRST": _listed(first),
            "SECOND": _listed(float(x.product - int(whole)) for x, whole in zip(tables, first, strict=True)),
        }
    )


def _listed(values: object) -> str:
    return ", ".join(float(x).hex() for x in values)  # type: ignore[attr-defined] # exactly, as C++17 reads it
