"""Contenders and cases that experiments on ranks share; without MPI, one small case that says so."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import NoReturn

from experiments._parts.peers import SUBJECT as ONE_PROCESS
from harness import registry
from harness.analysis.ranks.model import BANDWIDTH, BLOCK, FROM_ROOT, LATENCY, REDUCTION, ROOT
from harness.analysis.rates import LINK
from harness.errors import Declined
from harness.experiment import Case, Contender, backend_contender, product_case
from harness.problem import Problem

STRATEGIES = ("dist-root", "dist-1d", "dist-2d", "dist-3d")
SUBJECT = "dist-2d"
PRODUCT_TASK = "experiments._parts.ranks_task:product"
COUNT_TASK = "experiments._parts.count_task:counts"
DECLINED_TASK = "experiments._parts.ranks:decline"
# What every rank gathers to measure the link: so much of B that time is bandwidth, and so little that it is latency. Of
# partial sums of D it reduces as much as of B.
LINK_BYTES, WORD = 8 << 20, 8
GATHERS, AUTO = "{ranks}x1x1", "auto"  # grids
# Sides of the blocks that all ranks compute at once, with as many words to a pair as the blocks of most products have
# or more, and of the products whose data lie on rank 0.
BLOCK_SIDES, ROOT_SIDES = (256, 1024), (256, 1024)


def rank_counts(cores: int) -> list[int]:
    """Return numbers of ranks up to `cores`: powers of two, three times those, and `cores`."""
    powers = [2**i for i in range(cores.bit_length())]
    return sorted({cores, *powers, *(3 * power for power in powers)} & set(range(1, cores + 1)))


def ranks_contender(strategy: str, ranks: int, *, label: str = "", **options: int | str | bool) -> Contender:
    """Return the contender that computes with `strategy` on `ranks` ranks of one thread, its stages read as well.

    Parameters
    ----------
    strategy : str
        A backend.
    ranks : int
    label : str
    options
        Of its plan; ``rank_threads`` among them counts as threads of the contender.
    """
    threads = ranks * int(options.get("rank_threads", 1))
    name = label or f"{strategy}, {ranks} rank{'s' * (ranks > 1)}"
    return backend_contender(strategy, label=name, threads=threads, task=PRODUCT_TASK, ranks=ranks, **options)


def one_process(threads: int, label: str = ONE_PROCESS) -> Contender:
    """Return the contender that stands beside the ranks: one process with so many threads."""
    return backend_contender(ONE_PROCESS, label=label, threads=threads)


def declined_contender(label: str, reason: str) -> Contender:
    """Return the contender that is recorded as declined, with its reason."""
    return Contender(label, {"reason": reason}, task=DECLINED_TASK)


def decline(*, reason: str, **_: object) -> NoReturn:
    """Raise Declined; the task of `declined_contender`."""
    raise Declined("declined", reason)


def link_cases(counts: Iterable[int], semirings: Iterable[str]) -> list[Case]:
    """Return the cases that measure what the model takes, each on all these numbers of ranks.

    Of the link all ranks gather a large B, or one of a word each, or reduce a large D; data lie on rank 0. Then all
    compute blocks of two sizes over each semiring, and gather next to nothing.
    """
    ranks = list(counts)
    several = [count for count in ranks if count > 1]
    if not several:
        return []
    side = int((LINK_BYTES // WORD) ** 0.5)
    found = [
        _link_case(BANDWIDTH, {p: (p, side, side) for p in several}, GATHERS),
        _link_case(LATENCY, {p: (p, 1, p) for p in ranks}, GATHERS),
        _link_case(REDUCTION, {p: (side, side, p) for p in several}, "1x1x{ranks}"),
        *(_link_case(f"{ROOT} {n}", dict.fromkeys(several, (n, n, n)), AUTO, backend=FROM_ROOT) for n in ROOT_SIDES),
    ]
    blocks = itertools.product(semirings, BLOCK_SIDES)
    return found + [
        _link_case(f"{BLOCK} {n}", {p: (p * n, n, n) for p in ranks}, GATHERS, semiring=semiring)
        for semiring, n in blocks
    ]


def _link_case(
    measured: str,
    shapes: Mapping[int, tuple[int, int, int]],
    grid: str,
    *,
    backend: str = "dist-3d",
    semiring: str = "plus_times",
) -> Case:
    """Return the case of products by the number of ranks."""

    def contender(ranks: int) -> Contender:
        parameters: dict[str, int | str] = {"ranks": ranks, "grid": grid.format(ranks=ranks)}
        label, problem = f"{measured}, {ranks} rank{'s' * (ranks > 1)}", Problem(*shapes[ranks], semiring)
        return backend_contender(backend, label=label, threads=ranks, task=PRODUCT_TASK, problem=problem, **parameters)

    axes = {"role": LINK, "link": measured, "semiring": semiring, "dtype": "float64"}
    return Case(axes, tuple(map(contender, shapes)), {"seed": 1})


def missing() -> str | None:
    """Return why no rank can be started on this machine, or None."""
    entry = next((entry for entry in registry.discover() if entry.name == SUBJECT), None)
    return "there is no such backend" if entry is None else entry.unavailable()


def or_absent(cases: list[Case], **axes: object) -> list[Case]:
    """Return `cases`; where no rank can be started one small case alone, whose contender then says what is missing."""
    if missing() is None:
        return cases
    return [product_case(Problem(64, 64, 64), [ranks_contender(SUBJECT, 1)], **axes)]
