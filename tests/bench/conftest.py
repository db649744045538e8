"""`make bench` runs the tests of this folder: the harness samples, pytest-benchmark shows, stores and compares."""

from __future__ import annotations

from harness.compare.pytest_bench import *  # noqa: F403 fixtures and hooks
