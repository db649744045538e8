"""What came out: ten answers first, the others by where they compute."""

from harness.report import answers_by_place


def test_ten_answers_stand_first_and_the_others_by_where_they_compute():
    told = {f"first_{i}": "x" for i in range(answers_by_place.FIRST)}
    told |= {"gpu_rows": "rows", "ablation": "ideas", "dist_volume": "words", "qr": "shares", "mv_half": "half"}
    first, opened, *rest, closed = answers_by_place.lines(told, {name: f"of-{name}" for name in told})
    assert first.count("\n") == answers_by_place.FIRST - 1
    assert (opened, closed) == ("<details><summary>5 more answers</summary>", "</details>")
    assert rest[0::2] == [f"**{head}**" for head in (answers_by_place.CPU, *answers_by_place.GROUPS)]
    assert rest[1] == "- [ablation](#of-ablation): ideas"
    assert rest[3] == "- [gpu_rows](#of-gpu_rows): rows"
    assert answers_by_place.lines({}, {}) == []


def test_an_anchor_is_the_one_that_github_gives():
    assert answers_by_place.anchor("Is cpu-simd faster, at n = 8, than a_b?") == "is-cpu-simd-faster-at-n--8-than-a_b"
