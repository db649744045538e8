"""Tables of goals: what is asked and what is seen, a row each, and the command that prints them."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One goal.

    Attributes
    ----------
    what : str
    asked : float or None
        Least value; None: it is shown alone.
    seen : float
    at_most : bool
        Whether `asked` is the greatest value instead.
    """

    what: str
    asked: float | None
    seen: float
    at_most: bool = False

    @property
    def holds(self) -> bool:
        """Whether the goal is reached."""
        return self.asked is None or (self.seen <= self.asked if self.at_most else self.seen >= self.asked)


Group = Callable[[], Iterator[Row]]


def print_goals(prog: str, of_groups: Sequence[Group]) -> int:
    """Print the rows of the groups that the command line asks for, or of all; return 1 if one could not be measured."""
    groups = {function.__name__: function for function in of_groups}
    parser = argparse.ArgumentParser(prog=f"python -m {prog}")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(groups))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args()
    if unknown := [name for name in options.groups if name not in groups]:
        parser.error(f"no group {unknown[0]!r}: {', '.join(groups)}")
    found, has_failed = [], False
    for name in options.groups or groups:
        _say(f"| {name} | asked | seen | |\n|---|---:|---:|---|")
        try:
            for row in groups[name]():
                _print(row)
                found.append({"group": name, **row._asdict()})
                if options.json:
                    options.json.write_text(json.dumps(found, indent=1))
        except Exception:  # noqa: BLE001 the other groups are measured nevertheless
            has_failed = True
            traceback.print_exc()
        _say("")
    return int(has_failed)


def _print(row: Row) -> None:
    asked = "" if row.asked is None else f"{'at most ' * row.at_most}{row.asked:g}"
    verdict = "" if row.asked is None else "holds" if row.holds else "**misses**"
    _say(f"| {row.what} | {asked} | {row.seen:.3g} | {verdict} |")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
