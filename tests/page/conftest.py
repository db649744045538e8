"""The page of the results that git holds: made once for all tests, and for all processes that run them."""

from __future__ import annotations

import fcntl
import os

import pytest

from harness.catalogue import load_all
from harness.cli import options
from harness.page import document
from harness.page.recorded import Recorded

# Processors of the kinds that others are: each has thousands of cells, and takes seconds of every step.
ALIKE = {f"intel-r-xeon-r-processor-family-6-model-{number}-2-cores" for number in (167, 207)}


# Those with fewer cells: a CPU with a ladder and peers, and GPUs.
FEW = (
    "amd-epyc-2-cores",
    "intel-r-xeon-r-processor-family-6-model-207-16-cores-nvidia-h100-80gb-hbm3",
    "intel-r-xeon-r-processor-6-cores-nvidia-h200",
    "intel-r-xeon-r-processor-32-cores-nvidia-h200",
)


@pytest.fixture(scope="session", params=["few", pytest.param("all", marks=pytest.mark.deep)])
def machines(request, stored_results):
    """Return what machines of every kind have recorded, or a few of them; most cells first."""
    slugs = {path.name for path in stored_results.iterdir() if path.is_dir()}
    assert slugs > ALIKE | {*FEW}
    stored = options.recorded(stored_results, None, sorted(FEW if request.param == "few" else slugs - ALIKE))
    found = [Recorded(slug, cells, machine, stored_results / slug) for slug, cells, machine in stored]
    return sorted(found, key=lambda own: -len(own.cells))


@pytest.fixture(scope="session")
def page_file(machines, tmp_path_factory):
    """Return the page of all of them."""
    base = tmp_path_factory.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"page-{len(machines)}.html"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            document.write(machines, load_all(), path)
    return path
