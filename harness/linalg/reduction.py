"""Reduction to upper Hessenberg form, most of whose time are products with a vector, one for each column.

    for each panel of nb columns, and each column c in it:
        bring column c up to date                                    by NumPy, or one kernel, with at most nb columns
        the reflector that zeroes the column below row c + 1         likewise
        y := A v, with all columns to the right of c as they were    a window of A times a vector, by the backend
    bring the rest of A up to date from both sides                   products of nb columns, by the backend

The window begins at another address for each panel, mostly an odd one, and is read once from memory. These products
are a fifth of the operations, but bound by bandwidth. On a GPU a column is two launches, the kernel of
`harness.linalg.column_kernel` and the product, and nothing travels to the host.

Sources: Nath, Tomov and Dongarra, "Accelerating GPU kernels for dense linear algebra" (VECPAR 2010), figure 11.
The algorithm is LAPACK's xGEHRD with xLAHR2: Quintana-Orti and van de Geijn, "Improving the performance of reduction to
Hessenberg form" (2006).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.api.libraries.views import any_library
from harness.linalg.arguments import check_count, check_finite, check_square, read_matrices
from harness.linalg.column_kernel import PanelColumns
from harness.linalg.products import Products
from harness.linalg.reflectors import Reflectors, reflector
from harness.linalg.stages import Stages

# Columns of a panel, as LAPACK's xGEHRD.
BLOCK = 32


class Hessenberg(NamedTuple):
    """``A = Q H Q^T``.

    Attributes
    ----------
    h : (n, n) array
        Zeros below the first subdiagonal.
    q : (n, n) array
        Orthogonal.
    seconds : dict
        If asked for: the time by stages, ``"vector products"``, ``"products"``, ``"panel"`` and ``"rest"``.
    """

    h: Any
    q: Any
    seconds: dict[str, float]


@any_library("a")
def hessenberg(
    a: Any,
    *,
    block: int = BLOCK,
    backend: str = "auto",
    vector_backend: str | None = None,
    threads: int | None = None,
    timed: bool = False,
) -> Hessenberg:
    """Reduce A to upper Hessenberg form: ``A = Q H Q^T``.

    Parameters
    ----------
    a : (n, n) array of float32 or float64
        Any strides; it is copied.
    block : int
        Columns of a panel.
    backend, threads
        Of the products, as in `harness.gemm`.
    vector_backend : str, optional
        Of the products with a vector, one for each column. None: `backend`.
    timed : bool
        Whether to return the time by stages. On a GPU every product is then waited for.

    Returns
    -------
    Hessenberg
        ``(h, q, seconds)``, where A lies.

    Raises
    ------
    ProblemError
        If `a` is no square matrix of finite float32 or float64, or `block` no count.
    BackendUnavailable
        As in `harness.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> h, q, _ = hessenberg(np.arange(9.0).reshape(3, 3))
    >>> bool(np.allclose(q @ h @ q.T, np.arange(9.0).reshape(3, 3)) and h[2, 0] == 0)
    True
    """
    arrays, dtype, inputs = read_matrices("hessenberg", {"a": a})
    check_square("hessenberg", inputs["a"])
    check_finite("hessenberg", inputs, arrays)
    width, n = check_count("hessenberg", "block", block), inputs["a"].shape[0]
    stages = Stages(arrays, is_timed=timed)
    of_vectors = vector_backend or backend
    vectors = Products("hessenberg", arrays, dtype, of_vectors, threads, stages=stages, stage="vector products")
    with Products("hessenberg", arrays, dtype, backend, threads, stages=stages) as products, vectors:
        h = arrays.empty((n, n), dtype)
        h[...] = inputs["a"]
        blocks = []
        for begin in range(0, max(n - 2, 0), width):
            columns = slice(begin, min(begin + width, n - 2))
            with stages.during("panel"):
                reflectors, y = _reduce_panel(vectors, h, columns)
            _update(products, h, columns, reflectors, y)
            blocks.append(reflectors)
        q = arrays.module.eye(n, dtype=dtype)
        for reflectors in reversed(blocks):  # columns to the left are still those of the identity
            reflectors.apply(products, q[:, reflectors.row :], transposed=False)
        stages.enter_time()
    return Hessenberg(h, q, stages.seconds)


def _reduce_panel(vectors: Products, h: Any, columns: slice) -> tuple[Reflectors, Any]:
    """Reduce `columns` of H, from row ``columns.start + 1`` on; columns to their right keep their old values.

    Returns
    -------
    reflectors : Reflectors
    y : (rows, w) array
        ``A V T``, of the rows that the reflectors act on.
    """
    begin = columns.start + 1
    if vectors.arrays.on_device:
        return _reduce_panel_on_device(vectors, h, columns)
    panel = h[begin:, columns].copy()
    v, y = np.zeros_like(panel), np.zeros_like(panel)
    t = np.zeros((panel.shape[1],) * 2, panel.dtype)
    whole, product = np.zeros((2, panel.shape[0], 1), panel.dtype)  # v of the column with zeros before it, and A v
    multiply = vectors.repeated(h[begin:, begin:], whole, product)
    for i in range(panel.shape[1]):
        column, before, up_to = panel[:, i], slice(0, i), t[:i, :i]
        if i:
            column -= y[:, before] @ v[i - 1, before]
            column -= v[:, before] @ (up_to.T @ (v[:, before].T @ column))
        w, tau, beta = reflector(np, column[i:])
        column[i:] = 0
        column[i] = beta
        v[i:, i], t[i, i] = w, tau
        whole[:i], whole[i:, 0] = 0, w
        multiply()
        y[:, i] = product[:, 0]
        if i:
            overlap = v[i:, before].T @ w
            y[:, i] -= y[:, before] @ overlap
            t[before, i] = -tau * (up_to @ overlap)
        y[:, i] *= tau
    h[begin:, columns] = panel
    return Reflectors(begin, v, v.T, t), y


def _reduce_panel_on_device(vectors: Products, h: Any, columns: slice) -> tuple[Reflectors, Any]:
    """Reduce the columns by two launches each, and no wait.

    All columns multiply one window, since v is zero where a column needs less of it. So its product is prepared once.
    """
    begin, width = columns.start + 1, columns.stop - columns.start
    ascontiguousarray = vectors.arrays.module.ascontiguousarray
    panel, window = PanelColumns(vectors.arrays, h[begin:, columns]), h[begin:, begin:]
    for i in range(width):
        panel.reduce(i)
        vectors.multiply(window, panel.vt[i, :, None], panel.yt[i, :, None])
    panel.reduce(width)
    v, y = (ascontiguousarray(x.T) for x in (panel.vt, panel.yt))
    return Reflectors(begin, v, panel.vt, panel.t), y


def _update(products: Products, h: Any, columns: slice, reflectors: Reflectors, y: Any) -> None:
    """Apply the reflectors of a panel to all of H that it left: ``A := (I - V T^T V^T) (A - Y V^T)``."""
    begin, v, v_transposed, t = reflectors
    above = h[:begin, begin:]
    above_y = products.multiply(products.multiply(above, v), t)
    products.subtract(above_y, v_transposed, above)
    width = columns.stop - columns.start
    right = h[begin:, columns.stop :]
    products.subtract(y, v_transposed[:, width - 1 :], right)
    reflectors.apply(products, h[:, columns.stop :], transposed=True)
