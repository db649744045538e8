"""Readings of NVIDIA's management library while a GPU works: its clock, its power, and whether power limits it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any


class Telemetry:
    """Reader of one GPU. Readings that library or GPU lack are left out; without the library, all are.

    Parameters
    ----------
    bus_id : str
        Of the GPU on PCI, as CUDA and NVML both name it.

    Attributes
    ----------
    nominal_mhz : float
        Highest clock of the multiprocessors [MHz]; 0: not known.
    """

    def __init__(self, bus_id: str) -> None:
        self._nvml, self._handle = _open(bus_id)
        self.nominal_mhz = self._told(lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)) or 0.0

    def read(self) -> dict[str, float]:
        """Return ``mhz``, the clock of the multiprocessors, ``watts``, and ``power_capped``: 1 if power lowers clocks.

        The library refreshes its readings some times a second: shorter samples share one reading.
        """
        readings = {"mhz": self._told(_clock), "watts": self._told(_power), "power_capped": self._told(_is_capped)}
        return {name: value for name, value in readings.items() if value is not None}

    def joules(self) -> float | None:
        """Return the energy that the GPU has taken since the driver was loaded [J]; None where that is not counted."""
        return self._told(lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3)

    def _told(self, ask: Callable[[Any, Any], float]) -> float | None:
        """Return the library's answer; None: it has none for this GPU, or lacks the function."""
        if self._nvml is None:
            return None
        try:
            return float(ask(self._nvml, self._handle))
        except (self._nvml.NVMLError, AttributeError):
            return None


def _clock(nvml: Any, gpu: Any) -> float:
    return float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))


def _power(nvml: Any, gpu: Any) -> float:
    """Return the power drawn now [W], or the mean over a second on GPUs that only report that."""
    (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_POWER_INSTANT])
    milliwatts = field.value.uiVal if field.nvmlReturn == nvml.NVML_SUCCESS else nvml.nvmlDeviceGetPowerUsage(gpu)
    return round(milliwatts / 1e3, 1)


def _is_capped(nvml: Any, gpu: Any) -> float:
    power = nvml.nvmlClocksEventReasonSwPowerCap | nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
    return float(bool(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu) & power))


def _open(bus_id: str) -> tuple[Any, Any]:
    """Return the library and its handle of a GPU, or None twice if it is not installed."""
    if importlib.util.find_spec("pynvml") is None:
        return None, None
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
    except pynvml.NVMLError:
        return None, None
