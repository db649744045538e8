"""What the key of a kept kernel depends on, part by part."""

import numba
import numpy as np
import pytest
from numba import types

from backends.cpu._compile import cache
from backends.cpu._ladder.operators import operators
from harness import SEMIRINGS

FLOAT64 = np.dtype(np.float64)


@pytest.mark.parametrize("name", ["LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "ENABLE_AVX", "DEBUGINFO_DEFAULT"])
def test_settings_of_numba_are_part_of_the_key(monkeypatch, name):
    before = cache._settings()
    monkeypatch.setattr(numba.config, name, 17)
    assert before != cache._settings()


@pytest.mark.parametrize("part", ["_source_digest", "_versions", "_target", "_settings"])
def test_every_part_is_in_the_key(monkeypatch, part):
    add, signature = operators(SEMIRINGS["min_plus"], FLOAT64).add, types.void(types.float64)
    before = cache._key(add, signature)
    assert before == cache._key(operators(SEMIRINGS["min_plus"], FLOAT64).add, signature)
    assert before != cache._key(add, types.void(types.float32))
    monkeypatch.setattr(cache, part, lambda: "another")
    assert before != cache._key(add, signature)


def test_source_digest_covers_the_kernels_and_the_semirings(tmp_path, monkeypatch):
    names = {path.name for path in cache._sources()}
    assert {"_jit.py", "_operators.py", "packed.py", "scalars.py", "semiring.py"} <= names
    file = tmp_path / "kernel.py"
    monkeypatch.setattr(cache, "_sources", lambda: [file])
    digests = []
    for text in ("x = 1", "x = 2"):
        file.write_text(text)
        digests.append(cache._source_digest.__wrapped__())
    assert digests[0] != digests[1]


def test_nothing_is_kept_once_the_source_has_changed(tmp_path, monkeypatch):
    # a process that began before an edit may run either text
    add = operators(SEMIRINGS["min_plus"], FLOAT64).add
    for since in (-100.0, 100.0):
        monkeypatch.setattr(cache, "_newest_source_s", lambda since=since: cache._started_s() + since)
        assert (cache._key(add, types.void()) is None) == (since > 0)
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_sources", lambda: [tmp_path / "gone.py"])
    assert cache._key(add, types.void()) is None
