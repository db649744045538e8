"""QR factorisation by blocks of Householder reflectors, whose work outside the panels is products.

    for each panel of nb columns:
        factor the panel                      nb reflectors: R, V and T            no products, but by choice
        C := (I - V T^T V^T) C                the columns to its right             three products

Of 2 n^2 (m - n / 3) operations all but about n nb (m - n / 2) are products: what bounds a whole QR with fast products
is its panels. Q is kept as its reflectors, and applied or formed by products when asked for.

Source: Nath, Tomov and Dongarra, "Accelerating GPU kernels for dense linear algebra" (VECPAR 2010), section 5, table 1.
The algorithm: Golub and van Loan, "Matrix Computations" (2013), section 5.2.3.
"""

from __future__ import annotations

from typing import Any

from harness.api.arrays import Arrays, kind_of
from harness.api.libraries import library_of
from harness.api.libraries.views import Giver, any_library
from harness.errors import ProblemError
from harness.linalg.arguments import check_count, check_finite, check_option, check_rows, read_matrices
from harness.linalg.products import Products
from harness.linalg.reflectors import PANELS, Reflectors, factor_panel, reflectors_of
from harness.linalg.stages import Stages

# Columns of a panel, on the host (as LAPACK's xGEQRF) and on a GPU. There 32, 64, 128, 256 columns took 309, 154, 85
# and 45 ms (float32, n = 4096, gpu-cublas, H200, 2026-11-22): what is outside the products is bound by launches.
BLOCK, BLOCK_ON_DEVICE = 32, 256


class QR:
    """The factors of A = Q R, (m, n), with k = min(m, n) reflectors.

    Attributes
    ----------
    r : (k, n) array
        Upper trapezoid; zeros below.
    reflectors : (m, k) array
        Column j is v of reflector j: zeros above row j, 1 there; all zeros if the reflector does nothing.
    taus : (k,) array
    seconds : dict
        If asked for: the time of the factorisation by stages, ``"panel"``, ``"products"`` and ``"rest"``.
    operations : int
        Floating-point operations of the products by the backend.
    """

    def __init__(
        self,
        r: Any,
        reflectors: Any,
        taus: Any,
        blocks: list[Reflectors],
        products: Products,
        seconds: dict[str, float],
        operations: int,
    ) -> None:
        self.r, self.reflectors, self.taus = r, reflectors, taus
        self.seconds, self.operations = seconds, operations
        self._blocks, self._products = blocks, products
        self._reflectors = reflectors

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what is planned and compiled, which stays in its process."""
        return {**vars(self), "_products": self._products.chosen()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = kind_of("qr", {"reflectors": state["_reflectors"]})
        vars(self).update(state, _products=Products("qr", arrays, *state["_products"]))

    def given(self, give: Giver) -> QR:
        """Return these factors with arrays of another library, which the methods return too."""
        self.r, self.reflectors, self.taus = (give(x) for x in (self.r, self.reflectors, self.taus))
        return self

    def q(self) -> Any:
        """Return the (m, k) array Q of orthonormal columns."""
        library = library_of(self.r)
        if library is None:
            return self._form()
        give = Giver(library, library.place(self.r), library.namespace(self.r))
        with give.in_force():
            return give(self._form())

    def _form(self) -> Any:
        m, k = self._reflectors.shape
        with self._products as products:
            q = products.arrays.module.eye(m, k, dtype=products.dtype)
            for block in reversed(self._blocks):  # columns to the left are still those of the identity
                block.apply(products, q[:, block.row :], transposed=False)
        return q

    @any_library("b")
    def apply_q(self, b: Any) -> Any:
        """Return ``Q B`` with the whole Q (m, m), for b (m, r) or (m,), of its dtype, new."""
        return self._apply(b, transposed=False)

    @any_library("b")
    def apply_q_transposed(self, b: Any) -> Any:
        """Return ``Q^T B`` with the whole Q (m, m), for b (m, r) or (m,), of its dtype, new.

        Over complex numbers that is ``Q^H B``.
        Its first k rows are those that ``R x = Q^T b`` wants.
        """
        return self._apply(b, transposed=True)

    def _apply(self, b: Any, *, transposed: bool) -> Any:
        arrays, dtype, inputs = read_matrices(
            "qr", {"reflectors": self._reflectors, "b": b}, vectors="b", takes_complex=True
        )
        check_rows("qr", inputs["b"], self._reflectors.shape[0])
        if dtype != self._products.dtype or inputs["b"].ndim > 2:
            raise ProblemError(
                "qr: b does not fit Q", expected=f"a matrix of {self._products.dtype}", got=f"{dtype} {b.shape}"
            )
        b = inputs["b"]
        c = arrays.empty(b.shape if b.ndim > 1 else (b.size, 1), dtype)
        c[...] = b.reshape(c.shape)
        with self._products as products:
            for block in self._blocks if transposed else reversed(self._blocks):
                block.apply(products, c, transposed=transposed)
        return c.reshape(b.shape)


@any_library("a")
def qr(
    a: Any,
    *,
    block: int | None = None,
    panel: str = "library",
    backend: str = "auto",
    threads: int | None = None,
    timed: bool = False,
) -> QR:
    """Factor A = Q R by Householder reflectors.

    Parameters
    ----------
    a : (m, n) array of float32 or float64, on the host of complex64 or complex128 too
        Any strides; it is copied.
    block : int, optional
        Columns of a panel. None: 32 on the host, 256 on a GPU.
    panel : str
        ``"library"``: panels by the QR of NumPy (LAPACK) or of CuPy (cuSOLVER). ``"host"``: panels of a GPU too by
        NumPy, on the host. ``"recursive"``: panels by products of `backend` too, but for eight columns at a time.
    backend, threads
        Of the products, as in `harness.gemm`.
    timed : bool
        Whether to return the time by stages. On a GPU every product is then waited for.

    Returns
    -------
    QR
        R, and Q as reflectors, where A lies. Elements of R's diagonal have any sign.

    Raises
    ------
    ProblemError
        If `a` is no matrix of finite numbers of these dtypes, or an option is unknown.
    BackendUnavailable
        As in `harness.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> factors = qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> np.abs(factors.r).round(3)
    array([[5. , 2.2],
           [0. , 0.4]])
    """
    arrays, dtype, inputs = read_matrices("qr", {"a": a}, takes_complex=True)
    _check_matrix(inputs["a"])
    check_finite("qr", inputs, arrays)
    check_option("qr", "panel", panel, PANELS)
    width = check_count("qr", "block", _default_block(arrays) if block is None else block)
    m, n = inputs["a"].shape
    k = min(m, n)
    stages = Stages(arrays, is_timed=timed)
    with Products("qr", arrays, dtype, backend, threads, stages=stages) as products:
        r = arrays.empty((m, n), dtype)
        r[...] = inputs["a"]
        v, taus = arrays.module.zeros((m, k), dtype), arrays.module.zeros(k, dtype)
        blocks = []
        for begin in range(0, k, width):
            columns = slice(begin, min(begin + width, k))
            window = v[begin:, columns]
            with stages.during("panel"):
                factor_panel(products, r[begin:, columns], window, taus[columns], panel)
                blocks.append(reflectors_of(products, begin, window, taus[columns]))
            blocks[-1].apply(products, r[:, columns.stop :], transposed=True)
        stages.enter_time()
    later = Products("qr", arrays, dtype, backend, threads)  # what applies Q is no part of the factorisation's time
    return QR(r[:k], v, taus, blocks, later, stages.seconds, products.operations)


def _check_matrix(a: Any) -> None:
    if a.ndim != 2:
        raise ProblemError("qr: a is not one matrix", expected="shape (m, n)", got=f"shape {a.shape}")


def _default_block(arrays: Arrays) -> int:
    return BLOCK_ON_DEVICE if arrays.on_device else BLOCK
