"""The kernel contract: every backend that is found, over every semiring and dtype, against the definition.

One test a kernel, since compiling is what costs; `harness.proof.contract_cases` says what each kernel must get right.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from backends.cpu._cache import cache
from harness import SEMIRINGS, Semiring, registry
from harness.composite import Composite
from harness.dtypes import mixed_dtypes
from harness.proof.contract import Finding, check_declaration, check_kernel
from harness.registry import Entry
from harness.semiring import HALF

# Compiling hundreds of kernels takes twice as long while coverage looks on, and shows nothing: their Python form is
# covered by tests/cpu/test_kernels.py.
pytestmark = pytest.mark.no_cover

DTYPES = [np.dtype(name) for name in ("float32", "float64", "int16", "int32", "int64", "uint8", "bool")]
# In vector code the width of an element matters: semirings that have every operation but max among them are tested in
# all dtypes, others in one: tests/cpu/test_vector_operators.py has each operation in each dtype. The classic rungs are
# the same scalar code whatever the width: those semirings in one float dtype and one other, others in one, by cpu-naive
# all of them and by each other rung every third, since loops differ there and operators do not. Dtypes differ from
# semiring to semiring and from rung to rung.
FIRST_STEP_OF_EVERY_WIDTH = 50
IN_EVERY_DTYPE = ("plus_times", "min_plus")
MIRRORED = ("max_plus", "min_max", "min_times")
ENTRIES = registry.discover()
# Backends that compute on ranks have another compute, whose kernels are tested above: a few dtypes and semirings show
# what is theirs, cutting and combining. They are one algorithm, so dist-3d alone, which takes any grid, is tested with
# every kind of kernel; of the others one shows that their grids, layouts and the way from the root are right. All else
# is in tests/distributed.
ON_RANKS = (("min_plus", "int16"),)
WITH_EVERY_KIND = "dist-3d"
ON_ONE_STRATEGY = (("plus_times", "float64"),)
MIXED_ON_RANKS, HALF_ON_RANKS = "int8", "min_plus"
# Rungs below are the same scalar code over complex64 as over complex128.
FIRST_STEP_OF_COMPLEX64 = 40
# Of complex numbers, those whose kernels take longest to compile: other rungs and the other width are ordinary.
DEEP = (("cpu-packed", "complex64"), ("cpu-strassen", "complex64"))


@pytest.fixture(autouse=True)
def _kernels_are_kept() -> Iterator[None]:
    """Require that the next process finds every kernel: what is compiled anew costs it a second each."""
    before = dict(cache.not_kept)
    yield
    new = {name: reason for name, reason in cache.not_kept.items() if before.get(name) != reason}
    assert {name: reason for name, reason in new.items() if not reason.startswith("the source has changed")} == {}


def _marks(entry: Entry) -> list[pytest.MarkDecorator]:
    if _is_on_ranks(entry):
        return [pytest.mark.mpi]
    return [pytest.mark.gpu] if entry.name.startswith("gpu-") else []


def _is_deep(entry: Entry, semiring: Semiring, dtype: np.dtype) -> bool:
    """Return whether a kernel of the CPU is left to `make test-deep`.

    The rest: every semiring by cpu-naive and once by vector code; two semirings by all other rungs over floats, and by
    vector code over two dtypes.
    """
    assert entry.backend is not None
    if not entry.name.startswith("cpu-") or entry.name == "cpu-naive":
        return False
    is_composite = isinstance(entry.backend, Composite)
    is_vector_code = entry.backend.step >= FIRST_STEP_OF_EVERY_WIDTH and not is_composite
    if semiring.name not in IN_EVERY_DTYPE:
        return not is_vector_code
    return dtype.name not in ("float32", "int16") if is_vector_code else dtype.kind != "f"


def _is_on_ranks(entry: Entry) -> bool:
    return entry.backend is not None and entry.backend.starts_processes


def _kernels() -> list[object]:
    """Return (entry, semiring, dtype) of all that can run here; those of one kernel together share compiled parts."""
    found: list[object] = []
    found += [
        pytest.param(entry, SEMIRINGS[name], np.dtype(dtype), id=f"{entry.name}-{name}-{dtype}", marks=_marks(entry))
        for entry in ENTRIES
        if _is_on_ranks(entry) and entry.unavailable() is None
        for name, dtype in (*ON_RANKS, *(ON_ONE_STRATEGY if entry.name == WITH_EVERY_KIND else ()))
    ]
    able = [entry for entry in ENTRIES if entry.unavailable() is None and not _is_on_ranks(entry)]
    for number, semiring in enumerate(SEMIRINGS.values()):
        legal = [dtype for dtype in DTYPES if semiring.unsupported(dtype) is None]
        by_kind = [[dtype for dtype in legal if dtype.kind == kind] for kind in "fiub"]
        one_of_each = [of_kind[number % len(of_kind)] for of_kind in by_kind if of_kind]
        floats = [one for one in one_of_each if one.kind == "f"]
        others = [one for one in one_of_each if one.kind != "f"]
        for dtype in legal:
            for rung, entry in enumerate(able):
                assert entry.backend is not None
                is_composite = isinstance(entry.backend, Composite)  # its kernels are those of others
                is_vector_code = entry.backend.step >= FIRST_STEP_OF_EVERY_WIDTH and not is_composite
                turn = number if is_vector_code else (number + rung) // 2
                wanted = floats + others[turn % max(1, len(others)) :][:1]
                if semiring.name not in IN_EVERY_DTYPE:
                    wanted = wanted[(number + rung) % len(wanted) :][:1]
                    if not is_vector_code and entry.name != "cpu-naive" and (number + rung) % 3:
                        wanted = []
                elif is_vector_code:
                    wanted = legal
                if dtype not in wanted:
                    continue
                name = f"{entry.name}-{semiring.name}-{dtype.name}"
                marks = [*_marks(entry), *([pytest.mark.deep] if _is_deep(entry, semiring, dtype) else [])]
                found.append(pytest.param(entry, semiring, dtype, id=name, marks=marks))
    return found


def _entries() -> list[object]:
    return [pytest.param(entry, id=entry.name, marks=_marks(entry)) for entry in ENTRIES]


@pytest.mark.parametrize("entry", _entries())
def test_backend_says_what_it_is(entry: Entry) -> None:
    assert entry.backend is not None, entry.error
    finding = check_declaration(entry.backend)
    assert finding.status == "ok", finding.detail


@pytest.mark.parametrize("entry", _entries())
def test_backend_can_run_here(entry: Entry) -> None:
    assert entry.backend is not None, entry.error
    missing = entry.backend.missing()
    if missing is not None:
        assert missing.strip()
        pytest.skip(f"{entry.name}: {missing}")


def test_names_are_unique_and_steps_order_each_ladder() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    for family in {name.split("-")[0] for name in names}:
        steps = [entry.backend.step for entry in ENTRIES if entry.backend and entry.name.startswith(family)]
        assert steps == sorted(steps)


def _mixed_kernels() -> list[object]:
    return [
        pytest.param(
            entry,
            narrow,
            wide,
            id=f"{entry.name}-{narrow.name}-{wide.name}",
            marks=[*_marks(entry), *([pytest.mark.deep] if (entry.name, narrow.name) in DEEP else [])],
        )
        for entry in ENTRIES
        if entry.backend and "mixed" in entry.backend.takes and entry.unavailable() is None
        for narrow, wide in mixed_dtypes()
        if not _is_on_ranks(entry) or (entry.name, narrow.name) == (WITH_EVERY_KIND, MIXED_ON_RANKS)
        if not isinstance(entry.backend, Composite) or narrow.name == MIXED_ON_RANKS
    ]


@pytest.mark.parametrize(("entry", "narrow", "wide"), _mixed_kernels())
def test_mixed_kernel_computes_what_is_defined(entry: Entry, narrow: np.dtype, wide: np.dtype) -> None:
    assert entry.backend is not None, entry.error
    _assert_right(list(check_kernel(entry.backend, SEMIRINGS["plus_times"], wide, narrow)))


@pytest.mark.parametrize(("entry", "semiring", "dtype"), _kernels())
def test_kernel_computes_what_is_defined(entry: Entry, semiring: Semiring, dtype: np.dtype) -> None:
    assert entry.backend is not None, entry.error
    _assert_right(list(check_kernel(entry.backend, semiring, dtype)))


def _complex_kernels() -> list[object]:
    """Return (entry, dtype) of all that take complex numbers."""
    return [
        pytest.param(
            entry,
            np.dtype(dtype),
            id=f"{entry.name}-{dtype}",
            marks=[*_marks(entry), *([pytest.mark.deep] if (entry.name, dtype) in DEEP else [])],
        )
        for entry in ENTRIES
        if entry.backend and "complex" in entry.backend.takes and entry.unavailable() is None
        for dtype in ("complex64", "complex128")
        if not _is_on_ranks(entry) or (entry.name, dtype) == (WITH_EVERY_KIND, "complex128")
        if dtype == "complex128" or entry.backend.step >= FIRST_STEP_OF_COMPLEX64
    ]


@pytest.mark.parametrize(("entry", "dtype"), _complex_kernels())
def test_complex_kernel_computes_what_is_defined(entry: Entry, dtype: np.dtype) -> None:
    assert entry.backend is not None, entry.error
    _assert_right(list(check_kernel(entry.backend, SEMIRINGS["plus_times"], dtype)))


def _half_kernels() -> list[object]:
    """Return (entry, semiring) of all that take float16; those semirings that the others mirror are left out.

    They come last: by then what a composite has others compute has been compiled.
    """
    return [
        pytest.param(entry, semiring, id=f"{entry.name}-{semiring.name}-float16", marks=_marks(entry))
        for entry in ENTRIES
        if entry.backend and "half" in entry.backend.takes and entry.unavailable() is None
        for semiring in SEMIRINGS.values()
        if semiring.unsupported(HALF) is None and semiring.name not in MIRRORED
        if not _is_on_ranks(entry) or (entry.name, semiring.name) == (WITH_EVERY_KIND, HALF_ON_RANKS)
    ]


@pytest.mark.parametrize(("entry", "semiring"), _half_kernels())
def test_half_kernel_computes_what_is_defined(entry: Entry, semiring: Semiring) -> None:
    assert entry.backend is not None, entry.error
    _assert_right(list(check_kernel(entry.backend, semiring, HALF)))


def _assert_right(findings: list[Finding]) -> None:
    failed = [f"{finding.what}: {finding.detail}" for finding in findings if finding.status == "failed"]
    assert not failed, "\n".join(failed)
    assert findings
