"""The command that prints the table."""

from __future__ import annotations

import sys

from experiments._parts.cpu_goals import calls, processes
from experiments._parts.goals import print_goals

GROUPS = (
    calls.batches, calls.layouts, calls.sizes, calls.singles, calls.symmetric,
    processes.threads, processes.cores, processes.narrow,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(print_goals("experiments._parts.cpu_goals", GROUPS))
