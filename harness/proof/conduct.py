"""What one call of `run` must not do beside its product: print, warn, or change the environment.

`harness.run.side_effects` watches the whole process between commands, in which libraries may be imported as well. Here
one call is watched, which imports nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from harness.errors import VerificationError

LONGEST = 60  # characters of what was printed that are quoted


class _Heard:
    """A stream of text that passes on what is written, so that it still stands in the output of a crash."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.text = stream, ""

    def write(self, text: str) -> Any:
        self.text = (self.text + text)[:LONGEST]
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Watch the block, one call of `run`, for what it does beside its product.

    Raises
    ------
    RuntimeWarning, UserWarning
        Where it warns: that would be printed, where no test makes it an error.
    VerificationError
        If it has printed by Python, or changed the environment.
    """
    environment = dict(os.environ)
    heard: Any = _Heard(sys.stdout), _Heard(sys.stderr)
    with warnings.catch_warnings(), contextlib.redirect_stdout(heard[0]), contextlib.redirect_stderr(heard[1]):
        for category in (RuntimeWarning, UserWarning):
            warnings.simplefilter("error", category)
        yield
    printed = heard[0].text + heard[1].text
    if printed:
        raise VerificationError(f"run printed {printed[:LONGEST]!r}")
    changed = {name for name, _ in environment.items() ^ os.environ.items()}
    if changed:
        raise VerificationError(f"run changed the environment ({', '.join(sorted(changed))})")
