"""What is asked of NVIDIA's management library, which is not there: a stand-in answers, or does not."""

from __future__ import annotations

import importlib.machinery
import sys
import types

import pytest

from backends.gpu._cuda.nvml import Telemetry

SW_POWER, HW_BRAKE, IDLE = 4, 128, 1


class NVMLError(Exception):
    pass


class Library(types.ModuleType):
    """One GPU at 1755 of 1980 MHz, which draws 698 W now and 650 W in the mean of a second."""

    NVMLError, NVML_SUCCESS, NVML_CLOCK_SM, NVML_FI_DEV_POWER_INSTANT = NVMLError, 0, 1, 186
    nvmlClocksEventReasonSwPowerCap = SW_POWER  # noqa: N815
    nvmlClocksEventReasonHwPowerBrakeSlowdown = HW_BRAKE  # noqa: N815

    def __init__(self, reasons: int = 0, *, status: int = 0, unknown: tuple[str, ...] = ()) -> None:
        super().__init__("pynvml")
        self.__spec__ = importlib.machinery.ModuleSpec("pynvml", None)
        self._reasons, self._status, self._unknown = reasons, status, unknown

    def _answer(self, name: str, value: object) -> object:
        if name in self._unknown:
            raise NVMLError(name)
        return value

    def nvmlInit(self) -> None:  # noqa: N802 as NVML calls them all
        self._answer("init", None)

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> str:  # noqa: N802
        assert bus_id == "0000:01:00.0"
        return "gpu"

    def nvmlDeviceGetMaxClockInfo(self, gpu: str, clock: int) -> object:  # noqa: N802
        return self._answer("max clock", 1980)

    def nvmlDeviceGetClockInfo(self, gpu: str, clock: int) -> object:  # noqa: N802
        return self._answer("clock", 1755)

    def nvmlDeviceGetFieldValues(self, gpu: str, fields: list[int]) -> list[object]:  # noqa: N802
        value = types.SimpleNamespace(uiVal=698_040)
        return [types.SimpleNamespace(nvmlReturn=self._status, value=value) for _ in fields]

    def nvmlDeviceGetPowerUsage(self, gpu: str) -> object:  # noqa: N802
        return self._answer("mean power", 650_000)

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: str) -> object:  # noqa: N802
        return self._answer("energy", 1_234_500)

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: str) -> object:  # noqa: N802
        return self._answer("reasons", self._reasons)


@pytest.fixture
def telemetry(monkeypatch):
    def open_with(library: Library) -> Telemetry:
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return Telemetry("0000:01:00.0")

    return open_with


def test_clock_and_power_are_read(telemetry):
    told = telemetry(Library())
    assert told.nominal_mhz == 1980
    assert told.read() == {"mhz": 1755, "watts": 698.0, "power_capped": 0}


def test_energy_is_counted_in_joules_where_it_is_counted(telemetry):
    assert telemetry(Library()).joules() == 1234.5
    assert telemetry(Library(unknown=("energy",))).joules() is None


@pytest.mark.parametrize(("reasons", "capped"), [(IDLE, 0), (SW_POWER, 1), (HW_BRAKE | IDLE, 1)])
def test_power_is_told_from_other_reasons_of_a_low_clock(telemetry, reasons, capped):
    assert telemetry(Library(reasons)).read()["power_capped"] == capped


def test_a_gpu_that_knows_only_its_mean_power_says_that(telemetry):
    assert telemetry(Library(status=3)).read()["watts"] == 650.0


def test_what_a_gpu_does_not_tell_is_left_out(telemetry):
    assert telemetry(Library(unknown=("clock", "reasons"))).read() == {"watts": 698.0}
    assert telemetry(Library(status=3, unknown=("mean power", "max clock"))).nominal_mhz == 0
    assert "watts" not in telemetry(Library(status=3, unknown=("mean power",))).read()


def test_a_library_that_is_too_old_to_be_asked_is_not(telemetry, monkeypatch):
    monkeypatch.delattr(Library, "nvmlClocksEventReasonSwPowerCap")
    assert telemetry(Library()).read() == {"mhz": 1755, "watts": 698.0}


def test_without_the_library_or_its_driver_nothing_is_told(telemetry, monkeypatch):
    silent = telemetry(Library(unknown=("init",)))
    assert (silent.nominal_mhz, silent.read()) == (0, {})
    monkeypatch.delitem(sys.modules, "pynvml")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert Telemetry("0000:01:00.0").read() == {}
