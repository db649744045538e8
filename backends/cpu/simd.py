"""Five loops around a micro-kernel that is generated as vector code, for every semiring, dtype and vector unit.

The steps of one product, with the module that does each:

    problem -> plan   `Simd.plan`            vector unit, register tile, blocks by the caches
    operands          `_simd.product`   transposed if that suits C; fast or careful form by the values
    nest              `_simd.settings`      the loops below; of a vector, few terms or a symmetric A, loops that stream
    arguments         `_simd.argument_table`      parts of C, which the threads take; a row of a table for each part
    loop 5            `_simd.loops`     jc over n by nc: row-panel of B
    loop 4                                   pc over k by kc: the first block of k stores C, later ones combine with it
    loop 3                                   ic over m by mc: block of A in L2, in place
        gather        `_simd.packing`       or copied, if its rows would share cache sets
    loop 2            `_simd.macro_kernel`   jp over the micro-panels of B, about nr columns each
        pack          `_simd.packing`       just before its first use; the next one is prefetched meanwhile
    loop 1                                   ip over the strips of A, about mr rows each: micro-tile of C in registers
    micro-kernel      `_simd.kernel`    p over k_cur: C[i, j] := C[i, j] (+) A[i, p] (x) B[p, j]
        (+), (x)      `_vector.operators`        one step of k in the semiring
        instructions  `_vector.code`             loads, stores, masks and broadcasts of the vector unit

The tile is 8 x 3 vectors of 32 registers, 6 x 2 of 16; ``python -m harness kernel cpu-simd`` prints its loop. Edges are
masked vectors and tiles of fewer rows, split evenly. C is never filled, and not read unless the product accumulates.

Where the one instruction of (x) is not right for every value, a scan of A and B decides between fast and careful form.
Two kinds of product become another: bool becomes words of bits (`_simd.bits`), logaddexp_plus a real product of
exponentials (`_log_sum.product`).

Source: Goto and van de Geijn (2008); Van Zee and van de Geijn, "BLIS" (2015). Even split of edges and A in place are
this project's, measured in docs/simd.md.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numba
import numpy as np

from backends.cpu._batch.argk import prepare_argk
from backends.cpu._batch.forms import computed, prepare_form
from backends.cpu._batch.product import run_of_batch
from backends.cpu._batch.shortcut import plain_batches
from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._paths.bits import WordClosure
from backends.cpu._paths.block import build_close_block, build_mirror
from backends.cpu._paths.closure import HostClosure, Tables
from backends.cpu._paths.halves import Halves, Square
from backends.cpu._paths.trees import TreeSteps
from backends.cpu._sequences.run import prepare_steps
from backends.cpu._simd.argument_table import Loops, Run, Shape
from backends.cpu._simd.bits import WORD, WORD_BITS
from backends.cpu._simd.block_tracker import BLOCK
from backends.cpu._simd.numpy_object import has_known_layout
from backends.cpu._simd.product import prepare_generated, run_of_one, with_swapped_operands
from backends.cpu._simd.settings import Settings
from backends.cpu._simd.small_products import plain_products
from backends.cpu._simd.tile_listing import list_tile
from backends.cpu._simd.whole_products import whole_products
from backends.cpu._vector.operators import Guard, guard, operations
from backends.cpu._vector.unit import check_tile, find_unit, usable_units
from harness.dtypes import dtype_name, is_bool, is_complex
from harness.errors import PlanError
from harness.interface import Backend, Closure, Execution, HostExecution, Nest, Shortcut, Steps
from harness.machine import Machine, detect
from harness.operands import Operands
from harness.plan import Blocking, Plan
from harness.problem import Problem
from harness.scalars import as_count
from harness.semiring import SEMIRINGS, Semiring
from harness.tuning import argk as tuning_argk
from harness.tuning import batches as tuning_batches
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts
from harness.tuning.cpu import cache_sizes
from harness.tuning.paths import PATHS_LEAF

PACKING = ("auto", "always")
_OF_BYTES = {"lor_land": "max_min"}  # the same product over bools stored as bytes
_LEAST = {"in_place_up_to": 0, "bad_stride_a": 1, "bad_stride_b": 1, "near_b_bytes": 0}


class Simd(Backend):
    """Packed loops, generated vector micro-kernel."""

    name = "cpu-simd"
    step = 50
    idea = "the micro-kernel is generated as vector code, as wide and as high as the registers allow, and prefetches"
    source = "Van Zee and van de Geijn, BLIS (2015), section 4; Goto and van de Geijn (2008)"
    calls_libraries = False
    rereads_operands = True
    accumulates_in_place = True
    takes = frozenset({"complex", "conjugate", "triangle", "batch"})

    def missing(self) -> str | None:
        """Return why generated code cannot run."""
        return "NUMBA_DISABLE_JIT is set: generated code has no Python form" if numba.config.DISABLE_JIT else None

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` has no generated kernel."""
        is_symmetric, of_bools = problem.triangle in ("a", "h"), is_bool(problem.dtype)
        what = f"{problem.semiring.name} over {dtype_name(problem.dtype)}"
        reasons = {
            "a symmetric A by a matrix: it packs no mirrored A": is_symmetric and problem.n != 1,
            "a symmetric A beside conjugates": is_symmetric and problem.conjugate,
            "it multiplies A by alpha, and by one that is not real A would be Hermitian no more": (
                problem.triangle == "h" and problem.alpha is not None and problem.alpha.imag
            ),
            f"{what} is computed by whole matrices": problem.triangle and (of_bools or problem.semiring.is_log_sum),
            "batches of triangles and of bools are computed one by one": problem.batch
            and (problem.triangle or of_bools),
            f"no vector code for {what}": operations(computed(problem.semiring), problem.dtype) is None,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def loops(self, plan: Plan) -> Nest:
        """Return the five loops and the micro-kernel; packing is not among them."""
        assert plan.blocking is not None
        mc, nc, kc, mr, nr = dataclasses.astuple(plan.blocking)
        caches, registers = (("j", nc), ("p", kc), ("i", mc)), (("j", nr), ("i", mr), ("p", 1, "registers"))
        return Nest.of(*caches, *registers)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the widest unit, its register tile, and the blocks by the caches; all in elements, also for bits."""
        unit, (word, bits) = usable_units()[0], _word(problem)
        lanes = unit.lanes(word) * bits
        numbers = tuning_simd.simd_numbers(problem, machine, unit.name)
        mr, nr = numbers.mr or unit.rows_of(word), (numbers.nv or unit.nv) * lanes
        blocking = tuning_simd.simd_blocking(problem, machine, mr, nr, numbers)
        options: dict[str, int | str] = {
            "unit": unit.name,
            "pack_a": "auto",
            "pack_b": "auto",
            "in_place_up_to": numbers.in_place_up_to,
            "bad_stride_a": numbers.bad_stride_a,
            "bad_stride_b": numbers.bad_stride_b,
            "near_b_bytes": numbers.near_b_bytes,
        }
        threads = machine.threads  # `_batch.table` shares a batch out
        if not problem.batch:
            threads = tuning_parts.simd_threads(problem, threads, numbers.pairs_per_thread)
        return Plan(problem, threads, blocking, options)

    def shortcut(self, semiring: Semiring, dtype: np.dtype[Any], machine: Machine) -> Shortcut | None:
        """Return one compiled call: it reads small A and B in place, and looks up what is ready for larger ones."""
        return self._shortcut(semiring, dtype, machine, adds=False)

    def whole_shortcut(self, problem: Problem, machine: Machine) -> Shortcut | None:
        """Return the same with alpha and C."""
        product = self._shared_shortcut(problem.semiring, problem.dtype, machine.threads, adds=problem.accumulate)
        return None if product is None else whole_products(problem, product)

    @functools.cache  # noqa: B019 of all scalars, whose products have the same tables
    def _shared_shortcut(
        self, semiring: Semiring, dtype: np.dtype[Any], threads: int, *, adds: bool
    ) -> Shortcut | None:
        return self._shortcut(semiring, dtype, detect().with_threads(threads), adds=adds)

    def _shortcut(self, semiring: Semiring, dtype: np.dtype[Any], machine: Machine, *, adds: bool) -> Shortcut | None:
        ops, unit = operations(semiring, dtype), usable_units()[0]
        is_simple = ops is not None and not is_bool(dtype) and guard(semiring, dtype) is Guard.NONE
        if not is_simple or not unit.masks(dtype) or not has_known_layout():
            return None
        swapped = operations(with_swapped_operands(semiring), dtype)
        assert ops is not None
        assert swapped is not None

        one = Problem(1, 1, 1, semiring, dtype, accumulate=adds)
        numbers, size = tuning_simd.simd_numbers(one, machine, unit.name), dtype.itemsize
        # of one element, from which others' differ by blocks and threads alone
        settings = settings_of(self.plan(one, machine.with_threads(1)))
        tile, keys, l2 = settings.blocking, [settings.key(x, dtype) for x in (ops, swapped)], cache_sizes(machine)[1]

        def loops_of(shape: Shape, is_swapped: bool, most: int = machine.threads) -> Loops:
            m, n, k = shape[:3]
            sizes = (n, m, k) if is_swapped else (m, n, k)
            threads = tuning_parts.threads_that_pay(sizes, size, m * n * k, most, numbers.pairs_per_thread)
            blocking = tuning_simd.blocks_around(tile, sizes, size, threads, l2, numbers)
            those = settings.changed(blocking=blocking, threads=threads)
            return (those.transposed() if is_swapped else those).loops_by(keys[is_swapped], shape)

        def loops_of_batch(shape: Shape, threads: int) -> Loops:
            return loops_of(shape, False, threads)

        largest = min(numbers.in_place_up_to, tuning_simd.largest_at_once(machine.threads))
        batches = plain_batches(dtype, loops_of_batch, machine.threads, adds=adds)
        return plain_products(keys[0], largest, loops_of, batches, adds=adds)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel, and settle addresses, strides and scratch of every part."""
        problem, settings = plan.problem, settings_of(plan)
        a, b, out = operands.a, operands.b, operands.out
        has_work = problem.pairs > 0
        prepared: dict[int, Run] = {}

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            if id(a) not in prepared:  # A times alpha is an array of the execution, the same in every run
                prepared[id(a)] = prepare_form(problem, settings, a, b, out, accumulate)
            prepared[id(a)]()

        if has_work:
            prepared[id(a)] = prepare_form(problem, settings, a, b, out, problem.accumulate)
        if has_work and problem.alpha is None and not problem.accumulate:
            return HostExecution(operands, prepared[id(a)])
        if problem.alpha is not None and "a" in problem.conjugate:  # alpha A is conjugated, and with it alpha
            plan = dataclasses.replace(plan, problem=dataclasses.replace(problem, alpha=problem.alpha.conjugate()))
        return KernelExecution(plan, operands, kernel)

    def prepare_argk(self, plan: Plan, operands: Operands, argk: np.ndarray) -> Execution | None:
        """Have the micro-kernel track every term of a small product; of a long k in a batch, the definition."""
        problem = plan.problem
        if tuning_argk.tracks_every_term(problem):
            block = np.empty(argk.shape, BLOCK)
            numbered = self.prepare_blocks(plan, operands, block, steps=1)
            if numbered is not None:
                return HostExecution(operands, functools.partial(_compute_and_widen, numbered, block, argk))
        if not problem.batch or problem.of_one().pairs > tuning_batches.ARGK_PAIRS:
            return None
        return HostExecution(operands, prepare_argk(problem.semiring, operands.a, operands.b, operands.out, argk))

    def prepare_closure(
        self, problem: Problem, count: int, block: int | None, machine: Machine, *, keeps: bool, symmetric: bool
    ) -> Closure | None:
        """Prepare all steps as tables of arguments (`_paths.halves`); predecessors take products that say which k."""
        ops, dtype = operations(problem.semiring, problem.dtype), problem.dtype
        if keeps or ops is None:
            return None
        if is_bool(dtype):
            return WordClosure(problem.n, machine.threads)
        one = machine.with_threads(1)
        square = Square(build_close_block(problem.semiring, dtype), build_mirror(dtype.itemsize))

        def prepare(is_careful: bool) -> Tables:
            @functools.cache
            def loops_of(shape: Shape, triangle: str, packs_a: bool, packs_b: bool) -> Loops:
                product = dataclasses.replace(
                    problem, m=shape.m, n=shape.n, k=shape.k, accumulate=True, triangle=triangle
                )
                settings = settings_of(self.plan(product, one)).changed(packs_a=packs_a, packs_b=packs_b)
                return settings.tiled_loops(settings.key(ops._replace(is_careful=is_careful), dtype), shape, triangle)

            leaf = block or PATHS_LEAF
            return Tables(
                Halves(problem.n, dtype.itemsize, leaf, machine.threads, loops_of, square, symmetric=symmetric),
                machine.threads,
            )

        return HostClosure(problem, prepare)

    def prepare_steps(
        self, problem: Problem, keeps: str = "", *, is_relative: bool = False, is_traced: bool = False
    ) -> Steps | None:
        """Compute all steps by one generated kernel, a thread a sequence."""
        if self.missing() or self.declines(problem) or is_bool(problem.dtype) or is_complex(problem.dtype):
            return None
        return prepare_steps(problem.semiring, problem.dtype, keeps, is_relative, is_traced)

    def tree_steps(self, problem: Problem) -> TreeSteps | None:
        """Return compiled loops."""
        return TreeSteps(problem)

    def prepare_blocks(self, plan: Plan, operands: Operands, block: np.ndarray, steps: int) -> Execution | None:
        """Have the micro-kernel track the blocks of k (`_simd.block_tracker`); bools are computed as bytes."""
        problem, arrays = plan.problem, (operands.a, operands.b, operands.out)
        if is_bool(problem.dtype) and problem.semiring.name in _OF_BYTES:
            semiring = SEMIRINGS[_OF_BYTES[problem.semiring.name]]
            problem = dataclasses.replace(problem, semiring=semiring, dtype=np.dtype(np.uint8))
            plan = self.plan(problem, detect().with_threads(plan.threads))
            arrays = tuple(x.view(np.uint8) for x in arrays)  # type: ignore[assignment]
        is_possible = problem.pairs > 0 and not is_bool(problem.dtype)
        if not is_possible or problem.accumulate or self.declines(problem):
            return None
        settings, core = settings_of(plan).tracking(steps), run_of_batch if problem.batch else run_of_one
        return HostExecution(operands, prepare_generated(problem.semiring, settings, *arrays, False, block, core=core))

    def listing(self, plan: Plan) -> str:
        """Return the loop of the register tile, in pseudo-code and in assembly; for bools, that of words of bits."""
        problem = plan.problem
        ops = operations(computed(problem.semiring), problem.dtype)
        assert ops is not None
        return list_tile(settings_of(plan).key(ops, _word(problem)[0]))


def _compute_and_widen(numbered: Execution, block: np.ndarray, argk: np.ndarray) -> None:
    """Compute a product whose blocks are single terms: the number of a block is k."""
    numbered.run()
    np.copyto(argk, block)


def _word(problem: Problem) -> tuple[np.dtype[Any], int]:
    """Return the dtype of a lane, and the number of elements in a lane."""
    return (WORD, WORD_BITS) if is_bool(problem.dtype) else (problem.dtype, 1)


def settings_of(plan: Plan) -> Settings:
    """Return the settings of the loops, in words.

    Raises
    ------
    PlanError
        If the unit is not here, an option has no such value, or the register tile is not made of whole vectors or is
        too large for any unit.
    """
    blocking, problem = plan.blocking, plan.problem
    assert blocking is not None
    unit, (word, bits) = find_unit(str(plan.options["unit"])), _word(problem)
    width = unit.lanes(word) * bits
    check_tile(Simd.name, blocking, unit, width)
    in_words = Blocking(blocking.mc, blocking.nc // bits, blocking.kc, blocking.mr, blocking.nr // bits)
    packs_a, packs_b = (plan.choice(option, PACKING) == "always" for option in ("pack_a", "pack_b"))
    limits = {option: _at_least(plan, option, least) for option, least in _LEAST.items()}
    return Settings(unit, in_words, plan.threads, packs_a, packs_b, conjugates=problem.conjugate, **limits)


def _at_least(plan: Plan, option: str, least: int) -> int:
    """Return the value of an option that is a number; raise PlanError if it is below `least`, or none."""
    value = plan.options[option]
    count = as_count(value, least=least)
    if count is None:
        raise PlanError(
            f"{Simd.name}: {option} has no such value", expected=f"an integer >= {least}", got=f"{option}={value!r}"
        )
    return count
