"""The marker ``deep``: tests that `make test` leaves out and `make test-deep` runs.

``@pytest.mark.deep(but=4)`` on a parametrized test leaves four of its rows, evenly spread, to `make test`.
"""

from __future__ import annotations

import collections

import pytest

ORDINARY = "not deep"  # as `make test` gives it to ``-m``


@pytest.hookimpl(tryfirst=True)  # before ``-m`` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rows: dict[str, list[tuple[pytest.Item, pytest.Mark]]] = collections.defaultdict(list)
    for item in items:
        for mark in item.own_markers:
            if mark.name == "deep" and mark.kwargs:
                rows[item.nodeid.partition("[")[0]].append((item, mark))
    for marked in rows.values():
        for place in spread(len(marked), marked[0][1].kwargs["but"]):
            item, mark = marked[place]
            item.own_markers.remove(mark)


def spread(count: int, few: int) -> list[int]:
    """Return `few` of `count` places, evenly spread, the first and the last among them."""
    if few >= count:
        return list(range(count))
    return [round(i * (count - 1) / max(few - 1, 1)) for i in range(few)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.markexpr == ORDINARY:
        terminalreporter.line("Tests marked deep were not run: make test-deep runs them (CONTRIBUTING.md).")
