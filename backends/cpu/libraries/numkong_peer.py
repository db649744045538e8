"""Products of narrow operands, and of bits, by NumKong (once SimSIMD), from the wheel ``numkong``.

NumKong multiplies the rows of A with those of a packed matrix: A B is ``dots_packed(A, pack(B^T))``. Both steps depend
on values, so both are timed. Sums are wide: float32 for float16, int32 for int8. bfloat16 is declined: on processors
with its instructions, version 7.8 gives NaN and wrong numbers beside infinities. Over bits it counts the terms that are
one, and any, or an odd number, is found from that. It has no threads of its own: rows of A are shared among Python
threads, which its documentation recommends, since it releases the interpreter's lock.

Source: Vardanian, NumKong, python/README.md, "Packed Matrix Kernels for GEMM-Like Workloads".
"""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from backends.cpu.libraries._blas import absent
from harness.dtypes import is_bool, is_float8
from harness.interface import Backend, Execution, HostExecution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

PACKED = "uint1"  # eight to a byte, the first highest
OF_COUNTS = {"lor_land": lambda counts: counts > 0, "lxor_land": lambda counts: counts & 1}
# Of the vector extensions that it has found, the one whose kernels it takes comes last.
FAMILIES = ("serial", "haswell", "skylake", "icelake", "genoa", "turin", "sapphire", "sapphireamx", "graniteamx")


class NumKong(Backend):
    """Another project's kernels for narrow operands."""

    name = "cpu-numkong"
    step = 82
    idea = "NumKong: dot products of packed rows, for narrow operands and bits, in AVX-512 and AMX"
    source = "Vardanian, NumKong (SimSIMD); wheel numkong"
    project = "NumKong"
    is_optional = True
    takes = frozenset({"mixed"})

    def missing(self) -> str | None:
        """Return that the wheel is not installed, or None."""
        return absent("numkong")

    def declines(self, problem: Problem) -> str | None:
        """Return why NumKong does not compute `problem`, or None."""
        is_of_bits = problem.semiring.is_named and problem.semiring.name in OF_COUNTS and is_bool(problem.dtype)
        if not problem.is_mixed and not is_of_bits:
            return "NumKong is compared where operands are narrower than sums, and over bits"
        if problem.is_mixed and problem.input_dtype.name == "bfloat16":
            return "NumKong 7.8 gives wrong numbers beside infinities over bfloat16"
        narrow = problem.input_dtype
        if problem.is_mixed and (is_float8(narrow) or narrow.name in ("uint8", "complex64")):
            return "of its narrow products those of int8 and float16 are compared with NumKong's"
        if problem.alpha is not None or problem.accumulate or min(problem.m, problem.n, problem.k) == 0:
            return "NumKong's products are taken plain: no alpha, no C, no empty size"
        return None

    def kernels(self) -> str:
        """Return the latest processor whose kernels it may take."""
        import numkong

        able = numkong.get_capabilities()
        return next((name for name in reversed(FAMILIES) if able.get(name)), "")

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks: the library chooses its own."""
        return Plan(problem, machine.threads)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load NumKong and start the threads."""
        return _Execution(plan, operands)


class _Execution(HostExecution):
    """A product into a tensor of NumKong's, which is written to the output when that is asked for."""

    def __init__(self, plan: Plan, operands: Operands) -> None:
        import numkong

        super().__init__(operands)
        self._library, self._problem = numkong, plan.problem
        self._dtype = PACKED if is_bool(plan.problem.dtype) else plan.problem.input_dtype.name
        self._product: Any = None
        threads = min(plan.threads, plan.problem.m)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        ends = [plan.problem.m * i // threads for i in range(threads + 1)]
        self._rows = list(itertools.pairwise(ends))

    def run(self) -> None:
        """Compute once."""
        a = self._readable(self.operands.a)
        packed = self._library.dots_pack(self._readable(self.operands.b.T), dtype=self._dtype)
        multiply = functools.partial(self._library.dots_packed, a, packed)
        if self._product is None:
            self._product = multiply()
        elif self._pool is None:
            multiply(out=self._product)
        else:
            shares = [self._pool.submit(multiply, out=self._product, start_row=i, end_row=j) for i, j in self._rows]
            for share in shares:
                share.result()

    def result(self) -> np.ndarray:
        """Return D, the output array itself."""
        values = np.asarray(self._product)
        if self._dtype == PACKED:
            values = OF_COUNTS[self._problem.semiring.name](values)
        self.operands.out[...] = values
        return self.operands.out

    def _readable(self, x: np.ndarray) -> Any:
        """Return `x` in rows without gaps, which may be a copy: of others a tensor may read wrong values."""
        rows = np.ascontiguousarray(np.packbits(x, axis=1) if self._dtype == PACKED else x)
        if self._dtype == PACKED:
            return self._library.Tensor(rows, dtype=PACKED)
        return rows
