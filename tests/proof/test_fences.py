"""Arrays beside memory that may not be touched: equal to what they stand for, and every access beside them is told."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import SEMIRINGS, Operands, Problem, registry
from harness.cli import sanitize
from harness.cli.fuzz import CALLS
from harness.errors import VerificationError
from harness.proof import entry_points, fences
from harness.proof.contract import check_kernel
from harness.proof.programs.drawing import Limits, nth_program
from harness.proof.programs.memory import FencedMemory, tight
from harness.proof.programs.run import run
from tests.proof.test_check import Good

FLOAT = np.dtype(np.float64)
X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
FORMS = {
    "rows": X,
    "columns": X.swapaxes(-1, -2),
    "gaps": X[:, :, :3],
    "apart": X[::2, ::3, ::2],
    "backwards": X[::-1, :, ::-1],
    "broadcast": np.broadcast_to(X[:, :1], X.shape),
    "one": X[0, 0, 0, None],
    "scalar": X[0, 0, 0, ...],
    "nothing": X[:0],
}


@pytest.mark.parametrize("side", fences.SIDES)
@pytest.mark.parametrize("form", FORMS)
def test_a_fenced_array_is_equal_and_one_byte_beside_it_is_told(form: str, side: fences.Side) -> None:
    x = FORMS[form]
    y = fences.fenced(x, side, "x")
    assert np.array_equal(x, y)
    assert y.strides == x.strides
    low, high = np.lib.array_utils.byte_bounds(y) if y.size else (y.ctypes.data, y.ctypes.data)
    with fences.watched():
        y.sum()
    with pytest.raises(VerificationError, match="0 bytes behind the end" if side == "after" else "1 bytes before"):  # noqa: SIM117
        with fences.watched():
            ctypes.string_at(high if side == "after" else low - 1, 1)


class Touches(Good):
    """Computes what is right, and touches what is not its own."""

    def __init__(self, touch: Callable[[Operands], Any]) -> None:
        self.touch = touch

    def compute(self, problem: Problem, operands: Operands) -> None:
        super().compute(problem, operands)
        self.touch(operands)


def _end(x: np.ndarray) -> int:
    return x.ctypes.data + x.nbytes


@pytest.mark.parametrize(
    ("touch", "says"),
    [
        (lambda o: ctypes.string_at(_end(o.a), 1), "19x23x37, nothing after: .*: read 0 bytes behind the end of a "),
        (lambda o: ctypes.string_at(o.b.ctypes.data - 3, 1), "nothing before: .*: read 3 bytes before the begin of b "),
        (lambda o: ctypes.memset(_end(o.out) + 8, 7, 1), "nothing after: .*: written 8 bytes behind the end of out "),
    ],
    ids=("reads on", "reads before", "writes on"),
)
def test_the_check_finds_a_backend_that_touches_what_is_not_its_own(
    touch: Callable[[Operands], Any], says: str
) -> None:
    plus_times = SEMIRINGS["plus_times"]
    (finding,) = check_kernel(Touches(touch), plus_times, FLOAT, is_short=True, is_fenced=True)
    assert finding.status == "failed"
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(finding.detail)
    (finding,) = check_kernel(Touches(lambda o: None), plus_times, FLOAT, is_short=True, is_fenced=True)
    assert finding.status == "ok"


def test_kernels_touch_nothing_beside_their_operands() -> None:
    for name, dtype in (("min_plus", "float32"), ("plus_times", "float64"), ("lor_land", "bool")):
        kernel = SEMIRINGS[name], np.dtype(dtype)
        (finding,) = check_kernel(registry.find("cpu-simd"), *kernel, is_short=True, is_fenced=True)
        assert finding.status == "ok", finding.detail


def test_nor_do_public_calls() -> None:
    known = sanitize.functions()
    calls = sorted(entry_points.calls(), key=lambda call: call.function)
    seen = set()
    for function, group in itertools.groupby(calls, key=lambda call: call.function):
        for call, side in itertools.product(itertools.islice(group, 20, 22), fences.SIDES):
            with fences.watched():
                call.make(known, lambda x, side=side: fences.fenced(x, side))  # type: ignore[misc]
        seen.add(function)
    assert {"gemm", "gemm_argk", "einsum", "gemv", "closure", "qr", "trsm", "refine", "hessenberg"} <= seen


def test_random_programs_have_fences_right_at_their_arrays() -> None:
    limits, known = Limits(), {name: fences.guarded(function) for name, function in CALLS.items()}
    gemms = [one for one in map(tight, (nth_program(1, n, limits) for n in range(40))) if one.call == "gemm"]
    assert not any(run(one, known, FencedMemory()).wrong for one in gemms[:8])

    def beyond(a: np.ndarray, b: np.ndarray, *others: Any, **options: Any) -> Any:
        for address in np.lib.array_utils.byte_bounds(a):
            ctypes.string_at(address - 1, 2)
        return CALLS["gemm"](a, b, *others, **options)

    known["gemm"] = fences.guarded(beyond)
    found = [run(one, known, FencedMemory()).wrong for one in gemms if 0 not in one.operands["a"].shape]
    assert any("begin of a buffer" in wrong for wrong in found)
    assert any("end of a buffer" in wrong for wrong in found)
