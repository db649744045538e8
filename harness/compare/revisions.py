"""Two revisions of the source code, measured against each other on this machine to find regressions.

A cell is one backend and one product: an ordinary case with two contenders, each in processes that import from a tree
of its own. Its records are in the store ``<results>/<machine>/revisions/``; all cells of a run are judged together
(`harness.stats.verdict`). A tree may be older than this one: the only commands it must know are those of
`harness.compare.source_tree.COMMANDS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.analysis.contests import Contest
from harness.compare.source_tree import RegressionError, Tree
from harness.errors import BackendUnavailable
from harness.experiment import Budget, Case, Contender, Experiment, product_case
from harness.problem import Problem
from harness.stats.verdict import Verdict
from harness.store.store import Store

# The folder of the records, beside those of the presets, and their experiment.
REVISIONS = "revisions"
BASE, HEAD = "base", "head"


class RevisionContest(Contest):
    """Head judged against base, for one backend and one product."""

    def __str__(self) -> str:
        axes = self.subject.axes
        threads = "" if axes["threads"] == 1 else f" threads={axes['threads']}"
        return "{backend} {semiring} {dtype} {m}x{n}x{k}".format(**axes) + threads

    @property
    def status(self) -> str:
        """Return "ok" if both have a time, "failed" if one failed, else the status of the first without a time."""
        statuses = [cell.status for cell in (self.reference, self.subject) if not cell.is_ok]
        return "failed" if "failed" in statuses else next(iter(statuses), "ok")

    @property
    def unmet(self) -> str:
        """Return the conditions of the budget that were not met, or an empty string."""
        texts = [text for cell in (self.reference, self.subject) for text in cell.record["unmet"].split("; ") if text]
        return "; ".join(dict.fromkeys(texts))

    @property
    def is_regression(self) -> bool:
        """Return whether head is slower than base, or fails where base does not."""
        if self.is_ok:
            return self.verdict is Verdict.SLOWER
        return self.subject.status == "failed" and self.reference.is_ok

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object; ``ratio`` is estimate, low and high end, of head over base."""
        ratio = list(self.comparison.ratio) if self.is_ok else []
        return {
            **self.subject.axes,
            "status": self.status,
            "reason": self.reason,
            "samples_ns": {cell.contender: cell.samples_ns for cell in (self.reference, self.subject)},
            "ratio": [round(value, 5) for value in ratio],
            "unmet": self.unmet,
            "verdict": self.verdict.value if self.is_ok else "",
        }


def cases(
    base: Tree, head: Tree, problems: Iterable[Problem], *, backends: Sequence[str] = (), threads: int = 1
) -> tuple[list[Case], list[str]]:
    """Return the cases that compare two trees, and notes about backends that are left out.

    Parameters
    ----------
    base, head : Tree
    problems : iterable of Problem
    backends : sequence of str
        All that both trees have by default.
    threads : int

    Raises
    ------
    RegressionError
        If the trees have no backend in common.
    BackendUnavailable
        If one of `backends` is not in both trees, or cannot run here.
    """
    known, new = base.backends(), head.backends()
    common = [name for name in new if name in known]
    able = [name for name in common if not known[name] and not new[name]]
    for name in backends:
        if name not in able:
            why = known.get(name) or new.get(name)
            raise BackendUnavailable(
                f"no backend {name!r} to compare", expected=", ".join(able), got=why or "not in both trees"
            )
    if not able:
        raise RegressionError(
            "base and head have no backend in common that can run here",
            expected=f"a backend whose code is in {head.source}",
            fix="name the folder that modules are imported from: --source",
        )
    one_sided = {BASE: sorted(set(known) - set(new)), HEAD: sorted(set(new) - set(known))}
    notes = [f"only in {tree}: {', '.join(names)}" for tree, names in one_sided.items() if names]
    notes += [f"missing here: {name}: {known[name] or new[name]}" for name in common if name not in able]
    products = list(problems)
    made = [_case(name, problem, base, head, threads) for name in backends or able for problem in products]
    return made, notes


def _case(backend: str, problem: Problem, base: Tree, head: Tree, threads: int) -> Case:
    contenders = [
        Contender(label, {"backend": backend}, threads, source=tree.source)
        for label, tree in ((BASE, base), (HEAD, head))
    ]
    where: dict[str, Any] = {"backend": backend, "threads": threads, BASE: base.commit, HEAD: head.commit}
    return product_case(problem, contenders, **where)


def experiment(made: Sequence[Case], budget: Budget) -> Experiment:
    """Return the experiment that `harness.run.runner` is to run, with the preset `REVISIONS`, to measure the cases."""
    return Experiment(REVISIONS, "Is it slower than it was?", lambda *_: list(made), (), {REVISIONS: budget})


def runs(folder: Path) -> Iterator[list[RevisionContest]]:
    """Yield the contests of each run, not judged, from the results `folder` of a machine; the first run first."""
    every_cell = Store(folder / REVISIONS).every_cell(REVISIONS)
    for _, cells in itertools.groupby(every_cell, key=lambda cell: cell.run):
        yield RevisionContest.of_run(cells, HEAD, BASE)
