"""The clock of a core, as the system tells it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")


class CoreFrequency:
    """Reads how fast the core runs that this thread is on. A virtual machine seldom tells, a real one under Linux does.

    ``/proc/cpuinfo`` is no substitute: it lists all cores, which takes milliseconds where there are many, and on a
    virtual machine its figure is a constant.

    Parameters
    ----------
    cpus : Path
        Where the system describes its cores.
    which : callable, optional
        Returns the number of the core that this thread is on.
    """

    def __init__(self, cpus: Path = _CPUS, which: Callable[[], int] | None = None) -> None:
        self._cpus, self._files = cpus, dict[int, int]()
        self._which = which or _getcpu()
        self._is_told = self._which is not None and self._path(0).exists()

    def mhz(self) -> float:
        """Return the frequency [MHz], or 0 if the system does not tell."""
        if not self._is_told or self._which is None:
            return 0.0
        core = self._which()
        try:
            if core not in self._files:  # opened once: to open it costs more than to read it
                self._files[core] = os.open(self._path(core), os.O_RDONLY)
            return round(int(os.pread(self._files[core], 32, 0)) / 1000)
        except (OSError, ValueError):  # a core that is off, a driver that has no answer
            return 0.0

    def __del__(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                os.close(file)

    def _path(self, core: int) -> Path:
        return self._cpus / f"cpu{core}" / "cpufreq" / "scaling_cur_freq"


def _getcpu() -> Callable[[], int] | None:
    """Return the function that tells which core this thread is on; only Linux has it."""
    with contextlib.suppress(OSError, AttributeError):
        getcpu: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
        return getcpu
    return None
