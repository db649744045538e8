"""How a call computes a closure: what is copied and checked, which way is taken, and what is kept for further calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from harness import arithmetic
from harness.api import choice, limits
from harness.api.arrays import Arrays, kind_of
from harness.api.paths import bits, large, passes, predecessors, several
from harness.api.paths.checks import (
    check_found,
    check_keeps,
    check_matrix,
    check_method,
    check_sources,
    check_symmetry,
    enough_memory,
)
from harness.api.paths.in_place import Rows
from harness.api.paths.rows import rows_of
from harness.api.paths.steps import ByProducts
from harness.api.paths.transfers import Transfers
from harness.api.remembered.recent import Recent
from harness.dtypes import is_bool
from harness.errors import ProblemError
from harness.interface import ALIGNMENT, BitClosure, Closure, Findings
from harness.problem import Problem
from harness.semiring import Semiring
from harness.tuning import paths as tuning_paths

# (+) selects, and (x) distributes over it for all values: the best path is made of best parts.
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")

# Closures that are kept ready: a few KiB of host memory each step.
_MOST_CLOSERS = 64


class Options(NamedTuple):
    """The options of a call; `symmetric` is that it is not directed."""

    method: str
    block: int | None
    backend: str
    threads: int | None
    keeps: bool
    symmetric: bool
    sources: Any
    is_packed: bool
    device: Any
    memory_cap: Any


def run(matrix: Any, semiring: Semiring, options: Options) -> Any:
    """Return what `closure` returns."""
    if not semiring.is_named or semiring.name not in CLOSED:
        raise ProblemError(
            f"closure: semiring {semiring.name!r} has no closure here", expected=" or ".join(CLOSED), got=semiring.name
        )
    arrays = kind_of("closure", {"matrix": matrix})
    with arrays.in_force(), enough_memory(matrix, keeps=options.keeps):
        by_gpu = options.device is not None or options.memory_cap is not None
        given = check_matrix(arrays, matrix, semiring, is_packed=options.is_packed, is_copied=not by_gpu)
        if options.keeps:
            check_keeps(arrays, given)
        vertices = check_method(options.method, options.block)
        sources = None if options.sources is None else check_sources(options.sources, given.shape[-2])
        choice.check_backend(options.backend)  # no vertices have no product that would
        options = options._replace(block=vertices, sources=sources, threads=limits.check_threads(options.threads))
        is_plain = not (options.keeps or options.symmetric or by_gpu) and sources is None
        if is_plain and given.size and (options.is_packed or is_bool(given.dtype)):
            closer = _closer(arrays, given, np.dtype(bool), semiring, options)
            if isinstance(closer, BitClosure):
                best = arrays.empty(given.shape, given.dtype)
                closer.close(given, best)
                return best

        def edges() -> Any:
            """Return the matrix again as an array of its own."""
            if options.is_packed:
                return bits.unpacked(arrays, given)
            if is_bool(given.dtype):  # of which any byte but 0 is true
                return given.view(np.uint8) != 0
            return check_matrix(arrays, matrix, semiring)

        best = edges() if options.is_packed or (is_bool(given.dtype) and not by_gpu) else given
        if by_gpu:
            best, before = _paths_by_gpu(arrays, best, semiring, options)
        else:
            best, before = _paths(arrays, edges, best, semiring, options)
        best = bits.packed(arrays, best) if options.is_packed else best
    return best if before is None else (best, before)


def _paths_by_gpu(arrays: Arrays, given: Any, semiring: Semiring, options: Options) -> tuple[Any, Any]:
    """Return the same of a matrix on the host, as arrays there, by a GPU."""
    if arrays.on_device or options.device is None:
        raise ProblemError(
            "closure: device and memory_cap are for a matrix on the host",
            expected="an array on the host and the number of a GPU",
            got=f"device={options.device} and an array {'on a GPU' if arrays.on_device else 'on the host'}",
        )
    module, devices, cap = large.gpus(options.device, options.memory_cap)
    sources, threads = options.sources, limits.machine_of(options.threads).threads
    panels = None
    if len(devices) == 1:
        kinds = {"keeps": options.keeps, "is_compared": options.symmetric, "is_kept": sources is not None}
        is_plain = not (any(kinds.values()) or is_bool(given.dtype)) and given.ndim == 2 and options.block is None
        panels = large.panels_of(given, cap, is_plain=is_plain, **kinds)
        if panels is None:
            with module.cuda.Device(*devices), Transfers(module, threads) as transfers:
                return _paths_at_once(module, given, semiring, options, transfers)
    else:
        if options.keeps or given.ndim > 2:
            raise ProblemError(
                f"closure: {'predecessors' if options.keeps else 'a batch'} on several GPUs",
                expected="lengths alone, of one graph",
                got=f"device={options.device}",
                fix=f"device={devices[0]}",
            )
        shares = several.shares_of(given, len(devices), cap)
    if options.symmetric:
        check_symmetry(arrays, given, semiring)

    def close(square: Any) -> Findings:
        there = kind_of("closure", {"matrix": square})
        return _closer(there, square, given.dtype, semiring, options._replace(symmetric=False))(square, None)

    def on_gpu(columns: Any) -> Rows:
        return Rows(columns, semiring, close, options.backend, options.threads)

    if panels is None:
        best = several.close_on_several(module, given, devices, shares, semiring, on_gpu, threads)
    else:
        with module.cuda.Device(*devices), Transfers(module, threads) as transfers:
            best = passes.close_by_panels(module, given, panels, semiring, on_gpu, transfers)
    return best if sources is None else best[sources], None


def _paths_at_once(
    module: Any, given: Any, semiring: Semiring, options: Options, transfers: Transfers
) -> tuple[Any, Any]:
    """Return the same, where the current GPU holds everything; pages of the results are cleared meanwhile."""
    n = given.shape[-1]
    shape = (*given.shape[:-2], n if options.sources is None else len(options.sources), n)
    results = [np.empty(shape, dtype) for dtype in (given.dtype, np.dtype(np.int32))[: 1 + options.keeps]]
    touched = [transfers.touch(x) for x in results]
    there = passes.to_gpu(module, given, transfers)
    arrays = kind_of("closure", {"matrix": there})
    found = _paths(arrays, lambda: passes.to_gpu(module, given, transfers), there, semiring, options)
    for transfer in touched:
        transfer.wait()
    passes.to_host(module, zip(results, found[: len(results)], strict=True), transfers)
    return results[0], results[1] if options.keeps else None


def _paths(
    arrays: Arrays, edges: Callable[[], Any], best: Any, semiring: Semiring, options: Options
) -> tuple[Any, Any]:
    """Return the closure of `best`, written over it, or the rows of some sources, and predecessors or None.

    ``edges()`` returns the matrix as it was.
    """
    if options.symmetric:
        check_symmetry(arrays, best, semiring)
    sources = options.sources
    if sources is not None and options.block != 0:
        found = rows_of(arrays, best, sources, semiring, options)
        if found is not None:
            return found
    before = arrays.empty(best.shape, np.dtype(np.int32)) if options.keeps else None
    if best.size:
        findings = _closer(arrays, best, best.dtype, semiring, options)(best, before)
        check_found(best, semiring, findings, None if sources is None else arrays.module.asarray(sources))
        if before is not None and findings.betters:
            predecessors.untangle_all(arrays, before, best, edges())
    if sources is not None:
        rows = arrays.module.asarray(sources)
        best, before = best[..., rows, :], None if before is None else before[..., rows, :]
    return best, before


_closers = Recent[Closure](lambda: _MOST_CLOSERS)


def _closer(arrays: Arrays, matrices: Any, dtype: np.dtype[Any], semiring: Semiring, options: Options) -> Closure:
    """Return what closes such matrices, of elements of that dtype or of bits; it is kept for further calls."""
    n, count, threads = matrices.shape[-2], math.prod(matrices.shape[:-2]), options.threads
    place = (matrices.device.id, matrices.data.ptr % ALIGNMENT) if arrays.on_device else None
    keyed = options._replace(sources=None, is_packed=False, device=None, memory_cap=None)
    key = n, count, semiring, dtype, keyed, place, arithmetic.is_native()
    closer = _closers.get(key)
    if closer is None:
        problem, block = Problem(n, n, n, semiring, dtype), options.block
        chosen = choice.choose(problem, options.backend, arrays, count=threads)
        if block != 0:
            how = {"keeps": options.keeps, "symmetric": options.symmetric}
            closer = chosen.prepare_closure(problem, count, block, limits.machine_of(threads), **how)
        if closer is None:
            trees = chosen.tree_steps(problem) if options.keeps and not arrays.on_device else None
            usual = tuning_paths.PATHS_BLOCK if trees is None else trees.block
            closer = ByProducts(arrays, problem, usual if block is None else block, options.backend, threads, trees)
        _closers.put(key, closer)
    return closer
