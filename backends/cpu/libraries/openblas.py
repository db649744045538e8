"""D = alpha A B + beta C by OpenBLAS, from the wheel ``scipy-openblas32``, called through CBLAS by ctypes.

NumPy and SciPy bring OpenBLAS too, in other versions. This wheel is here to be compared twice: as installed, where
OpenBLAS chooses kernels by what it knows of processors, and told which processor this is. One that it does not know may
get kernels of half its vector width. So a Zen 5 was taken for an older processor, since its family was missing from the
detection (OpenBLAS issue 6029, mended by pull request 6033, September 2026).

The variable OPENBLAS_CORETYPE is read when the library is loaded. So the second configuration needs a process with that
environment, which `configurations` asks for.

Source: OpenBLAS, README, section "Support for multiple targets in a single library"; driver/others/dynamic.c.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.cpu.libraries import _cblas
from backends.cpu.libraries._blas import BlasExecution, BlasPeer
from backends.cpu.libraries._kernel_family import of_openblas
from harness.interface import Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan

VARIABLE = "OPENBLAS_CORETYPE"
# Names of OpenBLAS for processors on x86-64, the widest vectors first, by the extensions that their kernels use.
CORE_TYPES = {"SkylakeX": {"avx512f", "avx512bw", "avx512vl"}, "Haswell": {"avx2", "fma"}}


class OpenBlas(BlasPeer):
    """OpenBLAS itself, as installed and told which processor it runs on."""

    name = "cpu-openblas"
    step = 88
    idea = "OpenBLAS: hand-written kernels for each processor; as installed, and told which processor this is"
    source = "OpenBLAS, interface/gemm.c; Goto and van de Geijn (2008); wheel scipy-openblas32"
    module, package, project = "scipy_openblas32", "scipy-openblas32", "OpenBLAS"

    def configurations(self, machine: Machine) -> Mapping[str, Mapping[str, str]]:
        """Return it as installed, and with the widest kernels that `machine` can run, if they are of x86-64."""
        core = next((name for name, needed in CORE_TYPES.items() if needed <= set(machine.simd)), None)
        return {"": {}} if core is None else {"": {}, core: {VARIABLE: core}}

    def kernels(self) -> str:
        """Return the processor that OpenBLAS took this one for."""
        return of_openblas(self.module)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load OpenBLAS and bind its routine to the operands."""
        library = load()
        library.scipy_openblas_set_num_threads(plan.threads)
        bind = functools.partial(_cblas.bind, routines())
        return BlasExecution(plan, operands, _cblas.has_contiguous_lines, bind)


@functools.cache
def load() -> ctypes.CDLL:
    """Load OpenBLAS, once per process."""
    wheel = importlib.import_module(OpenBlas.module)
    return ctypes.CDLL(str(Path(wheel.get_lib_dir()) / wheel.get_library(fullname=True)))


@functools.cache
def routines() -> dict[str, Any]:
    """Return its products by dtype."""
    declare = functools.partial(_cblas.declare, load())
    return {name: declare(f"scipy_cblas_{letter}gemm", name) for name, letter in _cblas.ROUTINES}
