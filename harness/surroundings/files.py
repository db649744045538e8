"""Files that may not be looked at count as absent: folders of the user's home, which may be closed to this process."""

from __future__ import annotations

from pathlib import Path


def is_there(path: Path) -> bool:
    """Return whether there is a file or folder that this process may look at.

    `Path.exists` raises where a folder on the way may not be searched, or a name is too long.
    """
    try:
        path.stat()
    except OSError:
        return False
    return True
