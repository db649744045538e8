"""Functions that compiled code alone calls: compiling ways to call them from Python and C takes longer than they do."""

from __future__ import annotations

import numba

inlined = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
