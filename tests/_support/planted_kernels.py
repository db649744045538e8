"""Generated kernels with a planted bug: compiled anew for one test, and forgotten after it."""

from __future__ import annotations

import pytest

from backends.cpu._ir import functions
from backends.cpu._mixed import loops as mixed_loops
from backends.cpu._simd import (
    argument_table,
    fold_stage,
    kernel_table,
    matrix_vector,
    rank_update,
    small_products,
    symmetric,
)


def compile_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every function of a kernel compiled where it is used, from then on until the end of the test."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "")
    monkeypatch.setattr(functions, "_addresses", {})
    for module in (argument_table, small_products):
        monkeypatch.setattr(module, "kernel_table", kernel_table.kernel_table.__wrapped__)
    monkeypatch.setattr(kernel_table, "tile_addresses", kernel_table.tile_addresses.__wrapped__)
    for module in (fold_stage, matrix_vector, mixed_loops, rank_update, symmetric):
        monkeypatch.setattr(module, "_kernel_table", module._kernel_table.__wrapped__)
