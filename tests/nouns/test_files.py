"""What may not be looked at counts as absent, in every place that looks at folders of the user."""

from __future__ import annotations

import errno
import os
import shutil
import site
import sys
from pathlib import Path

import pytest

from backends.cpu.libraries import mkl
from harness.surroundings import is_there
from tests._support.processes import run

TOO_LONG = "/" + "x" * 300
# The rights of root by which it may search every folder: a process of root must give them up for this test.
RIGHTS = "-dac_override,-dac_read_search"
PROGRAM = """
import numpy as np
from harness import gemm
assert (gemm(np.ones((70, 70)), np.ones((70, 70))) == 70).all()
"""


def test_what_is_there_what_is_not_and_what_nobody_may_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_there(tmp_path)
    assert not is_there(tmp_path / "x")
    assert not is_there(Path(TOO_LONG))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    assert not is_there(tmp_path)


def test_a_library_is_looked_for_where_one_may_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", TOO_LONG)
    monkeypatch.setattr(site, "getuserbase", lambda: TOO_LONG)
    assert mkl._library_path.__wrapped__() is None


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root without setpriv may search all")
def test_gemm_in_a_home_that_may_not_be_searched(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0)
    named = ("GEMM_HARNESS_CACHE", "GEMM_HARNESS_TUNED", "XDG_CACHE_HOME", "XDG_DATA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in named} | {"HOME": str(closed)}
    given_up = ["setpriv", f"--bounding-set={RIGHTS}", f"--inh-caps={RIGHTS}"] if os.geteuid() == 0 else []
    assert run(*given_up, sys.executable, "-W", "error", "-c", PROGRAM, env=environment).stderr == ""
