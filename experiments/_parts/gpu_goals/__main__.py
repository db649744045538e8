"""The command that prints the table."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments._parts.gpu_goals import calls, products, vectors
from experiments._parts.gpu_goals.rows import Row

GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    function.__name__: function
    for function in (
        products.thin, products.tall, products.ragged, products.integers, products.converted, calls.host, calls.first,
        calls.batches, calls.gradients, calls.symmetric, vectors.vectors, vectors.triangles, vectors.solves,
    )
}  # fmt: skip


def main() -> int:
    """Print the rows of the groups that are asked for, or of all; return 1 if a group could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m experiments._parts.gpu_goals")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args()
    if unknown := [name for name in options.groups if name not in GROUPS]:
        parser.error(f"no group {unknown[0]!r}: {', '.join(GROUPS)}")
    found, has_failed = [], False
    for name in options.groups or GROUPS:
        _say(f"| {name} | asked | seen | |\n|---|---:|---:|---|")
        try:
            for row in GROUPS[name]():
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


if __name__ == "__main__":
    sys.exit(main())
