"""What an experiment has found, in a sentence for the title of a figure: who, how much, and where not. Pure.

Each function takes the cells that a figure shows, and its options. It returns an empty string where nothing can be
said. A module has the findings about one subject; `FINDINGS` names those of all, `PLACES` where the numbers of some
hold, for the line below the title, and `DETAILS` what some have found besides, for the notes below a figure. `JUDGED`
says how many numbers of a finding have no verdict, where these are not the ratios to the references of the cases.
`harness.analysis.answers` calls them.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.analysis import read_rates, shares
from harness.analysis.caveats import Undecided
from harness.analysis.findings import (
    contenders,
    fastest,
    kernels,
    over_rivals,
    pays,
    ranks,
    regret,
    stages,
    switches,
    traffic,
)
from harness.experiment import Json
from harness.store.store import Cell

FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {
    **contenders.FINDINGS,
    **fastest.FINDINGS,
    **kernels.FINDINGS,
    **over_rivals.FINDINGS,
    **pays.FINDINGS,
    **ranks.FINDINGS,
    **read_rates.FINDINGS,
    **regret.FINDINGS,
    **shares.FINDINGS,
    **stages.FINDINGS,
    **switches.FINDINGS,
    **traffic.FINDINGS,
}

DETAILS: dict[str, Callable[[list[Cell], Json], str]] = {
    **contenders.DETAILS,
    **kernels.DETAILS,
    **ranks.DETAILS,
    **shares.DETAILS,
    **switches.DETAILS,
    **traffic.DETAILS,
}

PLACES: dict[str, Callable[[list[Cell], Json], str]] = {**over_rivals.PLACES}

JUDGED: dict[str, Callable[[list[Cell], Json], Undecided]] = {
    **contenders.JUDGED,
    **over_rivals.JUDGED,
    **ranks.JUDGED,
    **stages.JUDGED,
    **traffic.JUDGED,
}
