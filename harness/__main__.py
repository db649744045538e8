"""``python -m harness``: the same as the command ``gemm-harness``."""

import sys
from pathlib import Path

from harness.cli import main
from harness.cli.options import complain
from harness.errors import HarnessError


def _put_current_folder_last() -> None:
    """-m puts the current folder first, where packages of the user would hide `backends` and `experiments`."""
    here = Path(sys.path[0])
    if sys.flags.safe_path or here.resolve() == Path(__file__).resolve().parents[1]:
        return
    sys.path.append(sys.path.pop(0))
    if (own := here / "backends").is_dir():
        fix = "announce backends of your own by an entry point of the group gemm_harness.backends"
        complain(HarnessError(f"{own} is another folder than that of the harness, and is not searched", fix=fix))


if __name__ == "__main__":
    _put_current_folder_last()
    main()
