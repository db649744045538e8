"""Contenders and cases that experiments on ranks share; without MPI, one small case that says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from experiments._parts.peers import SUBJECT as ONE_PROCESS
from harness import registry
from harness.errors import Declined
from harness.experiment import Case, Contender, backend_contender
from harness.problem import Problem

STRATEGIES = ("dist-root", "dist-1d", "dist-2d", "dist-3d")
SUBJECT = "dist-2d"
PRODUCT_TASK = "experiments._parts.ranks_task:product"
COUNT_TASK = "experiments._parts.count_task:counts"
DECLINED_TASK = "experiments._parts.ranks:decline"
# What every rank gathers to measure the link: so much of B that time is bandwidth, and so little that it is latency. Of
# partial sums of D it reduces as much as of B.
LINK_BYTES, WORD = 8 << 20, 8


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
    parameters = {"ranks": ranks, **options}
    name = label or f"{strategy}, {ranks} rank{'s' * (ranks > 1)}"
    return Contender(name, {"backend": strategy, "parameters": parameters}, threads, PRODUCT_TASK)


def one_process(threads: int, label: str = ONE_PROCESS) -> Contender:
    """Return the contender that stands beside the ranks: one process with so many threads."""
    return backend_contender(ONE_PROCESS, label=label, threads=threads)


def declined_contender(label: str, reason: str) -> Contender:
    """Return the contender that is recorded as declined, with its reason."""
    return Contender(label, {"reason": reason}, task=DECLINED_TASK)


def decline(*, reason: str, **_: object) -> NoReturn:
    """Raise Declined; the task of `declined_contender`."""
    raise Declined("declined", reason)


def link_cases(counts: Iterable[int]) -> list[Case]:
    """Return the cases that measure the link: all ranks gather a large B, one of a word each, or reduce a large D."""
    several = [ranks for ranks in counts if ranks > 1]
    if not several:
        return []
    side = int((LINK_BYTES // WORD) ** 0.5)
    shapes = {
        "bandwidth": {ranks: Problem(ranks, side, side) for ranks in several},
        "latency": {ranks: Problem(ranks, 1, ranks) for ranks in several},
        "reduction": {ranks: Problem(side, side, ranks) for ranks in several},
    }

    def contender(measured: str, ranks: int, problem: Problem) -> Contender:
        reduces = measured == "reduction"
        label = f"{'reduce' if reduces else 'all-gather'}, {ranks} ranks"
        grid = f"1x1x{ranks}" if reduces else f"{ranks}x1x1"
        arguments = {"backend": "dist-3d", "parameters": {"ranks": ranks, "grid": grid}}
        return Contender(label, {**arguments, "problem": problem.to_json()}, ranks, PRODUCT_TASK)

    return [
        Case(
            {"role": "link", "link": measured, "semiring": "plus_times", "dtype": "float64"},
            tuple(contender(measured, ranks, problem) for ranks, problem in problems.items()),
            {"seed": 1},
        )
        for measured, problems in shapes.items()
    ]


def missing() -> str | None:
    """Return why no rank can be started on this machine, or None."""
    entry = next((entry for entry in registry.discover() if entry.name == SUBJECT), None)
    return "there is no such backend" if entry is None else entry.unavailable()


def or_absent(cases: list[Case], **axes: object) -> list[Case]:
    """Return `cases`; where no rank can be started one small case alone, whose contender then says what is missing."""
    if missing() is None:
        return cases
    record = Problem(64, 64, 64).to_json()
    place = {name: record[name] for name in ("m", "n", "k", "dtype", "semiring")}
    return [Case({**place, **axes}, (ranks_contender(SUBJECT, 1),), {"problem": record, "seed": 1})]
