"""Functions that are compiled by themselves: what is written runs, is kept between processes, and is written once."""

import ctypes
import gc

import numpy as np
import pytest

from backends.cpu._cache import cache, sources
from backends.cpu._ir import functions
from backends.cpu._vector import code as v


def emit(module):
    """Write ``first(target, value)`` and ``second(target, value)``: they store `value`, and twice `value`."""

    def times(factor):
        return lambda b, target, value: b.store(b.mul(value, v.size(factor)), b.inttoptr(target, v.POINTER)) and None

    return [v.own_function(module, f"times_{factor}", [v.SIZE] * 2, times(factor)) for factor in (1, 2)]


def never(module):
    raise AssertionError("these functions are there")


def stored(addresses, value):
    """Return what each function stores."""
    results = np.zeros(len(addresses), np.int64)
    for address, result in zip(addresses, range(len(addresses)), strict=True):
        call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)
        call(results.ctypes.data + 8 * result, value)
    return results.tolist()


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has compiled nothing, with an empty folder for kernels."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(sources, "may_have_changed", lambda: False)

    def begin():
        monkeypatch.setattr(functions, "_addresses", {})
        monkeypatch.setattr(functions, "_engines", [])  # as in another process: symbols may be defined again
        return cache.counts.copy()

    begin()
    return begin


@pytest.mark.parametrize("unrolls", (False, True))
def test_they_run_and_the_next_process_loads_them(fresh, unrolls):
    before = fresh()
    assert stored(functions.compile_functions("times", ("any", unrolls), emit, unrolls=unrolls), 21) == [21, 42]
    assert stored(functions.compile_functions("times", ("any", unrolls), never), 4) == [4, 8]
    assert cache.counts - before == {"compiled": 1, "kept": 1}
    before = fresh()
    assert stored(functions.compile_functions("times", ("any", unrolls), never), 5) == [5, 10]
    assert cache.counts - before == {"loaded": 1}


def test_another_name_or_key_is_another_module(fresh):
    names = [("times", 1), ("times", 2), ("others", 1)]
    addresses = [functions.compile_functions(name, (number,), emit) for name, number in names]
    assert len({address for pair in addresses for address in pair}) == 6


@pytest.mark.parametrize("reason", ("no folder", "sources have changed"))
def test_what_cannot_be_kept_is_compiled_each_time(fresh, monkeypatch, tmp_path, reason):
    if reason == "no folder":
        monkeypatch.setenv("GEMM_HARNESS_CACHE", "")
    else:
        monkeypatch.setattr(sources, "may_have_changed", lambda: True)
    for _ in range(2):
        before = fresh()
        assert stored(functions.compile_functions("times", ("any",), emit), 3) == [3, 6]
        assert cache.counts - before == {"compiled": 1}
    assert not list(tmp_path.iterdir())


def test_a_damaged_entry_is_compiled_anew(fresh, tmp_path):
    functions.compile_functions("times", ("any",), emit)
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    before = fresh()
    assert stored(functions.compile_functions("times", ("any",), emit), 7) == [7, 14]
    assert (cache.counts - before)["compiled"] == 1


@pytest.mark.parametrize("was_enabled", (True, False))
def test_garbage_is_not_collected_while_they_are_compiled_and_as_before_afterwards(fresh, was_enabled):
    def look(module):
        enabled.append(gc.isenabled())
        if len(enabled) > 1:
            raise ValueError("this compilation fails")
        return emit(module)

    enabled: list[bool] = []
    try:
        (gc.enable if was_enabled else gc.disable)()
        functions.compile_functions("times", ("gc",), look)
        assert gc.isenabled() == was_enabled
        with pytest.raises(ValueError, match="this compilation fails"):
            functions.compile_functions("times", ("gc", "fails"), look)
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
    assert enabled == [False, False]
