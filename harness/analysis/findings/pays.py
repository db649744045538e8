"""Findings about where something pays: from which size on, on a device, on how many threads. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from harness.analysis import conditions, offload, rates
from harness.analysis.findings.panels import MOST_PANELS, named_panels
from harness.analysis.places import verb
from harness.analysis.ragged_sizes import REGULAR_KINDS
from harness.experiment import Json
from harness.store.store import Cell

MOST_OF_ITS_BEST = 0.9
_WORK = {"strong": " on the same product", "weak": " on as much work each"}


def thresholds(cells: list[Cell], options: Json) -> str:
    """Return from which size on a device is surely faster, copies included; problems with the same sizes together."""
    found = offload.thresholds(rates.contenders(cells))
    backends = {threshold.contender.partition(", ")[0] for threshold in found}
    who = backends.pop() if len(backends) == 1 else ""
    by_problem = rates.group(found, lambda threshold: threshold.problem)
    alike = rates.group(by_problem, lambda problem: _from_sizes(by_problem[problem], who))
    sentences = [f"{words} over {' and '.join(problems)}" for words, problems in alike.items()]
    return f"{who or 'The GPU'} is faster than the CPU {'; '.join(sentences[:MOST_PANELS])}" if sentences else ""


def _from_sizes(found: Sequence[offload.Threshold], who: str) -> str:
    """Return "from n=1024 (copies always) and n=384 (copies once) on"; "nowhere up to n=64 (copies always)"."""
    sizes = {True: list[str](), False: list[str]()}
    for threshold in found:
        n = threshold.above if threshold.up_to is None else threshold.up_to
        sizes[threshold.up_to is not None].append(f"n={n} ({threshold.contender.removeprefix(f'{who}, ')})")
    faster, slower = (" and ".join(sizes[is_faster]) for is_faster in (True, False))
    return ", ".join([*([f"from {faster} on"] if faster else []), *([f"nowhere up to {slower}"] if slower else [])])


def launches(cells: list[Cell], options: Json) -> str:
    """Return up to which size the subject computes in no more time than the host takes to launch it, by problem."""
    own = [cell for cell in rates.contenders(cells) if cell.is_ok and cell.contender == options["subject"]]
    found = []
    for problem, alike in rates.group(own, lambda cell: str(rates.axis(cell, "problem"))).items():
        bound = [int(rates.axis(cell, "n")) for cell in alike if conditions.is_launch_bound(cell)]
        found.append(f"up to n={max(bound)} over {problem}" if bound else f"at no size over {problem}")
    return f"A product by {options['subject']} takes no longer than its launch {', '.join(found)}" if found else ""


def grows(cells: list[Cell], options: Json) -> str:
    """Return from which size of whole tiles on the subject has most of its best rate, by problem."""
    own = [cell for cell in rates.contenders(cells) if cell.is_ok and cell.contender == options["subject"]]
    found = dict[int, list[str]]()
    for problem, alike in rates.group(own, lambda cell: str(rates.axis(cell, "problem"))).items():
        regular = sorted(
            (int(rates.axis(cell, "n")), cell.rate) for cell in alike if cell.axes.get("kind") in REGULAR_KINDS
        )
        if len(regular) > 1:
            best = max(rate for _, rate in regular)
            slow = max((n for n, rate in regular if rate < MOST_OF_ITS_BEST * best), default=0)
            found.setdefault(min(n for n, _ in regular if n > slow), []).append(problem)
    first = f"{options['subject']} has {100 * MOST_OF_ITS_BEST:.0f} % of its best rate"
    places = ", ".join(f"from n={n} on over {' and '.join(problems)}" for n, problems in sorted(found.items()))
    return f"{first} {places}" if found else ""


class _Gains(NamedTuple):
    """Where contenders of a panel are surely faster than the reference, up to size `last`."""

    reference: str
    last: int
    places: list[tuple[str, str]]  # ("1 level", "from n=2560 on"), the earliest first; ("dijkstra", "only up to n=256")
    nowhere: list[str]  # contenders


def pays(cells: list[Cell], options: Json) -> str:
    """Return for each contender from which size on, or up to which, it is surely faster than the reference.

    Of several panels those contenders are named that are faster somewhere. The option ``words`` has what
    a sentence calls contenders whose labels only a figure explains.
    """
    found = [
        (name, gains)
        for group, name in named_panels(cells, options)
        if (gains := _gains(group, cells, options.get("words", {}))) is not None
    ]
    if not found:
        return ""
    (_, first), *others = found
    if not others:
        sentence = _in_full(first)
        return sentence[0].upper() + sentence[1:] if "words" in options else sentence
    told = list[str]()  # the reference is said where something is first faster than it
    for name, gains in found:
        of = f" faster than {gains.reference}" if not any("faster than" in part for part in told) else ""
        told.append(f"{name}{_faster(gains.places, of) or f'nothing{of} up to n={gains.last}'}")
    return "; ".join(told)


def _in_full(gains: _Gains) -> str:
    reference, last, places, nowhere = gains
    if not places:
        return f"Nothing is faster than {reference} up to n={last}: not {' nor '.join(nowhere)}"
    never = f"{nowhere[0]} at no size" if len(nowhere) == 1 else "no other at any size"
    rest = [f"{never} up to n={last}"] if nowhere else []
    return "; ".join([_faster(places, f" faster than {reference}"), *rest])


def _faster(places: Sequence[tuple[str, str]], of: str) -> str:
    """Return "1 level is faster than cpu-simd from n=2560 on; 2 levels from n=4096 on"; empty without places."""
    is_plural = bool(places) and (" and " in places[0][0] or verb(places[0][0], "", "s") == "s")
    does = f" {'are' if is_plural else 'is'}{of}" if of else ""
    return "; ".join(f"{names}{does * (not i)} {where}" for i, (names, where) in enumerate(places))


def _gains(group: Sequence[Cell], cells: list[Cell], words: Mapping[str, str]) -> _Gains | None:
    """Return where the contenders of a panel pay; None without a time of any beside that of the reference."""
    paying, fading, never, reference, last = list[tuple[int, str]](), list[tuple[int, str]](), list[str](), "", 0
    for label, own in rates.group(group, lambda cell: cell.contender).items():
        name = words.get(label, label)
        pairs = [(rates.axis(c, "n"), c, r) for c in own if c.is_ok and (r := rates.reference_of(c, cells)) is not None]
        ratios = sorted((n, rates.speed_up(c, r).low) for n, c, r in pairs if r is not c)
        if ratios:
            above = max((n for n, low in ratios if low <= 1), default=0)
            from_size = min((n for n, _ in ratios if n > above), default=None)
            up_to = _last_of_the_first([(n, low > 1) for n, low in ratios])
            paying += [(from_size, name)] if from_size else []
            fading += [(up_to, name)] if up_to and not from_size else []
            never += [] if from_size or up_to else [name]
            reference, last = pairs[0][1].reference, max(last, ratios[-1][0])
    if not reference:
        return None
    sizes = [rates.group(sorted(found, key=_size), _size).items() for found in (paying, fading)]
    rising, falling = [[(n, " and ".join(name for _, name in own)) for n, own in by_size] for by_size in sizes]
    from_sizes = [(names, f"from n={n} on") for n, names in rising]
    return _Gains(reference, last, [*from_sizes, *((names, f"only up to n={n}") for n, names in falling)], never)


def _size(place: tuple[int, str]) -> int:
    return place[0]


def _last_of_the_first(sizes: Sequence[tuple[int, bool]]) -> int:
    """Return the largest of the first sizes that all pay; 0 where the smallest does not."""
    return max((n for n, _ in itertools.takewhile(lambda size: size[1], sizes)), default=0)


def scaling(cells: list[Cell], options: Json) -> str:
    """Return how much of the rate of one thread each of the most threads keeps, on work of one mode.

    Of the subject at each kind of work, and of the others at the first.
    """
    own = [cell for cell in rates.contenders(cells) if cell.is_ok]
    most = max((cell.threads for cell in own), default=1)
    kept: dict[str, dict[str, float]] = {}
    for work, group in rates.group(own, lambda cell: str(cell.axes.get("work"))).items():
        last = {method: points[-1] for method, points in rates.scaling(group).items()}
        shares = {method: 100 * gain.estimate / most for method, (threads, gain) in last.items() if threads == most}
        if len(shares) > 1 and most > 1:
            kept[work] = shares
    if not kept:
        return ""
    subject, of_work = options.get("subject", ""), _WORK[rates.common(own, "mode")]
    first = next(iter(kept.values()))
    if not all(subject in shares for shares in kept.values()):
        return f"Each of {most} threads keeps {_span(first)} of the rate of one{of_work}"
    others = [f"{share:.0f}" for method, share in sorted(first.items(), key=lambda s: s[1]) if method != subject]
    among = " to ".join(dict.fromkeys([others[0], others[-1]]))
    return (
        f"Each of {most} threads of {subject} keeps {_of_subject(kept, subject)} of the rate of one{of_work}; "
        f"others {among} %"
    )


def _of_subject(works: dict[str, dict[str, float]], subject: str) -> str:
    """Return the share of the subject at each kind of work: "99 % (ragged 44 %)"."""
    (_, shares), *others = works.items()
    rest = "".join(f", {work} {other[subject]:.0f} %" for work, other in others)
    return f"{shares[subject]:.0f} %" + (f" ({rest[2:]})" if rest else "")


def _span(shares: dict[str, float]) -> str:
    """Return the least share and the most, with their methods: "63 % (cpu-numpy) to 108 % (loop ir)"."""
    least, most = (end(shares, key=lambda method: shares[method]) for end in (min, max))
    return f"{shares[least]:.0f} % ({least}) to {shares[most]:.0f} % ({most})"


FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {
    "thresholds": thresholds,
    "pays": pays,
    "threads": scaling,
    "launches": launches,
    "grows": grows,
}
