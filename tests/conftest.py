"""What every test may use: one seeded generator, one laid-out view of each kind, one profile for Hypothesis."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from tests._support import tracked

pytest_plugins = ["tests._support.skips", "tests._support.deep"]

# Kernels are kept beside the checkout: the processes of a run share them and the next run finds them, while the user's
# own stay out of it. Source and versions are part of what they are kept under, so no test can meet an old one.
os.environ.setdefault("GEMM_HARNESS_CACHE", str(Path(__file__).resolve().parents[1] / "build" / "kernels"))

# What a user has tuned must decide no test.
os.environ["GEMM_HARNESS_TUNED"] = ""

# Nor must what a user has measured, drawn and reported in this clone.
tracked.refuse_others()

# What is started in the background of a shell ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Kernels compile inside a test, so no deadline; derandomised, so that a failure is everybody's failure.
hypothesis.settings.register_profile(
    "harness",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("harness")


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: what is made then is kept."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave thousands of tests out of each later search for garbage, and let compiling a kernel start fewer of them."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    gc.enable()


@pytest.fixture(autouse=True)
def _no_call_is_remembered() -> None:
    """What one test has computed shortens no call of another, which may watch what a call does."""
    from harness.api.remembered import staged  # after the environment is set

    staged.forget()


@pytest.fixture(scope="session")
def stored_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of results as `harness.store.places.PUBLISHED`, with those that git holds and no others."""
    folder = tmp_path_factory.mktemp("stored")
    tracked.link_results(folder)
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator that gives every test the same numbers."""
    return np.random.default_rng(7)
