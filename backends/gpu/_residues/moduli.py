"""The constants of products by residues, from Python's integers: the bits that moduli hold, and weights.

With P the product of the first N moduli, an integer in -P/2..P/2 is ``sum_t c_t w_t mod P`` from its residues c_t, by
the Chinese remainder theorem; ``w_t = (P / p_t) ((P / p_t)^-1 mod p_t)``.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._tensor.residue_product import MODULI
from harness.tuning.gpu.residues import ResidueNumbers

_BYTE_BITS, _MANTISSA_BITS = 8, 53
# Room for rounding to integers: the norm of a scaled vector grows by sqrt(k) / 2 units of 2^46 at least.
_ROUNDING_BITS = 1e-6


class Table(NamedTuple):
    """The constants of one number of moduli.

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


@functools.cache
def table(count: int) -> Table:
    """Return the constants of the first `count` moduli."""
    moduli = MODULI[:count]
    product = math.prod(moduli)
    grain = product.bit_length() + _BYTE_BITS + math.ceil(math.log2(count)) - _MANTISSA_BITS
    weights = [product // p * pow(product // p, -1, p) for p in moduli]
    upper = [w >> max(grain, 0) << max(grain, 0) for w in weights]
    half_bits = (math.log2(product) - 1) / 2 - _ROUNDING_BITS
    lower = tuple(float(w - u) for w, u in zip(weights, upper, strict=True))
    return Table(half_bits, tuple(map(float, upper)), lower, product)


def look_defines(numbers: ResidueNumbers, least: int, most: int, gate: str) -> Defines:
    """Return the macros of look.cuh.

    Parameters
    ----------
    numbers : ResidueNumbers
        Of the dtype.
    least, most : int
        Numbers of moduli that the gate may choose.
    gate : str
        One of ``harness.tuning.gpu.residues.GATES``.
    """
    counts = range(least, most + 1)
    return as_defines(
        {
            "LEAST": least,
            "MOST": most,
            "UNIT_BITS": numbers.unit_bits,
            "HALF_BITS": _listed(table(count).half_bits for count in counts),
            "LIMITS": _listed(numbers.limits[count] for count in counts),
            "SHARES": _listed(numbers.shares[count] for count in counts),
            "CHECKS": gate != "off",
            "PROVES": gate == "proven",
            "CERTIFIES": gate == "certified",
        }
    )


def crt_defines(least: int, most: int) -> Defines:
    """Return the macros of crt.cu: the tables of each number of moduli."""
    tables = [table(count) for count in range(least, most + 1)]
    first = [float(x.product) for x in tables]
    return as_defines(
        {
            "UPPER": ", ".join(f"{{{_listed(x.upper)}}}" for x in tables),
            "LOWER": ", ".join(f"{{{_listed(x.lower)}}}" for x in tables),
            "INVERSES": _listed(1 / x.product for x in tables),
            "FIRST": _listed(first),
            "SECOND": _listed(float(x.product - int(whole)) for x, whole in zip(tables, first, strict=True)),
        }
    )


def _listed(values: object) -> str:
    return ", ".join(float(x).hex() for x in values)  # type: ignore[attr-defined] # exactly, as C++17 reads it
