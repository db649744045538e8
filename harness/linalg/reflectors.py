"""Householder reflectors: one vector, a panel of columns, and the product of a panel's reflectors in compact form.

A reflector ``H = I - tau v v^T`` with v[0] = 1 takes a column to a multiple of the first unit vector. The reflectors of
a panel together are ``I - V T V^T`` with an upper triangle T (compact WY), whose inverse is read off V::

    T^-1 = diag(1 / tau) + the part of V^T V above its diagonal

so that a panel is applied to a matrix C by three products: ``C - V (T^T (V^T C))``. A reflector that does nothing has
tau = 0; its column of V is zero and its row of ``T^-1`` that of the identity. Over complex numbers ^T is ^H, the
conjugate transpose, throughout, and tau is complex, as LAPACK has it.

Panels of QR come from three places:

* ``"library"``: the QR of the array library (LAPACK by NumPy, cuSOLVER by CuPy).
* ``"host"``: that of NumPy on the host; the panel of a GPU travels there and back.
* ``"recursive"``: the left half, products that update the right half, the right half; a few columns one by one.

Sources: Schreiber and van Loan, "A storage-efficient WY representation for products of Householder transformations"
(1989). The inverse of T: Puglisi (1992); Joffrain et al., "Accumulating Householder transformations, revisited" (2006).
Halves: Elmroth and Gustavson, "Applying recursion to serial and parallel QR factorization" (2000).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.dtypes import is_complex
from harness.linalg.arguments import to_host
from harness.linalg.inverses import diagonal_blocks, inverted
from harness.linalg.products import Products

PANELS = ("library", "host", "recursive")

# Columns of a recursive panel that are reflected one by one, by operations of the array library.
FEWEST_COLUMNS = 8


class Reflectors(NamedTuple):
    """The reflectors of a panel: ``I - V T V^T``, which acts on the rows from `row` on.

    Attributes
    ----------
    row : int
    v : (rows, w) array
    v_transposed : (w, rows) array
        The same, for backends that take rows only: on a device it has contiguous rows.
    t : (w, w) array
        Upper triangle.
    """

    row: int
    v: Any
    v_transposed: Any
    t: Any

    def apply(self, products: Products, c: Any, *, transposed: bool) -> None:
        """Compute ``C := (I - V T V^T) C`` in place, or with T transposed, on all rows of c from `row` on."""
        rows = c[self.row :]
        inner = products.multiply(self.v_transposed, rows)
        factor = adjoint(self.t) if transposed else self.t
        products.add(self.v, products.multiply(-factor, inner), rows)


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of a vector or a matrix: of real numbers a view."""
    return x.conj().T if is_complex(x.dtype) else x.T


def reflector(module: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return v, tau and beta with ``(I - tau v v^T) x = beta e_1`` for a vector x of at least one element.

    By operations without a decision on the host. If x[1:] is zero, tau and v are, and beta is x[0]. Over complex
    numbers beta is real, and it is the conjugate of tau that takes x there.
    """
    one = x.dtype.type(1)
    largest = module.abs(x).max()
    scale = module.where(largest > 0, largest, one)
    scaled = x / scale  # squares neither overflow nor vanish
    alpha, below = scaled[0], (adjoint(scaled[1:]) * scaled[1:]).sum().real
    is_none = below == 0
    size = alpha * alpha
    if is_complex(x.dtype):
        is_none, size = is_none & (alpha.imag == 0), alpha.real * alpha.real + alpha.imag * alpha.imag
    beta = module.where(is_none, alpha, -module.copysign(module.sqrt(size + below), alpha.real))
    divisor = module.where(is_none, one, alpha - beta)
    v = module.where(is_none, x.dtype.type(0), scaled / divisor)
    v[0] = module.where(is_none, x.dtype.type(0), one)
    tau = module.where(is_none, x.dtype.type(0), -divisor / module.where(is_none, one, beta))
    return v, tau, beta * scale


def factor_panel(products: Products, panel: Any, v: Any, tau: Any, kind: str) -> None:
    """Compute the QR of a panel (rows >= w): R replaces it, zeros below; its reflectors go to v and tau.

    Parameters
    ----------
    products : Products
    panel : (rows, w) array
    v : (rows, w) array
        Zero at first.
    tau : (w,) array
    kind : str
        One of `PANELS`.
    """
    arrays = products.arrays
    if kind == "recursive":
        _factor_halves(products, panel, v, tau)
    elif kind == "host" and arrays.on_device:
        found = _by_library(np, to_host(arrays, panel))
        for target, source in zip((panel, v, tau), found, strict=True):
            target[...] = arrays.module.asarray(source)
    else:
        panel[...], v[...], tau[...] = _by_library(arrays.module, panel)


def _by_library(module: Any, panel: Any) -> tuple[Any, Any, Any]:
    """Return R in the shape of the panel, V and tau, by the QR of `module`."""
    raw, tau = module.linalg.qr(panel, mode="raw")  # of float64 for float32 too
    packed, tau = raw.T.astype(panel.dtype, copy=False), tau.astype(panel.dtype, copy=False)
    is_below = module.tri(*panel.shape, -1, dtype=bool)
    v = module.where(is_below, packed, module.eye(*panel.shape, dtype=panel.dtype))
    return module.where(is_below, panel.dtype.type(0), packed), v * (tau != 0), tau


def _factor_halves(products: Products, panel: Any, v: Any, tau: Any) -> None:
    width = panel.shape[1]
    if width <= FEWEST_COLUMNS:
        _factor_columns(products.arrays.module, panel, v, tau)
        return
    half = width // 2
    _factor_halves(products, panel[:, :half], v[:, :half], tau[:half])
    reflectors_of(products, 0, v[:, :half], tau[:half]).apply(products, panel[:, half:], transposed=True)
    _factor_halves(products, panel[half:, half:], v[half:, half:], tau[half:])


def _factor_columns(module: Any, panel: Any, v: Any, tau: Any) -> None:
    for j in range(panel.shape[1]):
        column, right = panel[j:, j], panel[j:, j + 1 :]
        v[j:, j], tau[j], beta = reflector(module, column)
        column[...] = 0
        column[0] = beta
        if right.shape[1]:
            right -= adjoint(tau[j]) * v[j:, j, None] * (adjoint(v[j:, j]) @ right)


def reflectors_of(products: Products, row: int, v: Any, tau: Any) -> Reflectors:
    """Return the reflectors v (rows, w) and tau (w,), which act on the rows from `row` on."""
    arrays = products.arrays
    v_transposed = arrays.module.ascontiguousarray(v.T) if arrays.on_device else adjoint(v)
    return Reflectors(row, v, v_transposed, triangle(products, v_transposed, v, tau))


def triangle(products: Products, v_transposed: Any, v: Any, tau: Any) -> Any:
    """Return T (w, w) of the reflectors v (rows, w) and tau (w,)."""
    module = products.arrays.module
    inverse = products.multiply(v_transposed, v)
    one = tau.dtype.type(1)
    diagonal_blocks(inverse, 1, module)[:, 0, 0] = one / adjoint(module.where(tau == 0, one, tau))
    return adjoint(inverted(inverse, module))  # of the lower half of T^-T
