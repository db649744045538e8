"""A program of one rank: products on GPUs by every engine and grid against the definition; prints what is wrong.

mpiexec -n P python -m mpi4py -m tests._support.gpu_ranks fake|newest|real ENGINE...
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from harness.distributed.choice.model import memory_bytes, room_of
from harness.distributed.choice.volumes import grids
from harness.distributed.grid import BLOCKS, FACES, Decomposition
from harness.distributed.share import Share
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.comms import Comms
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.reference import product
from harness.semiring import SEMIRINGS
from tests._support import fake_device

GATHERED = "gather A", "gather B", "reduce"
SIZES = (13, 10, 17), (2, 3, 1), (5, 1, 0)
SCHEDULES = (0, 1), (3, 1), (3, 2), (2, 3), (4, 4)
# Semiring, dtype of the sums, and dtype of A and B if that is another.
KINDS = (
    ("min_plus", "float32", None),
    ("plus_times", "int32", "int8"),
    ("logaddexp_plus", "float64", None),
    ("lor_land", "bool", None),
    ("plus_times", "complex128", None),
    ("plus_times", "complex128", "complex64"),
)
# On a real GPU, where int8 is computed in multiples of four alone.
ON_REAL_GPUS = {"int8": ("plus_times", "float32", "float16")}


class ByDefinition:
    """A local product that is enqueued in the current stream, as kernels are."""

    def __init__(self, problem: Problem, *, in_place: bool) -> None:
        self.accumulates_in_place, self._problem = in_place, problem

    def ready(self, a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> Callable[[], Any]:
        """Return what enqueues one product."""
        return functools.partial(self._enqueue, a, b, c, alpha, beta, out)

    def _enqueue(self, a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> None:
        problem = dataclasses.replace(
            self._problem, m=a.shape[0], n=b.shape[1], k=a.shape[1], alpha=alpha, beta=beta, accumulate=c is not None
        )
        hosts = [fake_device.values_of(x) for x in (a, b, c, out)]
        assert self.accumulates_in_place or c is not out

        def work() -> None:
            hosts[3][...] = product(problem, *hosts[:3])  # type: ignore[index]

        sys.modules["cupy"].cuda.get_current_stream().add(work)


def check(comm: Any, problem: Problem, sizes: Decomposition, schedule: Schedule, local: Any) -> str:
    """Return what is wrong with this rank's piece after two products; empty: nothing."""
    operands, rank = Operands.generate(problem, 3), comm.Get_rank()
    share = Share(Comms.cached(comm, sizes.grid), sizes, problem, local, schedule, on_device=True)
    for name in "abc"[: 2 + problem.accumulate]:
        part = share.layout(name)[rank].slices
        share.arrays.fill(share.pieces[name], np.ascontiguousarray(getattr(operands, name)[part]))
    for _ in range(2):
        share.stages.clear()
        share.multiply()
    got = share.arrays.to_host(share.pieces["d"])
    expected = product(problem, operands.a, operands.b, operands.c)[share.layout("d")[rank].slices]
    share.close()
    room = room_of(problem, schedule.panel, schedule.in_flight, in_place=local.accumulates_in_place, on_device=True)
    predicted, used = memory_bytes(sizes, **room), max(comm.allgather(share.bytes_used))
    if used > predicted or (used < predicted and sizes.grid.pk == 1):  # partial sums arrive in arrays that come and go
        return f"{used} bytes on the fullest rank, predicted {predicted}"
    words = {name: share.stages.words.get(stage, 0) for name, stage in zip("abd", GATHERED, strict=True)}
    if words != sizes.words(rank):
        return f"words {words}, by the formula {sizes.words(rank)}"
    tolerance = {"float64": 1e-12, "complex128": 1e-12}.get(problem.dtype.name, 1e-5)
    is_right = np.array_equal(got, expected) if problem.is_exact else np.allclose(got, expected, tolerance, tolerance)
    return "" if is_right else f"got {got.tolist()}, expected {expected.tolist()}"


def lose(what: str) -> None:
    """Plant a bug: an order between streams that is not kept."""
    waits = fake_device.Stream.wait_event

    def wait_event(self: fake_device.Stream, event: fake_device.Event) -> None:
        is_of_copies = self is max(fake_device.Stream.every, key=lambda stream: stream.ptr)
        if is_of_copies != (what == "lose-release"):
            waits(self, event)

    fake_device.Stream.wait_event = wait_event  # type: ignore[method-assign]


def main(kind: str, engines: list[str]) -> None:
    """Check everything, and end with status 1 if something is wrong on some rank."""
    lost = [engine for engine in engines if engine.startswith("lose-")]
    for name in lost:
        lose(name)
        engines.remove(name)
    comm, wrong, cases = MPI.COMM_WORLD, [], 0
    if kind != "real":
        fake_device.install(newest_first=kind == "newest")
    else:
        from harness.distributed.transport import gpus

        gpus.bind(comm.Get_rank())
    shapes = itertools.product(SIZES, grids(comm.Get_size()), (BLOCKS, FACES))
    # of each two kinds every shape and engine takes one, so that all of them meet each engine on each grid
    for (at, ((m, n, k), grid, layout)), pair, engine in itertools.product(enumerate(shapes), (0, 2, 4), engines):
        name, dtype, operands = KINDS[pair + (at // 2 + at) % 2]
        if kind == "real":
            name, dtype, operands = ON_REAL_GPUS.get(str(operands), (name, dtype, operands))
        panel, in_flight = SCHEDULES[(at + cases) % len(SCHEDULES)]
        scalars = (2, 3) if cases % 2 and dtype != "bool" else (None, None)
        has_c, narrow = cases % 3 > 0 or cases % 2 > 0, None if operands is None else np.dtype(operands)
        sums = np.dtype(dtype)
        problem = Problem(m, n, k, SEMIRINGS[name], sums, *scalars, accumulate=has_c, operand_dtype=narrow)
        schedule = Schedule(panel, in_flight, transport=engine, share_gpu=True)
        if kind == "real":
            from harness.distributed.local import device_local

            local: Any = device_local(problem, "auto")
        else:
            local = ByDefinition(problem, in_place=cases % 5 > 1)
        sizes = Decomposition(m, n, k, grid, layout)
        if reason := check(comm, problem, sizes, schedule, local):
            wrong.append(f"rank {comm.Get_rank()} {engine} {grid} {layout.name} {problem} {schedule}: {reason}")
        cases += 1
        if lost and sum(comm.allgather(len(wrong))):
            break  # one product that is wrong is enough
    for line in wrong[:3]:
        print(line, flush=True)  # noqa: T201
    total = sum(comm.allgather(len(wrong)))
    if comm.Get_rank() == 0:
        print(f"{cases} products, {total} wrong", flush=True)  # noqa: T201
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
