"""One launch for each column of a Hessenberg panel on a GPU: all of the column's work but its long product.

As operations of an array library this work is about fifty launches, which take far longer than the work. One block of
threads does it: the panel has few columns, and the vectors of a column stay in its cache. Vectors are rows of V^T and
Y^T, which are contiguous.

    y[i-1]  :=  tau[i-1] (y[i-1] - Y o)           ends the product of the column before; o = V^T v[i-1]
    c       :=  H[:, i] - Y V[i-1, :]^T           brings column i up to date from the right
    c       :=  c - V T^T V^T c                   and from the left
    v[i]    :=  the reflector of c[i:], which becomes (beta, 0, ..., 0)
    T[:, i] :=  (-tau T V^T v[i], tau)

The names are those of `harness.linalg.reduction`, the reflector is that of `harness.linalg.reflectors`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arrays import Arrays
from harness.linalg.inverses import REAL

# Threads of the block; 512 so that float64 has registers enough.
THREADS = 512

SOURCE = r"""
#ifndef LANES
#define LANES 32  // threads of a warp
#endif
#define THREADS 512
#define EACH_ROW(r, first) for (int r = (first) + threadIdx.x; r < rows; r += blockDim.x)

__device__ REAL largest_or_sum(REAL x, bool is_sum) {
    __shared__ REAL parts[THREADS];
    parts[threadIdx.x] = x;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            REAL other = parts[threadIdx.x + half];
            parts[threadIdx.x] = is_sum ? parts[threadIdx.x] + other : fmax(parts[threadIdx.x], other);
        }
        __syncthreads();
    }
    REAL all = parts[0];
    __syncthreads();
    return all;
}

// products[j] := row j of `matrix` times `vector`, from element `first` on, for j < count: one warp for each row
__device__ void products_with(
    const REAL* matrix, const REAL* vector, REAL* products, int count, int first, int rows
) {
    for (int j = threadIdx.x / LANES; j < count; j += blockDim.x / LANES) {
        REAL sum = 0;
        const REAL* row = matrix + (long long)j * rows;
        for (int r = first + threadIdx.x % LANES; r < rows; r += LANES) sum += row[r] * vector[r];
        for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
        if (threadIdx.x % LANES == 0) products[j] = sum;
    }
    __syncthreads();
}

// vt, yt (width, rows); t (width, width); overlaps (width): o of the column before; scratch (2 width)
// h: the first element of the panel; ld: elements from one of its rows to the next
extern "C" __global__ void column(
    REAL* h, long long ld, REAL* vt, REAL* yt, REAL* t, REAL* overlaps, REAL* scratch, int i, int width, int rows
) {
    REAL *v = vt + (long long)i * rows, *u = scratch, *tu = scratch + width;
    if (i > 0) {
        REAL *y = yt + (long long)(i - 1) * rows, tau = t[(i - 1) * width + i - 1];
        EACH_ROW(r, 0) {
            REAL sum = y[r];
            for (int j = 0; j < i - 1; ++j) sum -= yt[(long long)j * rows + r] * overlaps[j];
            y[r] = tau * sum;
        }
    }
    if (i == width) return;
    EACH_ROW(r, 0) {  // each thread reads what it wrote itself
        REAL c = h[r * ld + i];
        for (int j = 0; j < i; ++j) c -= yt[(long long)j * rows + r] * vt[(long long)j * rows + i - 1];
        v[r] = c;
    }
    __syncthreads();
    products_with(vt, v, u, i, 0, rows);
    for (int j = threadIdx.x; j < i; j += blockDim.x) {
        REAL sum = 0;
        for (int l = 0; l <= j; ++l) sum += t[l * width + j] * u[l];
        tu[j] = sum;
    }
    __syncthreads();
    REAL size = 0;
    EACH_ROW(r, 0) {
        REAL c = v[r];
        for (int j = 0; j < i; ++j) c -= vt[(long long)j * rows + r] * tu[j];
        v[r] = c;
        h[r * ld + i] = r < i ? c : 0;
        if (r >= i) size = fmax(size, fabs(c));
    }
    size = largest_or_sum(size, false);
    REAL scale = size > 0 ? size : 1, below = 0;  // squares neither overflow nor vanish
    EACH_ROW(r, i + 1) {
        REAL c = v[r] / scale;
        below += c * c;
    }
    below = largest_or_sum(below, true);
    REAL alpha = v[i] / scale;
    bool is_none = below == 0;
    REAL beta = is_none ? alpha : -copysign(sqrt(alpha * alpha + below), alpha);
    REAL divisor = is_none ? 1 : alpha - beta, tau = is_none ? 0 : -divisor / beta;
    __syncthreads();  // all have read v[i]
    EACH_ROW(r, 0) v[r] = is_none || r < i ? 0 : r == i ? 1 : v[r] / scale / divisor;
    if (threadIdx.x == 0) h[i * ld + i] = beta * scale;
    __syncthreads();
    products_with(vt, v, overlaps, i, i, rows);
    for (int j = threadIdx.x; j < i; j += blockDim.x) {
        REAL sum = 0;
        for (int l = j; l < i; ++l) sum += t[j * width + l] * overlaps[l];
        t[j * width + i] = -tau * sum;
    }
    if (threadIdx.x == 0) t[i * width + i] = tau;
}
"""


class PanelColumns:
    """The columns of a panel of H on a GPU, reduced one by one.

    Parameters
    ----------
    arrays : Arrays
    panel : (rows, w) array
        A window of H, whose rows are contiguous: the panel's columns from the row below its first on.

    Attributes
    ----------
    vt, yt : (w, rows) array
    t : (w, w) array
    """

    def __init__(self, arrays: Arrays, panel: Any) -> None:
        (rows, width), module, dtype = panel.shape, arrays.module, panel.dtype
        self.vt, self.yt = (module.empty((width, rows), dtype) for _ in "vy")
        self.t = module.zeros((width, width), dtype)
        work = module.empty(3 * width, dtype)
        self._kernel = module.RawKernel(SOURCE, "column", (REAL[dtype.name],))
        self._before = panel, np.int64(panel.strides[0] // panel.itemsize), self.vt, self.yt, self.t, work, work[width:]
        self._after = np.int32(width), np.int32(rows)

    def reduce(self, i: int) -> None:
        """Reduce column i, after row ``i - 1`` of `yt` has become ``A v[i - 1]``; i = w only completes that row."""
        self._kernel((1,), (THREADS,), (*self._before, np.int32(i), *self._after))
