"""Findings about where something pays: from which size on, on a device, on how many threads. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from harness.analysis import offload, rates
from harness.analysis.findings.panels import MOST_PANELS, named_panels
from harness.experiment import Json
from harness.store.store import Cell

_WORK = {"strong": "of the rate of one on the same product", "weak": "on as much work each"}
_BRIEFLY = {"strong": "of the rate of one", "weak": "on as much work each"}


def thresholds(cells: list[Cell], options: Json) -> str:
    """Return from which size on a device pays, copies included; problems with the same thresholds together."""
    found = offload.thresholds(rates.contenders(cells))
    backends = {threshold.contender.partition(", ")[0] for threshold in found}
    who = backends.pop() if len(backends) == 1 else ""
    by_problem = rates.group(found, lambda threshold: threshold.problem)
    alike = rates.group(
        by_problem, lambda problem: ", ".join(str(own).removeprefix(f"{who}, ") for own in by_problem[problem])
    )
    sentences = [f"{words} ({', '.join(problems)})" for words, problems in alike.items()]
    return f"{who or 'The GPU'} overtakes the CPU: {'; '.join(sentences[:MOST_PANELS])}" if sentences else ""


def pays(cells: list[Cell], options: Json) -> str:
    """Return for each contender from which size on, or up to which, it is surely faster than the reference."""
    sentences = [
        f"{name}{sentence}"
        for group, name in named_panels(cells, options)
        if (sentence := _pays(group, cells)) is not None
    ]
    return "; ".join(sentences)


def _pays(group: Sequence[Cell], cells: list[Cell]) -> str | None:
    """Return which contenders of a panel pay from which size on, the earliest first, which up to one, which nowhere."""
    paying, fading, never, reference, last = list[tuple[int, str]](), list[tuple[int, str]](), list[str](), "", 0
    for name, own in rates.group(group, lambda cell: cell.contender).items():
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
    if not paying and not fading:
        return f"Nothing is faster than {reference} up to n={last}: not {' nor '.join(never)}"
    sizes = [rates.group(sorted(found), lambda entry: entry[0]).items() for found in (paying, fading)]
    gains, losses = [[(n, " and ".join(name for _, name in own)) for n, own in by_size] for by_size in sizes]
    from_sizes = [", ".join(f"{names} from n={n} on" for n, names in gains)] if gains else []
    up_to_sizes = [f"{names} only up to n={n}" for n, names in losses]
    nowhere = [f"not up to n={last}: {' nor '.join(never)}"] if never else []
    return f"Faster than {reference}: {'; '.join([*from_sizes, *up_to_sizes, *nowhere])}"


def _last_of_the_first(sizes: Sequence[tuple[int, bool]]) -> int:
    """Return the largest of the first sizes that all pay; 0 where the smallest does not."""
    return max((n for n, _ in itertools.takewhile(lambda size: size[1], sizes)), default=0)


def scaling(cells: list[Cell], options: Json) -> str:
    """Return how much of the rate of one thread each of the most threads keeps, by mode and kind of work.

    Of the subject, and of the others at the first kind of work.
    """
    own = [cell for cell in rates.contenders(cells) if cell.is_ok]
    most = max((cell.threads for cell in own), default=1)
    kept: dict[str, dict[str, dict[str, float]]] = {}
    for (mode, work), group in rates.group(own, lambda cell: (cell.axes.get("mode"), cell.axes.get("work"))).items():
        last = {method: points[-1] for method, points in rates.scaling(group).items()}
        shares = {method: 100 * gain.estimate / most for method, (threads, gain) in last.items() if threads == most}
        if len(shares) > 1 and most > 1 and mode in _WORK:
            kept.setdefault(mode, {})[str(work)] = shares
    if not kept:
        return ""
    subject, first = options.get("subject", ""), {mode: next(iter(works.values())) for mode, works in kept.items()}
    if not all(subject in shares for works in kept.values() for shares in works.values()):
        return f"Each of {most} threads keeps " + ", ".join(f"{_span(first[mode])} {_WORK[mode]}" for mode in kept)
    words = ", ".join(f"{_of_subject(works, subject)} {_BRIEFLY[mode]}" for mode, works in kept.items())
    others = [share for method, share in next(iter(first.values())).items() if method != subject]
    return f"Each of {most} threads of {subject} keeps {words}; others {min(others):.0f} to {max(others):.0f} %"


def _of_subject(works: dict[str, dict[str, float]], subject: str) -> str:
    """Return the share of the subject at each kind of work: "99 % (ragged 44 %)"."""
    (_, shares), *others = works.items()
    rest = "".join(f", {work} {other[subject]:.0f} %" for work, other in others)
    return f"{shares[subject]:.0f} %" + (f" ({rest[2:]})" if rest else "")


def _span(shares: dict[str, float]) -> str:
    """Return the least share and the most, with their methods: "63 % (cpu-numpy) to 108 % (loop ir)"."""
    least, most = (end(shares, key=lambda method: shares[method]) for end in (min, max))
    return f"{shares[least]:.0f} % ({least}) to {shares[most]:.0f} % ({most})"


FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {"thresholds": thresholds, "pays": pays, "threads": scaling}
