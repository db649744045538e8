"""Files that MPICH makes for a job, removed as soon as every rank has opened them.

MPICH removes the memory that its ranks share, ``/dev/shm/mpich_shm_*``, when it finalises, and what its launcher writes
about the machine, ``/tmp/hydra_hwloc_xmlfile_*``, when the job ends well. A job that is killed, or ends by MPI_Abort,
leaves both until the machine is started anew. Without a name they go with the last process that uses them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

_SEGMENT = "/dev/shm/mpich_shm_"  # noqa: S108 not ours: the library's
_DESCRIPTION = "/tmp/hydra_hwloc_xmlfile_"  # noqa: S108 likewise


@functools.cache
def forget_names() -> None:
    """Remove the names of these files of this job; other libraries and systems have none.

    Call it when MPI is initialised: then every rank of this host has opened them, since MPI_Init waits for that.
    """
    with contextlib.suppress(OSError):
        for name in _opened():
            Path(name).unlink(missing_ok=True)


def _opened() -> Iterator[str]:
    """Yield the segments that this process has mapped, and the description that its launcher holds open."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if _SEGMENT in line and not line.endswith("(deleted)"):
            yield line.split()[-1]
    for descriptor in Path(f"/proc/{os.getppid()}/fd").iterdir():
        with contextlib.suppress(OSError):
            name = str(descriptor.readlink())
            if name.startswith(_DESCRIPTION) and not name.endswith("(deleted)"):
                yield name
