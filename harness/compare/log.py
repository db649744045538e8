"""What `bench-compare` found, kept beside the results of this machine: ``<results>/<machine>/regressions.jsonl``.

A run is a line of the kind "begun" (machine, trees), one of the kind "compared" for each cell, written when it has been
measured, and one of the kind "judged" with the verdicts, which need all cells. A run without the last was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.compare.revisions import Finding
from harness.compare.source_tree import Tree
from harness.machine import Machine
from harness.store.journal import Journal

FILE = "regressions.jsonl"


class RegressionLog:
    """The records of one run.

    Parameters
    ----------
    results_root : Path
    machine : Machine
    """

    def __init__(self, results_root: Path, machine: Machine) -> None:
        self.path = results_root / machine.slug / FILE
        self._machine = machine
        self._run = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")

    def begin(self, base: Tree, head: Tree, preset: str) -> None:
        """Record which trees are compared, and where."""
        fingerprint = {"machine": self._machine.key, "fingerprint": self._machine.to_json()}
        self._append("begun", base=base.commit, head=head.commit, preset=preset, **fingerprint)

    def add(self, finding: Finding) -> None:
        """Record what was found in one cell."""
        self._append("compared", **finding.to_json())

    def end(self, findings: Sequence[Finding]) -> None:
        """Record the verdicts, by cell."""
        verdicts = {finding.cell.key: finding.verdict.value for finding in findings if finding.status == "ok"}
        self._append("judged", verdicts=verdicts)

    def _append(self, kind: str, **record: Any) -> None:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        Journal(self.path).append([{"kind": kind, "run": self._run, "time": time, **record}])


def comparisons(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells with a time of every run that was judged, each with ``verdict``, ``base``, ``head`` of its run.

    Parameters
    ----------
    records : iterable of dict
        The lines of a file.
    """
    lines = list(records)
    begun = {record["run"]: record for record in lines if record["kind"] == "begun"}
    verdicts = {record["run"]: record["verdicts"] for record in lines if record["kind"] == "judged"}
    return [
        {
            **record,
            "verdict": verdicts[record["run"]][record["cell"]],
            **{name: begun[record["run"]][name] for name in ("base", "head", "machine")},
        }
        for record in lines
        if record["kind"] == "compared" and record["cell"] in verdicts.get(record["run"], {})
    ]
