"""The task that counts: one product on every grid of ranks, words and bytes of a rank beside their formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments._parts.ranks_task import OthersClock, RanksProduct, product
from harness import registry
from harness.distributed.choice.model import memory_bytes
from harness.distributed.choice.volumes import grids, lower_bound

RECEIVED = ("gather A", "gather B", "reduce")


class Counts:
    """One product on several grids, computed in turn.

    Parameters
    ----------
    products : list of (str, RanksProduct)
        Each with the backend that computes it.
    """

    starts_processes = True

    def __init__(self, products: list[tuple[str, RanksProduct]]) -> None:
        self._products = [made for _, made in products]
        self.run()
        self._counts = [{"backend": backend, **count(made, backend)} for backend, made in products]

    def clock(self) -> OthersClock:
        """Return the clock of the host."""
        return OthersClock()

    def run(self) -> None:
        """Compute on every grid."""
        for made in self._products:
            made.run()

    def wait(self) -> None:
        """Return: the ranks have answered."""

    def spoil(self) -> None:
        """Overwrite all results."""
        for made in self._products:
            made.spoil()

    def verify(self) -> str:
        """Compare the result on each grid with the definition."""
        sentences = [made.verify() for made in self._products]
        return f"{sentences[0]}; on each of {len(sentences)} grids"

    def facts(self) -> Mapping[str, Any]:
        """Return the work of all, and ``grids``: what was counted on each."""
        facts = [made.facts() for made in self._products]
        work = {name: sum(fact[name] for fact in facts) for name in ("operations", "bytes_moved")}
        first = {name: facts[0][name] for name in ("problem", "plan", "software")}
        return {**work, **first, "grids": self._counts}


def count(made: RanksProduct, backend: str) -> dict[str, Any]:
    """Return what the fullest rank received and allocated in the last run, with the formulas and bounds for both."""
    sizes, reports = made.sizes, made.ranks.report()
    strategy: Any = registry.find(backend)
    word_bytes = made.plan.problem.dtype.itemsize
    one_copy = sizes.m * sizes.k + sizes.k * sizes.n + sizes.m * sizes.n
    return {
        "grid": str(sizes.grid),
        "panel": made.schedule.panel,
        "transport": reports[0]["transport"],
        "words": max(sum(report["words"].get(stage, 0) for stage in RECEIVED) for report in reports),
        "formula_words": sizes.most(lambda rank: sum(sizes.words(rank).values())),
        "bound_words": lower_bound(sizes.m, sizes.n, sizes.k, sizes.grid.size),
        "bytes": max(report["bytes"] for report in reports),
        "formula_bytes": memory_bytes(sizes, **strategy.room(made.plan)),
        "bound_bytes": word_bytes * one_copy / sizes.grid.size,
    }


def counts(
    *, problem: Mapping[str, Any], ranks: int, variants: Sequence[Mapping[str, Any]], seed: int, threads: int
) -> Counts:
    """Prepare a product on every grid of `ranks` ranks, for each variant.

    Parameters
    ----------
    problem : mapping
    ranks : int
        May be more than there are cores: what is counted does not depend on time.
    variants : sequence of mapping
        Of each the ``backend``, and options of its plan, the ``panel`` among them.
    seed : int
    threads : int

    Raises
    ------
    Declined
        If ranks cannot be started here.
    """
    products = []
    for variant in variants:
        for grid in grids(ranks):
            options = {"ranks": ranks, "grid": str(grid), **variant}
            del options["backend"]
            made = product(problem=problem, backend=variant["backend"], seed=seed, threads=threads, parameters=options)
            products.append((str(variant["backend"]), made))
    return Counts(products)
