"""Findings of experiments on GPUs: shares of copies and errors are those of planted cells."""

import dataclasses

from harness.analysis import answers
from harness.analysis.findings import FINDINGS
from harness.experiment import load_all
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
WITH_GPU = dataclasses.replace(MACHINE, gpu={"name": "NVIDIA H200"})


def of_case(name, **where):
    found = cells(EXPERIMENTS[name], machine=WITH_GPU)
    return [cell for cell in found if all(cell.axes.get(axis) == value for axis, value in where.items())]


def with_stages(cell, first_s=0.0, **stages_ms):
    names = {name.replace("_", " "): ms for name, ms in stages_ms.items()}
    samples = [1e6 * sum(names.values())] * 6
    readings = {name: [[1e6 * ms] * 6] for name, ms in names.items()}
    facts = {**cell.facts, **({"first_call_s": {"load": first_s}} if first_s else {})}
    return dataclasses.replace(cell, samples_ns=[samples], facts=facts, record={**cell.record, "readings": readings})


def test_shares_of_copies_are_those_of_the_stages():
    pageable, pinned, *_ = of_case("gpu_breakdown", n=4096)
    slow = with_stages(pageable, 2.0, allocate=10, host_to_device=40, compute=20, device_to_host=30)
    fast = with_stages(pinned, compute=20, host_to_device=5)
    (figure,) = EXPERIMENTS["gpu_breakdown"].figures
    sentence = FINDINGS["copies"]([slow, fast], figure.options)
    assert sentence == (
        "Copies take 70 % (pageable) and 20 % (pinned by a call) of a call, computing 20 % and 80 % "
        "(gpu-cublas, plus_times, float64, n=4096); the first call takes 20 times as long"
    )
    assert FINDINGS["copies"]([pageable], figure.options) == "", "no stages were read"
    assert "undecided" not in answers.of_figure(figure, answers.Shown([slow, fast], []))


def test_errors_are_those_over_the_reference_at_the_largest_size():
    base, one, two, classic = of_case("gpu_strassen", n=8192, dtype="float32", base="gpu-cublas")
    small = of_case("gpu_strassen", n=4096, dtype="float32", base="gpu-cublas")
    errors = ((base, 2.0), (one, 5.0), (two, 8.0), (classic, 4.0), (small[0], 1.0), (small[1], 9.0))
    planted = [dataclasses.replace(cell, facts={**cell.facts, "greatest_error": error}) for cell, error in errors]
    figure = EXPERIMENTS["gpu_strassen"].figures[1]
    assert FINDINGS["errors"](planted, figure.options) == (
        "2 levels have 4 times the largest error of gpu-cublas; 1 level, classic 2 times (float32, n=8192)"
    )
    assert FINDINGS["errors"]([base, one], figure.options) == "", "older results have no errors"


def test_the_best_recursion_at_both_ends_is_named():
    large = of_case("gpu_strassen", n=8192, dtype="float64", base="gpu-cublas")
    small = of_case("gpu_strassen", n=2048, dtype="float64", base="gpu-cublas")
    times = [*zip(large, (10.0, 9.0, 8.5, 9.1), strict=True), *zip(small, (1.0, 1.2, 2.0, 1.3), strict=True)]
    planted = [dataclasses.replace(cell, samples_ns=[[1e6 * ms] * 8]) for cell, ms in times]
    figure = EXPERIMENTS["gpu_strassen"].figures[0]
    assert FINDINGS["recursion"](planted, figure.options) == (
        "Strassen takes 0.85 times the time of gpu-cublas at n=8192 (2 levels, over float64), 1.20 at n=2048"
    )
    assert FINDINGS["recursion"](large[:1], figure.options) == "", "the base alone"
