"""Kernels in Triton; imported only if Triton is installed. Tiles of C, BM x BN a program, 8 rows of tiles at a time."""

# Parameters of kernels have no Python type, and compile-time constants are in capitals.
# ruff: noqa: ANN001, ANN202, N803

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Return row and column of this program's tile."""
    index, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = index // (GROUP * tiles_n) * GROUP
    rows = min(tiles_m - first, GROUP)
    rest = index % (GROUP * tiles_n)
    return first + rest % rows, rest // rows


@triton.jit
def _better(sums, terms, IS_MAX: tl.constexpr):
    """Return the smaller or the greater; a NaN loses. In float64 a comparison is twice as fast as fmin."""
    if sums.dtype == tl.float64:
        return tl.where(terms > sums, terms, sums) if IS_MAX else tl.where(terms < sums, terms, sums)
    return tl.maximum(sums, terms) if IS_MAX else tl.minimum(sums, terms)


@triton.jit
def tropical(
    a,
    b,
    c,
    m,
    n,
    k,
    lda,
    ldb,
    ldc,
    zero,
    IS_MAX: tl.constexpr,
    ADDS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    STEPS: tl.constexpr,
    GROUP: tl.constexpr,
):
    """C := [C (+)] A (x) B over (min, +) or (max, +), A transposed: rank-1 updates, STEPS of k unrolled.

    Rows and columns past the end become the last ones.
    """
    row, column = _tile(m, n, BM, BN, GROUP)
    i = row * BM + tl.arange(0, BM)
    j = column * BN + tl.arange(0, BN)
    i_read, j_read = tl.minimum(i, m - 1), tl.minimum(j, n - 1)
    sums = tl.full((BM, BN), zero, a.dtype.element_ty)
    if a.dtype.element_ty == tl.float64:  # the loop below was 15 times slower there on an H200
        for p in range(0, k, STEPS):
            for u in tl.static_range(STEPS):
                q = tl.minimum(p + u, k - 1).to(tl.int64)  # repeating a term changes nothing
                terms = tl.load(a + i_read + q * lda)[:, None] + tl.load(b + j_read + q * ldb)[None, :]
                sums = _better(sums, terms, IS_MAX)
    else:
        for _ in range(k // STEPS):
            for _u in tl.static_range(STEPS):
                terms = tl.load(a + i_read)[:, None] + tl.load(b + j_read)[None, :]
                sums = _better(sums, terms, IS_MAX)
                a += lda  # one pointer moves, not one for each element
                b += ldb
        for _ in range(k % STEPS):
            terms = tl.load(a + i_read)[:, None] + tl.load(b + j_read)[None, :]
            sums = _better(sums, terms, IS_MAX)
            a += lda
            b += ldb
    pointers = c + i[:, None].to(tl.int64) * ldc + j[None, :]
    is_inside = (i[:, None] < m) & (j[None, :] < n)
    if ADDS:
        before = tl.load(pointers, mask=is_inside)
        sums = _better(sums, before, IS_MAX)
    tl.store(pointers, sums, mask=is_inside)


@triton.jit
def ordinary(
    a,
    b,
    c,
    m,
    n,
    k,
    lda,
    ldb,
    ldc,
    ADDS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """C := [C +] A B in float32, in full precision."""
    row, column = _tile(m, n, BM, BN, GROUP)
    i = row * BM + tl.arange(0, BM)
    j = column * BN + tl.arange(0, BN)
    p = tl.arange(0, BK)
    from_a = a + tl.minimum(i, m - 1)[:, None].to(tl.int64) * lda + p[None, :]
    from_b = b + p[:, None].to(tl.int64) * ldb + tl.minimum(j, n - 1)[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for left in range(k, 0, -BK):
        x = tl.load(from_a, mask=p[None, :] < left, other=0.0)
        y = tl.load(from_b, mask=p[:, None] < left, other=0.0)
        sums = tl.dot(x, y, sums, input_precision="ieee")
        from_a += BK
        from_b += BK * ldb
    pointers = c + i[:, None].to(tl.int64) * ldc + j[None, :]
    is_inside = (i[:, None] < m) & (j[None, :] < n)
    if ADDS:
        sums += tl.load(pointers, mask=is_inside)
    tl.store(pointers, sums, mask=is_inside)
