"""Measured peaks: every kernel has one that is checked, and the table shows them all."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from backends.cpu._ceilings import peak
from harness.errors import Declined, VerificationError
from harness.run.machine_info import measure_peaks, peaks_table
from harness.semiring import DTYPES, SEMIRINGS

FLOAT64, BOOL, INT32 = (np.dtype(name) for name in ("float64", "bool", "int32"))


def peaks(semiring):
    """Yield the task of each dtype that has vector code, on two threads in two of them: that loop is compiled too."""
    for dtype in DTYPES:
        with contextlib.suppress(Declined):
            yield peak(dtype=dtype.name, semiring=semiring, threads=2 if dtype in (FLOAT64, BOOL) else 1)


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_the_loop_does_the_arithmetic_it_counts(semiring):
    tasks = list(peaks(semiring))
    assert tasks
    for task in tasks:
        task.spoil()
        with pytest.raises(VerificationError, match="accumulator is wrong"):
            task.verify()
        task.run()
        assert task.verify() == "every accumulator, exactly"
        with np.errstate(over="ignore"):
            task._results[0] -= 1  # as if one were lost
        with pytest.raises(VerificationError):
            task.verify()
        assert task.facts()["operations"] > 0


def test_a_word_of_bits_counts_as_its_bits():
    words, bits = (
        peak(dtype=d, semiring=s, threads=1).facts() for d, s in (("int32", "max_min"), ("bool", "lor_land"))
    )
    assert bits["operations"] == 32 * words["operations"]


def test_what_has_no_vector_code_is_declined():
    for dtype, semiring in (("bool", "plus_times"), ("int32", "logaddexp_plus")):
        with pytest.raises(Declined, match="no vector code"):
            peak(dtype=dtype, semiring=semiring, threads=1)


def test_measures_what_there_is_and_shows_it():
    found = list(measure_peaks(("plus_times", "lxor_land"), (FLOAT64, BOOL)))
    assert [entry[:2] for entry in found] == [("plus_times", "float64"), ("lxor_land", "bool")]
    assert all(rate > 0 for *_, rate in found)
    lines = peaks_table(found)
    assert [line[0] for line in lines] == ["plus_times", "lxor_land"]
    assert [sum(map(bool, line[1:])) for line in lines] == [1, 1]
