"""The command line, ``gemm-harness COMMAND``: its commands, and how mistakes are reported.

A command is a function of a module of this folder. It imports packages heavier than NumPy inside the function, so that
``--help`` and mistakes are answered at once.
"""

from __future__ import annotations

import atexit
import errno
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import backends, experiments, judge, page, results, stranger, track, tune
from harness.cli.options import USER_ERROR, complain
from harness.errors import HarnessError
from harness.machine import VERSION
from harness.run import ending

EXIT_STATUS = """Exit status: 0 all is well; 1 something that was tried failed (a cell of a run, a check);
2 the request cannot be carried out as it stands; 130 interrupted (143 by SIGTERM)."""

app = typer.Typer(
    name="gemm-harness",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EXIT_STATUS,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    """Print the version and end."""
    if is_asked:
        typer.echo(f"gemm-harness {VERSION}")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Compare ways to compute matrix products over semirings: prove them right, time them, draw and report."""


COMMANDS: dict[str, Callable[..., Any]] = {
    "list": backends.list_backends,
    "info": backends.info,
    "check": backends.check,
    "kernel": backends.kernel,
    "run": experiments.run,
    "plot": experiments.plot,
    "report": experiments.report,
    "page": page.page,
    "results": results.results,
    "tune": tune.tune,
    "calibrate": judge.calibrate,
    "compare": judge.compare,
    "judge": stranger.judge,
    "bench-compare": track.bench_compare,
}
for _name, _function in COMMANDS.items():
    app.command(_name)(_function)


def _told(error: OSError) -> HarnessError:
    """Return the message of an exception of the system, which names a path or none."""
    if error.errno == errno.ENOENT and not error.filename and _is_nowhere():
        return HarnessError("the working directory has been removed", fix="cd to a folder that is there, and again")
    if not error.filename:
        return HarnessError(str(error))
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return HarnessError(
        f"{error.filename}: cannot be read or written",
        got=error.strerror or str(error),
        fix="make room there" if is_full else "another path, by the options of the command that name folders and files",
    )


def _is_nowhere() -> bool:
    """Return whether the working directory is gone."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def main() -> None:
    """Run the command line. A mistake of the user is a message on stderr and status 2, never a traceback."""
    atexit.register(gc.freeze)  # to search all that Numba has made for garbage, as Python ends, takes a fifth of `list`
    try:
        with ending.raising():
            app()
    except ending.Terminated as ended:
        complain("interrupted")
        sys.exit(ending.status_of(ended))
    except HarnessError as error:
        complain(error)
        sys.exit(USER_ERROR)
    except OSError as error:  # a full disk, a folder that may not be written
        complain(_told(error))
        sys.exit(USER_ERROR)
