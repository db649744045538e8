"""What compute-sanitizer prints, as it has been recorded, is read, counted and laid at the right door."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import BackendUnavailable
from harness.proof import sanitizers
from harness.proof.sanitizers import Outcome, details, table

MEMCHECK = """\
========= COMPUTE-SANITIZER
product 0 gpu-tuned: plus_times float32 sizes: 67x33x129
========= Invalid __global__ read of size 16 bytes
=========     at gemm+0x3a0
=========     by thread (5,0,0) in block (0,0,0)
=========     Access to 0x7f698ba00144 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f698ba00000 of size 18,060 bytes
=========
========= Invalid __global__ read of size 16 bytes
=========     at gemm+0x3a0
=========     by thread (6,0,0) in block (0,0,0)
=========     Access to 0x7f698ba00148 is out of bounds
product 1 gpu-cublas: plus_times float32 sizes: 1x1x1
========= Invalid __global__ write of size 4 bytes
=========     at void gemmSN_NN_kernel<float, int=128>(cublasGemmSmallNParams<T1>)+0x90
=========     by thread (0,0,0) in block (0,0,0)
product 2 gemv: 3x17x33 plus_times float32
failed: VerificationError: the output was not written
========= Invalid __global__ read of size 4 bytes
=========     at cupy_copy__float32_float32+0x50
all products are computed
========= ERROR SUMMARY: 4 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
product 0 gpu-tiled: plus_times float32 sizes: 3x17x33
========= Error: Race reported between Write access at gemm+0x8b0 and Read access at gemm+0xc20 [1088 hazards]
=========
========= Warning: Race reported between Read access at staged(float *, int)+0x10 in tiled.cu:4
=========     and Write access at staged(float *, int)+0x40 in tiled.cu:5 [4 hazards]
all products are computed
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
SYNCCHECK = """\
product 0 argk: one
========= Barrier error detected. Divergent thread(s) in block.
=========     at argk+0x120
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""


def read(tool: str, text: str) -> Outcome:
    outcome = Outcome(tool)
    outcome.read(text.splitlines(keepends=True))
    return outcome


def test_errors_are_counted_by_entry_point_and_apart_for_kernels_of_others() -> None:
    outcomes = [read("memcheck", MEMCHECK), read("racecheck", RACECHECK)]
    assert table(outcomes) == [
        ("gpu-tuned", "1", "2", ""),
        ("gpu-cublas", "1", "0 + 1", ""),
        ("gemv", "1", "1 + 1", ""),
        ("gpu-tiled", "1", "", "2"),
    ]
    assert [outcome.total for outcome in outcomes] == [4, 2]


def test_a_report_names_kernel_product_and_place() -> None:
    outcome = read("memcheck", MEMCHECK)
    first = details([outcome], ours=True)[0]
    assert first.startswith(
        "memcheck gpu-tuned: gemm: 2 x Invalid __global__ read of size 16 bytes; first in plus_times"
    )
    assert "nearest allocation at 0x7f698ba00000 of size 18,060 bytes" in first
    assert [report.kernel for report in outcome.reports if not report.is_ours] == [
        "void gemmSN_NN_kernel<float, int=128>",
        "cupy_copy__float32_float32",
    ]
    assert [report.kernel for report in read("racecheck", RACECHECK).reports] == ["gemm", "staged"]


def test_a_run_that_is_cut_short_is_an_error_of_its_product() -> None:
    outcome = read("synccheck", SYNCCHECK)
    assert (outcome.is_done, outcome.number, len(outcome.reports)) == (False, 0, 1)
    outcome.ended(-11)
    assert outcome.reports[-1].what == "one"


def test_another_process_goes_on_after_a_product_that_ends_one(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text(f"#!{sys.executable}\nimport os, sys\nos.execv(sys.executable, sys.argv[-4:])\n")
    program.chmod(0o755)
    products = (
        "import sys\nfor i in range(int(sys.argv[1]), 5):\n"
        "    print(f'product {i} gemm: {i}', flush=True)\n    i == 2 and sys.exit('an illegal address')\n"
        "print('all products are computed')"
    )
    command = lambda first: [sys.executable, "-c", products, str(first)]  # noqa: E731
    outcomes = list(sanitizers.run({"gemm": command}, ["memcheck"], program=str(program)))
    for outcome in outcomes:
        assert outcome.is_done
        assert outcome.products == {"gemm": 5}
        assert [(report.what, report.says) for report in outcome.reports] == [
            ("2", "the process ended with status 1: an illegal address")
        ]
    assert sanitizers.columns(outcomes) == ["no tool", "memcheck"]


def test_without_the_tool_the_message_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizers.shutil, "which", lambda name: None)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    with pytest.raises(BackendUnavailable, match="CUDA toolkit"):
        sanitizers.find_tool()
