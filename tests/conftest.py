"""What every test may use: one seeded generator, one laid-out view of each kind, one profile for Hypothesis."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest

# Kernels compile inside a test, so no deadline; derandomised, so that a failure is everybody's failure.
hypothesis.settings.register_profile(
    "harness",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("harness")


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator that gives every test the same numbers."""
    return np.random.default_rng(7)
