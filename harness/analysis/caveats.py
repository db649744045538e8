"""Caveats of measured cells: which have no time and why, and how far to trust the others.

The same remarks stand in the rows of a table, in a list below an experiment's figures, and in a line of each figure.
Pure, from cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.analysis import conditions as analysis_conditions
from harness.analysis import contests, offload, peaks, rates
from harness.stats import verdict
from harness.stats.statistics import FEWEST_FOR_INTERVAL
from harness.stats.verdict import Verdict
from harness.store.schema import DIRTY, UNKNOWN
from harness.store.store import Cell

# Of so many contenders each is named.
MOST_NAMED = 3
LONGEST_REASON = 300
# Of launch-bound sizes below a figure, in characters: longer lists are counted.
LONGEST_SIZES = 120

OFFLOAD_THRESHOLD = "Offload threshold"
_OFFLOAD_MEANING = "from where on it is surely faster than the best of the CPU"

LAUNCH_BOUND = "launch-bound"
_LAUNCH_BOUND_MEANING = "the host takes about as long to launch a call as the GPU to compute it, or longer"

# Why a verdict on the ratio to the reference is UNSURE, as rows and lists say it.
EVEN, FEW = "undecided: level", "undecided: few samples"
# A time that is surely within this factor of the other one is level with it. That answers who is faster, and how much
# of a rate is left. Of one process it takes a wider factor: processes differ by some per cent, which it cannot show.
LEVEL, LEVEL_ALONE = 1.05, 1.1
_NOTHING = ": nothing is decided"

Key = tuple[str, str, str]


def of_cell(cell: Cell, unsure: Mapping[Key, str]) -> str:
    """Return the remarks on `cell`: why it has no time, or of its time, whose ratio may be `unsure`; mostly none."""
    if not cell.is_ok:
        return cell.reason.strip().partition("\n")[0]
    unmet = ", ".join(name for name, _ in conditions(cell))
    bound = LAUNCH_BOUND if analysis_conditions.is_launch_bound(cell) else ""
    one = analysis_conditions.one_of_several(cell)
    remarks = [
        unsure.get(key(cell), ""),
        one,
        bound,
        unmet and f"not met: {unmet}",
        *analysis_conditions.marks(cell.record),
    ]
    return "; ".join(filter(None, remarks))


def of_section(cells: Sequence[Cell], unsure: Mapping[Key, str], roofs: Sequence[Cell] = ()) -> list[str]:
    """Return what a reader of the figures and tables of one experiment has to know, in Markdown, a line each.

    `unsure` are the `doubts` about its cells, `roofs` what other experiments and runs measured for them.
    """
    timed = [cell for cell in cells if cell.is_ok]
    failed = [known for known in rates.not_measured(cells) if known[0] == "failed"]
    older = [cell for cell, _ in _with_peak_of_another_run(cells, roofs)]
    bound = [cell for cell in timed if analysis_conditions.is_launch_bound(cell)]
    counted = (
        ("Declined", [cell for cell in cells if cell.status == "declined"], cells),
        ("Missing", [cell for cell in cells if cell.status == "missing"], cells),
        ("Undecided", [cell for cell in timed if key(cell) in unsure], [cell for cell, _ in _compared(timed)]),
        ("Budget not met", [cell for cell in timed if conditions(cell)], timed),
        ("Disturbed", [cell for cell in timed if analysis_conditions.marks(cell.record)], timed),
        ("Peak of another run", older, timed),
        ("One process", rates.one_process(timed), timed),
    )
    return [
        *(f"**Failed**, {_of(group, cells)}: {_text(reason)}" for _, reason, group in failed),
        *(f"**{OFFLOAD_THRESHOLD}**, {_OFFLOAD_MEANING}: {sentence}" for sentence in offload.sentences(timed)),
        *([f"**{LAUNCH_BOUND.capitalize()}**, {_of(bound, timed)}: {_few(bound, timed)}"] if bound else []),
        *(f"**{name}**, {_of(group, everything)}" for name, group, everything in counted if group),
    ]


def in_figure(cells: Iterable[Cell]) -> list[str]:
    """Return sentences that name thresholds and launch-bound sizes, and one that counts what a figure cannot show."""
    timed = rates.timed(cells)
    unsure = undecided(timed)
    counts = {
        "ratios undecided": (unsure.undecided, unsure.ratios),
        "times taken on a throttled or shared machine": (
            sum(bool(analysis_conditions.marks(cell.record)) for cell in timed),
            len(timed),
        ),
        "times with fewer samples than asked for": (sum(bool(conditions(cell)) for cell in timed), len(timed)),
        "times of code that no commit holds": (len(_of_no_commit(timed)), len(timed)),
    }
    parts = [
        (f"all {of}" if count == of > 1 else f"{count} of {of}", name, count) for name, (count, of) in counts.items()
    ]
    counted = [f"{part} {name}" for part, name, count in parts if count]
    bound = [cell for cell in timed if analysis_conditions.is_launch_bound(cell)]
    return [
        *(f"{OFFLOAD_THRESHOLD} ({_OFFLOAD_MEANING}), {sentence}" for sentence in offload.sentences(timed)),
        *([f"{LAUNCH_BOUND.capitalize()} ({_LAUNCH_BOUND_MEANING}): {_few(bound, timed)}"] if bound else []),
        *([f"To keep in mind: {', '.join(counted)}; the report says which"] if counted else []),
    ]


def of_peaks(cells: Sequence[Cell], roofs: Sequence[Cell]) -> str:
    """Return when the peaks were measured that hold for `cells` and are of other runs than they; mostly nothing."""
    older, timed = _with_peak_of_another_run(cells, roofs), rates.timed(cells)
    if not older:
        return ""
    count = f"all {len(timed)}" if len(older) == len(timed) else f"{len(older)} of {len(timed)}"
    return f"The peak is of another run, measured on {_days(older)} (for {count} times)"


def _with_peak_of_another_run(cells: Iterable[Cell], roofs: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the cells whose peak is of another run, with that peak."""
    own = list(cells)
    by_kind = peaks.peaks_by_kind([*own, *roofs])
    timed = rates.timed(own)
    found = ((cell, peaks.nearest(cell, by_kind.get(peaks.kind(cell), []))) for cell in timed)
    return [(cell, peak) for cell, peak in found if peak is not None and peak.run != cell.run]


def _days(found: Iterable[tuple[Cell, Cell]]) -> str:
    """Return the days on which peaks were measured: "2026-11-23", "2026-11-21 to 2026-11-23"."""
    days = sorted({peak.time[:10] for _, peak in found})
    return " to ".join(dict.fromkeys((days[0], days[-1])))


def _few(bound: Sequence[Cell], timed: Sequence[Cell]) -> str:
    """Return the sentences about launch-bound sizes if they are short, else how many times are launch-bound."""
    told = ". ".join(analysis_conditions.launch_bound(bound))
    return told if len(told) <= LONGEST_SIZES else f"{len(bound)} of {len(timed)} times; the report says which"


class Undecided(NamedTuple):
    """How many ratios have no verdict."""

    undecided: int
    few: int  # of them for want of samples
    ratios: int  # in all
    samples: int  # the fewest pairs of samples of those
    disturbed: int = 0  # of them because their times were disturbed


def undecided(cells: Iterable[Cell]) -> Undecided:
    """Return how many ratios to references have no verdict; an experiment is a sweep."""
    timed = rates.timed(cells)
    sweeps = rates.group(timed, lambda cell: cell.experiment).values()
    found = [without_verdict(_compared(sweep)) for sweep in sweeps]
    undecided, few, ratios = (sum(one[field] for one in found) for field in range(3))
    return Undecided(undecided, few, ratios, min((one.samples for one in found if one.undecided), default=0))


def of_times(cells: Sequence[Cell]) -> Undecided:
    """Return how many times decide nothing by themselves: another program or the host disturbed them."""
    disturbed = sum(map(analysis_conditions.is_disturbed, cells))
    return Undecided(disturbed, 0, len(cells), 0, disturbed)


def of_code(cells: Sequence[Cell]) -> str:
    """Return a sentence that counts the cells whose code no commit holds, so that nobody can measure it again."""
    unheld = _of_no_commit(cells)
    if not unheld:
        return ""
    dirty = sum(str(cell.record["commit"]).endswith(DIRTY) for cell in unheld)
    origins = ((dirty, "of changed sources"), (len(unheld) - dirty, "of sources under no version control"))
    parts = ", ".join(f"{count} {origin}" for count, origin in origins if count)
    return f"Measured with code that no commit holds: {len(unheld)} of {rates.plural(len(cells), 'cell')} ({parts})"


def _of_no_commit(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells measured with changed sources, or with sources under no version control."""
    return [cell for cell in cells if str(cell.record.get("commit", "")).endswith((DIRTY, UNKNOWN))]


def doubts(cells: Iterable[Cell]) -> dict[Key, str]:
    """Return by `key` why the verdict on the ratio of a cell to its reference is UNSURE; an experiment is a sweep."""
    reasons: dict[Key, str] = {}
    for sweep in rates.group(cells, lambda cell: cell.experiment).values():
        pairs = _compared(sweep)
        reasons |= {key(cell): why for (cell, _), why in zip(pairs, _why_unsure(pairs), strict=True) if why}
    return reasons


def _why_unsure(pairs: Sequence[tuple[Cell, Cell]]) -> list[str]:
    """Return why the ratio of each pair has no verdict, `EVEN` or `FEW`; empty where it has one, or is `LEVEL`."""
    comparisons = verdict.compare_all((cell.samples_ns, other.samples_ns) for cell, other in pairs)
    outcomes = zip(pairs, verdict.judge(comparisons), verdict.settle(comparisons), strict=True)
    reasons: list[str] = []
    for (cell, other), outcome, settled in outcomes:
        is_level = verdict.lies_within(settled.ratio, LEVEL if settled.processes > 1 else LEVEL_ALONE)
        _, low, high = rates.time_ratio(cell, other)
        reasons.append("" if outcome is not Verdict.UNSURE or is_level else EVEN if low <= 1 <= high else FEW)
    return reasons


def of_shares(pairs: Iterable[tuple[Cell, Cell | None]]) -> Undecided:
    """Return how many shares have no verdict: rates of cells in parts of the rate of another, as of the peak.

    Of a share of something that was not measured in turns, or that is no ratio of times, it is whether the cell has
    too few samples for an interval, or was disturbed: what was taken in turns was disturbed alike, this was not.
    """
    known = list(pairs)
    beside = [(cell, whole) for cell, whole in known if whole is not None and rates.in_turns(cell, whole)]
    alone = [cell for cell, whole in known if whole is None or not rates.in_turns(cell, whole)]
    few = [len(cell.all_samples_ns) for cell in alone if len(cell.all_samples_ns) < FEWEST_FOR_INTERVAL]
    disturbed = of_times([cell for cell in alone if len(cell.all_samples_ns) >= FEWEST_FOR_INTERVAL]).undecided
    judged = without_verdict(beside)
    return Undecided(
        judged.undecided + len(few) + disturbed,
        judged.few + len(few),
        len(known),
        min([*few, *([judged.samples] if judged.undecided else [])], default=0),
        disturbed,
    )


def without_verdict(pairs: Sequence[tuple[Cell, Cell]]) -> Undecided:
    """Return how many of the ratios of pairs have no verdict; all of them are one sweep."""
    doubtful = [(why, pair) for why, pair in zip(_why_unsure(pairs), pairs, strict=True) if why]
    few = sum(why == FEW for why, _ in doubtful)
    counts = (min(len(cell.all_samples_ns) for cell in pair) for _, pair in doubtful)
    return Undecided(len(doubtful), few, len(pairs), min(counts, default=0))


def ties(pairs: Sequence[tuple[Cell, Cell]]) -> int:
    """Return how many pairs are level as far as their samples say: not those of which these are too few to say."""
    outcomes = contests.verdicts(pairs)
    return sum(
        outcome is Verdict.SAME or why == EVEN for outcome, why in zip(outcomes, _why_unsure(pairs), strict=True)
    )


def doubt(found: Undecided) -> str:
    """Return a mark for a sentence about ratios of which some have no verdict: " (7 of 12 undecided)"; else nothing."""
    if not found.undecided:
        return ""
    return " (undecided)" if found.undecided == found.ratios else f" ({found.undecided} of {found.ratios} undecided)"


def nothing_decided(found: Undecided) -> str:
    """Return the sentence in place of a finding of which more than half the numbers are undecided; else nothing."""
    if 2 * found.undecided <= found.ratios:
        return ""
    if 2 * found.disturbed > found.undecided:
        return f"{found.disturbed} of {rates.plural(found.ratios, 'time')} were disturbed{_NOTHING}"
    return f"No verdict on {found.undecided} of {rates.plural(found.ratios, 'ratio')}{_NOTHING}"


def speaks_of_doubt(sentence: str) -> bool:
    """Return whether a sentence ends with the mark of `doubt`, or says that nothing is decided."""
    return sentence.endswith((" undecided)", "(undecided)", _NOTHING))


def is_unsettled(sentence: str) -> bool:
    """Return whether all numbers of a sentence are undecided, or so many that it has none."""
    return sentence.endswith(("(undecided)", _NOTHING))


def conditions(cell: Cell) -> list[tuple[str, str]]:
    """Return the conditions of its budget that a cell did not meet: name and how far off, "rounds", "2 of 3 in 4 s"."""
    parts = [part.partition(": ") for part in str(cell.record.get("unmet", "")).split("; ") if part]
    return [(name, detail) if detail else ("rounds", name) for name, _, detail in parts]  # older records name none


def key(cell: Cell) -> Key:
    """Return the identity of `cell`."""
    return cell.run, cell.case, cell.contender


def _of(group: Sequence[Cell], everything: Sequence[Cell]) -> str:
    """Return how many of `everything` are in `group`, with their contenders unless it is all."""
    if len(group) == len(everything):
        return f"all {len(group)}"
    counts = {name: len(members) for name, members in rates.group(group, lambda cell: cell.contender).items()}
    names = [name if count == 1 else f"{name} ({count})" for name, count in list(counts.items())[:MOST_NAMED]]
    more = f"; {rates.plural(len(counts) - MOST_NAMED, 'other')}" if len(counts) > MOST_NAMED else ""
    return f"{len(group)} of {len(everything)}: {'; '.join(names)}{more}"


def _text(reason: str) -> str:
    """Return a reason as Markdown shows it: short, and with nothing that could be a tag."""
    short = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]} ..."
    return short.replace("<", "&lt;")


def _compared(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return each cell that is not the reference of its case, with that, if both have a time.

    A reference that chose its backend, as ``"auto"`` does, is no rival of that backend: nothing is to be decided.
    """
    by_key: Mapping[Key, Cell] = {key(cell): cell for cell in cells if cell.is_ok}
    pairs = [(cell, by_key.get((cell.run, cell.case, cell.reference))) for cell in by_key.values()]
    rivals = [(cell, other) for cell, other in pairs if other is not None and other is not cell]
    chosen = [(rates.chosen_backend(cell), rates.chosen_backend(other)) for cell, other in rivals]
    return [pair for pair, (own, of_reference) in zip(rivals, chosen, strict=True) if not own or own != of_reference]
