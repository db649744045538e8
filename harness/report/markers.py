"""Short tables and findings between the markers of a page that people write, as README.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.analysis import answers, caveats, rates
from harness.errors import HarnessError
from harness.experiment import Experiment
from harness.report.tables import short_table
from harness.store.store import Cell
from harness.surroundings import write_whole


def write_tables(
    page: Path, experiments: Iterable[Experiment], cells: Sequence[Cell], slug: str = "", *, mark: str = ""
) -> None:
    """Rewrite what stands in `page` between the markers of an experiment.

    ``<!-- ladder:begin -->``: a table of its first case, without intervals. ``<!-- finding ladder:begin -->``: what it,
    or a figure of that name, has found, in brief, as an item of a list; between markers that are indented, or within a
    line as those of a table are, as part of what they stand in. Markers of experiments without cells are left alone.

    Parameters
    ----------
    page : Path
    experiments : iterable of Experiment
    cells : sequence of Cell
        Of one machine.
    slug : str
        Only markers that name this machine, ``<!-- ladder of SLUG:begin -->``; empty: those that name none.
    mark : str
        A sentence about the code that makes the tables. It stands below each, with `caveats.of_code`.

    Raises
    ------
    HarnessError
        If a marker has no counterpart, or the page is not UTF-8. It stays as it is.
    """
    text, measured = _text_of(page), {cell.experiment for cell in cells}
    for experiment in experiments:
        if experiment.name not in measured:
            continue
        of = f" of {slug}" if slug else ""
        for name, finding in answers.by_name(experiment, cells, answers.in_brief).items():
            if f"<!-- finding {name}{of}:" in text:
                is_part = re.search(rf"^.+<!-- finding {re.escape(name + of)}:begin", text, re.MULTILINE)
                sentence = f"{'' if is_part else '- '}{finding}." if finding else ""
                text = update_markers(text, f"finding {name}{of}", sentence)
        if f"<!-- {experiment.name}{of}:" in text:
            recorded = [cell for cell in rates.current(cells) if cell.experiment == experiment.name]
            notes = [f"*{note}.*" for note in (caveats.of_code(recorded), mark) if note]
            text = update_markers(text, f"{experiment.name}{of}", "\n\n".join([short_table(experiment, cells), *notes]))
    write_whole(page, text)


def _text_of(page: Path) -> str:
    """Return what a page holds, with the ends of its lines, or raise HarnessError if it is not UTF-8."""
    content = page.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise HarnessError(
            f"{page}: the page cannot be read, and stays as it is",
            expected="text in UTF-8",
            got=f"byte 0x{content[error.start]:02x} in line {line}",
            fix="save it as UTF-8; `iconv -f latin1 -t utf-8 FILE` prints a file of Latin-1 so",
        ) from None


def update_markers(text: str, name: str, content: str) -> str:
    """Return `text` with `content` in place of the text between ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    Markers behind other text stay in its line.

    Raises
    ------
    HarnessError
        If the two markers do not stand in `text` exactly once, in this order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise HarnessError(
            f"the markers of {name!r} are not in place",
            expected=f"{begin} and then {end}, once each",
            got=f"{text.count(begin)} and {text.count(end)} of them",
        )
    indent = re.search(f"( *){re.escape(begin)}", text)
    lines = [begin, *content.strip().split("\n"), end]
    newline = "\r\n" if "\r\n" in text else "\n"
    is_behind = re.search(rf"\S.*{re.escape(begin)}", text)  # in one line, since no dot is its end
    written = (" " if is_behind else f"{newline}{indent[1] if indent else ''}").join(lines)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: written, text, flags=re.DOTALL)
