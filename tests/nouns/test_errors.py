"""The one form of an error message, and that errors survive a trip between processes."""

from __future__ import annotations

import pickle

import pytest

from harness import errors

ALL = [
    errors.HarnessError,
    errors.ProblemError,
    errors.PlanError,
    errors.ExperimentError,
    errors.BackendUnavailable,
    errors.VerificationError,
    errors.StoreError,
]


def test_message_has_a_row_for_each_part() -> None:
    error = errors.PlanError("mc is not a multiple of mr", expected="mc % mr == 0", got="mc=70", fix="mc=68")
    assert str(error).splitlines() == [
        "mc is not a multiple of mr",
        "  expected  mc % mr == 0",
        "  got       mc=70",
        "  fix       mc=68",
    ]


def test_parts_that_are_not_known_are_left_out() -> None:
    assert str(errors.StoreError("no such file")) == "no such file"
    assert str(errors.StoreError("no such file", fix="make it")) == "no such file\n  fix       make it"


def test_names_that_contain_commas_are_quoted_in_a_list() -> None:
    error = errors.StoreError.unknown("contender", "1 levl", ["1 level", "1 level, classic"])
    assert error.expected == "1 level, '1 level, classic'"
    assert error.fix == "did you mean '1 level'?"


@pytest.mark.parametrize("cls", ALL)
def test_errors_survive_pickling(cls: type[errors.HarnessError]) -> None:
    error = pickle.loads(pickle.dumps(cls("what", expected="this", got="that", fix="so")))
    assert type(error) is cls
    assert (error.what, error.expected, error.got, error.fix) == ("what", "this", "that", "so")


def test_wrong_values_are_value_errors() -> None:
    assert issubclass(errors.ProblemError, ValueError)
    assert issubclass(errors.PlanError, ValueError)
    assert all(issubclass(cls, errors.HarnessError) for cls in ALL)
