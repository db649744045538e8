"""Files of a user: those that may not be looked at count as absent, and an old text stays until a new one is whole."""

from __future__ import annotations

import tempfile
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


def write_whole(path: Path, content: str | bytes) -> None:
    """Write bytes or a text (UTF-8) to a file, which keeps what it held until all is written.

    So a full disk leaves the old one.

    Raises
    ------
    OSError
        If it cannot be written; the error names `path`.
    """
    path = path.resolve()  # of a link, what it leads to
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as part:
        aside = Path(part.name)
        try:
            part.write(content.encode() if isinstance(content, str) else content)
            part.close()
            aside.chmod(mode)
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(path)) from error
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
