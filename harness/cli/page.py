"""The command `page`: what every machine has measured, in one file to explore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.store import places

# A build output: it is made anew from the store in seconds, and is not kept with it.
PAGE = places.HOME / "build" / "page.html"


def _page_path(text: str | Path) -> Path:
    """Return the path of the page; the folder of the usual one is made."""
    return options.filled_path(text) if str(text) == str(PAGE) else options.file_path(text)


def page(
    *,
    preset: options.Stored = None,
    machine: options.Machines = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            parser=options.filled_path,
            metavar="<path>",
            help="Folder of the stored results. [default: your own, beside the published ones]",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", parser=_page_path, help="The file to write.")
    ] = PAGE,
) -> None:
    """Write one HTML file with what every machine, or some, has measured: findings, charts, every cell.

    It opens from the disk, without a server and without a network.
    """
    from harness.catalogue import load_all
    from harness.cli import console
    from harness.page import document
    from harness.page.recorded import Recorded
    from harness.run import provenance

    machines = [
        Recorded(slug, cells, owner, root / slug, is_own=root == places.OWN.results)
        for root, names in ([(results, machine or ())] if results else options.holding(preset, machine or ()))
        for slug, cells, owner in options.recorded(root, preset, names)
    ]
    machines.sort(key=lambda own: (not own.is_own, -len(own.cells)))
    size = document.write(machines, load_all(), output, mark=provenance.mark())
    console.print_lines(f"page     {output}  ({size / 1e6:.2f} MB)")
