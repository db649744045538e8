"""The one renderer of findings: a sentence with one number, then the range; from findings made by hand."""

import dataclasses

import pytest

from harness.analysis.findings import sentences
from harness.analysis.findings.sentences import (
    FIRST,
    LEAST,
    LOSS,
    MEAN,
    MEDIAN,
    MOST,
    PART,
    PAYS,
    SPEED,
    TIME,
    WINS,
    Finding,
    Value,
    nothing,
    where_in_words,
)
from harness.catalogue import load_all
from harness.stats.statistics import Interval, exact
from tests._support import synthetic


def values(*numbers):
    return [Value(exact(number), place=f"n={place}") for place, number in enumerate(numbers, 1)]


def cell(n=64, samples=8, **axes):
    (own,) = synthetic.at_rates(load_all()["size_sweep"], {"cpu-simd": 40.0}, n=n)
    return dataclasses.replace(own, axes={**own.axes, **axes}, samples_ns=[own.samples_ns[0][:samples]])


@pytest.mark.parametrize(
    ("finding", "sentence", "spread"),
    [
        (Finding("cpu-simd", SPEED, values(2.0), "MKL"), "cpu-simd is 2.00 times as fast as MKL (n=1)", ""),
        (
            Finding("cpu-simd", SPEED, values(2.0, 13.456), "MKL"),
            "cpu-simd is 13.5 times as fast as MKL (n=2)",
            "From 2.00 (n=1) to 13.5 (n=2)",
        ),
        (
            Finding("2 levels", TIME, values(491.4, 0.854), "one", LEAST),
            "2 levels take 0.85 times as long as one (n=2)",
            "From 0.85 (n=2) to 491 (n=1)",
        ),
        (
            Finding("cpu-simd", SPEED, values(0.5, 2.0), "MKL", MEAN, slower=1),
            "cpu-simd is 1.00 times as fast as MKL (geometric mean of 2 products)",
            "From 0.50 (n=1) to 2.00 (n=2); slower in 1 of 2",
        ),
        (
            Finding("cpu-simd", PART, values(81.4, 95.0, 98.0), "its peak", MEDIAN),
            "cpu-simd reaches 95 % of its peak (median of 3 products)",
            "From 81 % (n=1) to 98 % (n=3)",
        ),
        (
            Finding("cpu-simd", SPEED, [Value(exact(5.5), place="float32")], "x", scope="min_plus"),
            "Over min_plus, cpu-simd is 5.50 times as fast as x (float32)",
            "",
        ),
        (
            Finding("cpu-simd", LOSS, values(18.4), "to noise"),
            "cpu-simd loses at most 18 % of its speed to noise (n=1)",
            "",
        ),
        (
            Finding("cpu-simd", PAYS, [Value(exact(64), words="from n=64 on")], "y", others={"x": values(3.0)}),
            "cpu-simd is faster than y from n=64 on",
            "x 3.00 (n=1)",
        ),
        (
            Finding("cpu-simd", WINS, [Value(exact(2), words="2 of 3")], "cases", FIRST),
            "cpu-simd is fastest in 2 of 3 cases",
            "",
        ),
        (
            Finding("cpu-simd", PAYS, [Value(exact(n), words=f"from n={n} on", place=f"k={n}") for n in (8, 9)], "y"),
            "cpu-simd is faster than y from n=9 on (k=9)",
            "From n=8 on (k=8), from n=9 on (k=9)",
        ),
        (nothing("Whole tiles differ by 50 %", ()), "Whole tiles differ by 50 %", ""),
    ],
)
def test_a_sentence_has_one_number_and_the_range_stands_in_a_second_one(finding, sentence, spread):
    assert (finding.sentence, finding.spread) == (sentence, spread)


def test_in_brief_a_mean_does_not_count_what_it_is_over():
    said = "cpu-simd is {} times as fast as MKL ({})"
    for pick, number, place in ((MEAN, "1.00", "geometric mean"), (MOST, "2.00", "n=2")):
        assert Finding("cpu-simd", SPEED, values(0.5, 2.0), "MKL", pick).brief == said.format(number, place)
    assert Finding("cpu-simd", SPEED, values(2.0), "MKL", MEAN).brief == said.format("2.00", "n=1")
    assert nothing("why", ()).brief == "why"


def test_few_others_are_named_and_of_many_the_ends():
    others = {name: values(number) for name, number in zip("abcd", (1.0, 0.5, 3.0, 2.0), strict=True)}
    few = {name: others[name] for name in "ab"}
    assert Finding("cpu-simd", SPEED, values(2.0), "x", others=few).spread == "a 1.00 (n=1); b 0.50 (n=1)"
    assert Finding("cpu-simd", SPEED, values(2.0), "x", others=others).spread == "4 others 0.50 (b) to 3.00 (c)"


def test_the_number_of_a_card_has_an_interval_where_it_is_of_one_cell():
    one = Finding("cpu-simd", SPEED, [Value(Interval(2.0, 1.9, 2.1), place="n=1")], "MKL")
    assert one.headline == ("2.00 times", "[1.90, 2.10]")
    assert Finding("cpu-simd", SPEED, values(0.5, 2.0), "MKL", MEAN).headline == ("1.00 times", "")
    in_words = Value(Interval(2.0, 1.9, 2.1), words="from n=256 on")
    assert Finding("blocks", PAYS, [in_words], "MKL").headline == ("from n=256 on", "")
    assert nothing("why", ()).headline == ("", "")


def test_a_place_says_what_is_not_shared_and_what_makes_a_number_doubtful():
    small, narrow = cell(), cell(operands="int8")
    assert where_in_words(small) == "plus_times, float64, n=64"
    assert where_in_words(small, [small, narrow]) == "n=64"
    assert where_in_words(narrow, [narrow]) == "int8, n=64", "the dtype of sums is shared, that of operands is said"
    ends = [Value(exact(number), (own,)) for number, own in ((1.0, cell(samples=2)), (2.0, cell(128)))]
    assert Finding("cpu-simd", SPEED, ends, "x").spread == "From 1.00 (n=64; 2 samples) to 2.00 (n=128)"
    mean = Finding("cpu-simd", SPEED, ends, "x", MEAN).sentence
    assert mean == "cpu-simd is 1.41 times as fast as x (geometric mean of 2 products on 1 thread)"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("cpu-blis", "is"),
        ("blocks", "are"),
        ("harness", "is"),
        ("max_times", "is"),
        ("gpu-tuned with copies always", "is"),
        ("2 levels, classic", "are"),
        ("kij: updates", "is"),
        ("parts of A", "are"),
        ("all of these", "are"),
        ("padding to whole tiles", "is"),
    ],
)
def test_the_verb_fits_the_name(name, word):
    assert sentences.verb(name, "is", "are") == word
