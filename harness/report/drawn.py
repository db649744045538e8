"""Which figures are drawn already, and of which cells: each file carries the fingerprint of its cells."""

from __future__ import annotations

import re
from pathlib import Path

from harness.analysis import answers
from harness.analysis.answers import Shown
from harness.experiment import Figure

# The element of Dublin Core that names a resource, in the metadata of an SVG, which stand at its beginning.
_IDENTIFIER, _METADATA_BYTES = re.compile(rb"<dc:identifier>(\w+)</dc:identifier>"), 1 << 14


def is_drawn(folder: Path, figure: Figure) -> bool:
    """Return whether `folder` has a drawing of `figure`, of whatever cells."""
    return _file(folder, figure).exists()


def is_current(folder: Path, figure: Figure, of: Shown) -> bool:
    """Return whether `folder` has a drawing of `figure` from the very cells that `of` holds.

    One of others, as of another preset or of before the last run, would contradict what is said of these.
    """
    if not is_drawn(folder, figure):
        return False
    with _file(folder, figure).open("rb") as file:
        found = _IDENTIFIER.search(file.read(_METADATA_BYTES))
    return found is not None and found[1].decode() == answers.fingerprint(figure, of)


def _file(folder: Path, figure: Figure) -> Path:
    return folder / f"{figure.name}.svg"
