"""Generated kernels with a planted bug: compiled anew for one test, and forgotten after it."""

from __future__ import annotations

import pytest

from backends.cpu._compile import functions
from backends.cpu._mixed import loops as mixed_loops
from backends.cpu._simd import argument_table, fold_stage, matrix_vector, rank_update, symmetric


def compile_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every function of a kernel compiled where it is used, from then on until the end of the test."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "")
    monkeypatch.setattr(functions, "_addresses", {})
    monkeypatch.setattr(argument_table, "kernel_table", argument_table.kernel_table.__wrapped__)
    for module in (fold_stage, matrix_vector, mixed_loops, rank_update, symmetric):
        monkeypatch.setattr(module, "_kernel_table", module._kernel_table.__wrapped__)
