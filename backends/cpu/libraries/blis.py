"""D = alpha A B + beta C by BLIS, from the wheel ``blis``.

The wheel's Python interface takes C-ordered matrices without gaps; its transposed form has wrong sizes for float64. Any
other layout is copied, and the copy is timed. The wheel is built without threads and always uses one. It knows no AMD
processor later than Zen 2, and no Intel one whose name a virtual machine hides: there it takes its reference kernels
("generic"), or those of AVX2 ("haswell").

So BLIS is compared twice: as installed, and told which processor this is. Later versions read the variable
BLIS_ARCH_TYPE. This one does not, so it is read here, and the kernels of that name are handed to BLIS's expert
interface, which takes any strides. Of complex numbers both go through that interface, since the Python one has none.

Source: Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality" (2015); BLIS,
docs/BLISTypedAPI.md, section "Expert interface", and frame/base/bli_gks.c.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from backends.cpu.libraries._blas import BlasExecution, BlasPeer
from backends.cpu.libraries._cblas import ROUTINES, factor
from backends.cpu.libraries._kernel_family import of_blis
from harness.dtypes import is_complex
from harness.errors import BackendUnavailable
from harness.interface import Execution
from harness.machine import Machine
from harness.operands import Operands, data_address
from harness.plan import Plan
from harness.problem import Problem

VARIABLE = "BLIS_ARCH_TYPE"
# Names of BLIS for kernels on x86-64, the widest vectors first, by the extensions that they use.
SUB_CONFIGURATIONS = {"skx": {"avx512f", "avx512bw", "avx512vl"}, "haswell": {"avx2", "fma"}}
LAST = "generic"  # of the names that a build of BLIS lists
_AS_IT_IS = 0


class Blis(BlasPeer):
    """The five loops around a micro-kernel that the packed rungs follow, in the original implementation."""

    name = "cpu-blis"
    step = 80
    idea = "BLIS: the same five loops around a hand-written micro-kernel, one thread"
    source = "Van Zee and van de Geijn 2015, BLIS; wheel blis"
    module, project = "blis", "BLIS"

    def configurations(self, machine: Machine) -> Mapping[str, Mapping[str, str]]:
        """Return it as installed, and with the widest kernels that `machine` can run, if they are of x86-64."""
        name = next((name for name, needed in SUB_CONFIGURATIONS.items() if needed <= set(machine.simd)), None)
        return {"": {}} if name is None else {"": {}, name: {VARIABLE: name}}

    def kernels(self) -> str:
        """Return the sub-configuration that BLIS took for this processor, or was told."""
        return _told() or of_blis(_path())

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan for the one thread that the wheel uses."""
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load BLIS and bind its routine to the operands."""
        told = _told()
        if told or is_complex(plan.problem.dtype):
            context = _context(told) if told else None
            return BlasExecution(plan, operands, _has_whole_steps, functools.partial(bind_with, context))
        return BlasExecution(plan, operands, _is_c_ordered, bind)


def bind(alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray) -> Callable[[], object]:
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix is C-ordered."""
    from blis.py import gemm

    return functools.partial(gemm, a, b, out=out, alpha=float(alpha), beta=float(beta))


def bind_with(
    context: int | None, alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray
) -> Callable[[], object]:
    """Return the same by the kernels of a `_context`, or those of BLIS's choice, for any strides in whole elements."""
    routine = _routines()[out.dtype.name]
    (m, n), k = out.shape, a.shape[1]
    factors = factor(alpha, out.dtype), factor(beta, out.dtype)
    places = [(data_address(x), *(step // x.itemsize for step in x.strides)) for x in (a, b, out)]
    by_reference = [ctypes.byref(one) for one in factors]  # they keep what they point to
    of_a, of_b, of_out = places
    return functools.partial(
        routine,
        *(_AS_IT_IS, _AS_IT_IS, m, n, k),
        *(by_reference[0], *of_a, *of_b, by_reference[1], *of_out),
        *(context, None),
    )


def _told() -> str:
    """Return the kernels that this process is told to take, or an empty string."""
    return os.environ.get(VARIABLE, "")


def _path() -> str:
    return str(importlib.import_module("blis.py").__file__)


@functools.cache
def _load() -> ctypes.CDLL:
    """Load BLIS, once per process."""
    library = ctypes.CDLL(_path())
    library.bli_arch_string.restype = ctypes.c_char_p
    library.bli_gks_lookup_nat_cntx.restype = ctypes.c_void_p
    library.bli_init()
    return library


@functools.cache
def _routines() -> dict[str, Any]:
    """Return its products by dtype."""
    size, pointer = ctypes.c_int64, ctypes.c_void_p
    matrix = [pointer, size, size]
    arguments = [ctypes.c_int, ctypes.c_int, size, size, size, pointer, *matrix, *matrix, pointer, *matrix]
    found = {}
    for dtype, letter in ROUTINES:
        routine = getattr(_load(), f"bli_{letter}gemm_ex")
        routine.argtypes, routine.restype = [*arguments, pointer, pointer], None
        found[dtype] = routine
    return found


@functools.cache
def _context(name: str) -> int:
    """Return the address of BLIS's context of the sub-configuration called `name`: its kernels and block sizes.

    Raises
    ------
    BackendUnavailable
        If this build has none of that name.
    """
    known = dict[str, int]()
    while LAST not in known:
        known[_load().bli_arch_string(len(known)).decode()] = len(known)
    context = _load().bli_gks_lookup_nat_cntx(known[name]) if name in known else None
    if not context:
        raise BackendUnavailable(
            f"BLIS has no kernels called {name!r}", expected=", ".join(known), got=f"{VARIABLE}={name}"
        )
    return int(context)


def _is_c_ordered(x: np.ndarray) -> bool:
    return x.flags.c_contiguous


def _has_whole_steps(x: np.ndarray) -> bool:
    return all(step > 0 and step % x.itemsize == 0 for step in x.strides)
