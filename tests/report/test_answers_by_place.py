"""What came out: ten answers first, the others by where they compute."""

from harness.report import answers_by_place


def test_ten_answers_stand_first_and_the_others_by_where_they_compute():
    told = {f"first_{i}": "x" for i in range(answers_by_place.FIRST)}
    told |= {"gpu_rows": "rows", "ablation": "ideas", "dist_volume": "words", "qr": "shares", "mv_half": "half"}
    first, *rest = answers_by_place.lines(told)
    assert first.count("\n") == answers_by_place.FIRST - 1
    assert rest[0::2] == [f"**{head}**" for head in (answers_by_place.CPU, *answers_by_place.GROUPS)]
    assert rest[1] == "- [ablation](#ablation): ideas"
    assert rest[3] == "- [gpu_rows](#gpu_rows): rows"
    assert answers_by_place.lines({}) == []
