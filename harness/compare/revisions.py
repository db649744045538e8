"""Two states of the source code, measured against each other on this machine, to find what is slower than it was.

The contenders of a cell are one backend from two trees, each in worker processes of its own that import from its tree.
They are sampled in turns by the harness's clock (`harness.timing.measure`), in fresh processes again and again, and
judged over all cells together (`harness.stats.verdict`). A tree may be older than this one: it is asked nothing but
what `harness.compare.source_tree.COMMANDS` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.compare.source_tree import RegressionError, Tree
from harness.errors import BackendUnavailable, Declined
from harness.experiment import GEMM_TASK, Budget, content_hash
from harness.problem import Problem
from harness.run.process import Call, RemoteSampler, WorkerFailed, WorkerProcess, call_all
from harness.run.trial import Patience
from harness.stats import verdict
from harness.stats.statistics import median
from harness.stats.verdict import Comparison, Verdict
from harness.timing.host import on_one_core
from harness.timing.measure import measure

SEED = 1


@dataclass(frozen=True)
class Cell:
    """One backend and one product, computed from both trees."""

    backend: str
    problem: Problem
    threads: int = 1

    def __str__(self) -> str:
        threads = "" if self.threads == 1 else f" threads={self.threads}"
        return f"{self.backend} {self.problem}{threads}"

    @property
    def key(self) -> str:
        """Content hash that is the same in every comparison, whatever the trees."""
        return content_hash([self.backend, self.problem.to_json(), self.threads, SEED])


@dataclass
class Finding:
    """What was found in one cell.

    Parameters
    ----------
    cell : Cell
    status : str
        "ok", "failed", "declined" or "missing".
    reason : str
        Which tree has no time and why, if the status is not "ok".
    guilty : str
        Label of that tree; "both" if neither has one.
    samples_ns : dict
        By label of the tree: time per call [ns] by process.
    loops : mapping of str to int
        Calls in a sample, by label of the tree.
    unmet : str
        Which condition of the budget was not met, or empty.
    verdict : Verdict
        Set when all cells have been measured.
    settled : Comparison or None
        Likewise: with the interval that all cells support.
    """

    cell: Cell
    status: str = "ok"
    reason: str = ""
    guilty: str = ""
    samples_ns: dict[str, list[list[float]]] = field(default_factory=lambda: {"base": [], "head": []})
    loops: Mapping[str, int] = field(default_factory=dict)
    unmet: str = ""
    verdict: Verdict = Verdict.UNSURE
    settled: Comparison | None = None

    @property
    def comparison(self) -> Comparison:
        """How the times of head compare to those of base: as all cells together say, once they are judged."""
        return self.settled or verdict.compare(self.samples_ns["head"], self.samples_ns["base"])

    @property
    def is_regression(self) -> bool:
        """Whether head is slower than base, or no longer works where base does."""
        if self.status == "ok":
            return self.verdict is Verdict.SLOWER
        return self.status == "failed" and self.guilty == "head"

    def median_ms(self, label: str) -> float:
        """Return the median time of a call in the tree called `label` [ms]."""
        return median([sample for process in self.samples_ns[label] for sample in process]) * 1e-6

    def to_json(self) -> dict[str, Any]:
        """Return what the record keeps of it."""
        ratio = list(self.comparison.ratio) if self.status == "ok" else []
        return {
            "cell": self.cell.key,
            "backend": self.cell.backend,
            "problem": self.cell.problem.to_json(),
            "threads": self.cell.threads,
            "status": self.status,
            "reason": self.reason,
            "samples_ns": {
                label: [[round(sample, 1) for sample in process] for process in processes]
                for label, processes in self.samples_ns.items()
            },
            "ratio": [round(value, 5) for value in ratio],
            "unmet": self.unmet,
        }


def choose(
    base: Tree, head: Tree, problems: Iterable[Problem], *, backends: Sequence[str] = (), threads: int = 1
) -> tuple[list[Cell], list[str]]:
    """Return the cells to compare, and notes about backends that are left out.

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
    notes = [f"only in {tree}: {', '.join(names)}" for tree, names in _one_sided(known, new).items() if names]
    notes += [f"missing here: {name}: {known[name] or new[name]}" for name in common if name not in able]
    wanted = list(problems)
    return [Cell(name, problem, threads) for name in backends or able for problem in wanted], notes


def _one_sided(known: Iterable[str], new: Iterable[str]) -> dict[str, list[str]]:
    return {"base": sorted(set(known) - set(new)), "head": sorted(set(new) - set(known))}


def compare_trees(
    base: Tree, head: Tree, cells: Iterable[Cell], budget: Budget, patience: Patience | None = None
) -> Iterator[Finding]:
    """Yield what was found in each of `cells`, as soon as it is measured; nothing is judged yet."""
    for cell in cells:
        yield _measure_cell(cell, (base, head), budget, patience or Patience())


def judge(findings: Sequence[Finding], *, minimum_effect: float) -> None:
    """Set the verdicts of `findings`, corrected over all of them together."""
    timed = [finding for finding in findings if finding.status == "ok"]
    comparisons = [finding.comparison for finding in timed]
    verdicts = verdict.judge(comparisons, minimum_effect=minimum_effect)
    for finding, settled, said in zip(timed, verdict.settle(comparisons), verdicts, strict=True):
        finding.settled, finding.verdict = settled, said


def _measure_cell(cell: Cell, trees: tuple[Tree, Tree], budget: Budget, patience: Patience) -> Finding:
    """Measure both trees' contenders in fresh processes, `budget.processes` times."""
    finding = Finding(cell)
    for replicate in range(budget.processes):
        workers: dict[str, WorkerProcess] = {}
        try:
            for tree in trees:
                workers[tree.label] = WorkerProcess(tree.source)
            _measure_once(finding, workers, budget, patience, replicate)
        finally:
            for worker in workers.values():
                worker.kill()
        if finding.status != "ok":
            break
    return finding


def _measure_once(
    finding: Finding, workers: dict[str, WorkerProcess], budget: Budget, patience: Patience, replicate: int
) -> None:
    """Prepare, prove, sample in turns, and verify again; keep the samples if all of that went well."""
    cell = finding.cell
    arguments = {"problem": cell.problem.to_json(), "backend": cell.backend, "seed": SEED}
    prepare = {"task": GEMM_TASK, "arguments": arguments, "threads": cell.threads}
    if _ask(finding, workers, "prepare", patience.prepare, prepare) is None:
        return
    proofs = _ask(finding, workers, "prove", patience.prove)
    if proofs is None:
        return
    samplers = {
        label: RemoteSampler(worker, proofs[label]["elapsed_ns"], patience.sample) for label, worker in workers.items()
    }
    seed = int(cell.key, 16) + replicate
    alone = [worker.number for worker in workers.values()] if cell.threads == 1 else []
    with on_one_core(alone, replicate):
        found = measure(samplers, budget, seed, reference="base", loops=finding.loops)
    if found.failures:
        _fail(finding, found.failures)
        return
    if _ask(finding, workers, "verify", patience.prove) is None:
        return
    for label, samples in found.samples_ns.items():
        finding.samples_ns[label].append(samples)
    finding.loops, finding.unmet = found.loops, finding.unmet or found.unmet


def _ask(
    finding: Finding,
    workers: dict[str, WorkerProcess],
    command: str,
    timeout: float,
    arguments: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Send `command` to both processes; return their answers, or None if one was none, which `finding` then says."""
    calls = {label: Call(worker, command, timeout, arguments or {}) for label, worker in workers.items()}
    answers = call_all(calls, at_once=2)
    bad = {label: answer for label, answer in answers.items() if isinstance(answer, WorkerFailed | Declined)}
    if bad:
        _fail(finding, bad)
    return None if bad else answers


def _fail(finding: Finding, errors: Mapping[str, Exception]) -> None:
    """Keep why there is no comparison: a failure weighs more than a refusal."""
    statuses = {label: getattr(error, "status", "failed") for label, error in errors.items()}
    finding.status = "failed" if "failed" in statuses.values() else next(iter(statuses.values()))
    finding.guilty = "both" if len(errors) == 2 else next(iter(errors))
    reasons = {label: str(error).strip() or type(error).__name__ for label, error in errors.items()}
    finding.reason = "; ".join(f"{label}: {reason}" for label, reason in reasons.items())
