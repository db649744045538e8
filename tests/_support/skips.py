"""Skipped tests, held to a list: a test that no environment of continuous integration runs must say where it runs.

With ``CI`` in the environment a test that is skipped for any other reason fails the session.
"""

from __future__ import annotations

import os
import re

import pytest

# What continuous integration lacks, by the reason that a skipped test gives, and where those tests ran last.
LAST_RAN = {
    r"CuPy is not installed|no CUDA device": "2026-11-29, NVIDIA H200, CuPy 14.2: `harness check --fuzz 350 --gpu "
    "--processes 8`, `pytest -m gpu`; earlier that day `harness check --sanitize`",
    r"no tdp\w+, or the system refuses tiles": "2026-11-22, a Xeon with AMX, beside that GPU: tests/cpu/test_amx.py",
    r"mpi4py is not installed|no mpiexec": "2026-11-22, Intel Xeon, 2 cores, mpi4py 4.1.2 and MPICH 5.0.2",
    r"package torch is not installed": "2026-11-22, the same machine, PyTorch 2.11: tests/cpu/test_peers.py",
    r"could not import '(torch|jax(\.numpy)?|cupy)'": "2026-11-23, H200, PyTorch 2.11, JAX 0.11: tests/api, torch",
    r"could not import 'graphblas'": "2026-11-22, Intel Xeon, 2 cores, python-graphblas 2025.2: tests/experiments",
    r"could not import '(networkx|rustworkx)'": "2026-11-28, Intel Xeon, 2 cores, NetworkX 3.6 and rustworkx 0.18: "
    "tests/experiments/test_graphs.py",
    r"could not import 'polars'|interpreter has no GIL|in a subinterpreter": "on every interpreter with the GIL",
    r"package mkl is not installed": "2026-11-22, Intel Xeon, 2 cores, MKL 2026.2: tests/cpu/test_peers.py",
    r"nvdisasm is not installed": "2026-11-28, Intel Xeon, 2 cores, nvdisasm 13.5: tests/gpu/test_chips.py",
    r"busybox is not installed": "2026-11-28, Intel Xeon, 2 cores, its tools by Debian: tests/test_make_elsewhere.py",
    r"Chromium is not installed": "2026-11-23, AMD EPYC, Chromium 156: tests/page/test_in_browser.py",
    r"masks no loads|multiplies and adds is certain": "on every x86 processor since 2013",
    r"this processor has no (avx512_bf16|vnni)|this processor has tiles": "on the processors that have, or lack, them",
}


def is_listed(reason: str) -> bool:
    """Return whether `reason` is one of those for which continuous integration may skip a test."""
    return any(re.search(pattern, reason) for pattern in LAST_RAN)


_unlisted: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not is_listed(reason):
            _unlisted.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _unlisted and "CI" in os.environ and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _unlisted and "CI" in os.environ:
        terminalreporter.section("skipped, and not listed in tests/_support/skips.py: an error here", red=True)
        for line in _unlisted:
            terminalreporter.line(line)
