"""The command line, ``gemm-harness COMMAND``: which commands there are, and what becomes of mistakes.

A command is a function of a ``cli_`` module; what it needs beyond NumPy it imports inside, so that ``--help`` and
mistakes answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer

from harness import cli_experiments, cli_inspect, cli_judge, cli_results, cli_track
from harness.cli_options import USER_ERROR, complain
from harness.errors import HarnessError

EXIT_STATUS = """Exit status: 0 all is well; 1 something that was tried failed (a cell of a run, a check);
2 the request cannot be carried out as it stands; 130 interrupted."""

app = typer.Typer(
    name="gemm-harness",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Compare ways to compute matrix products over semirings: prove them right, time them, draw and report.",
    epilog=EXIT_STATUS,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, Callable[..., Any]] = {
    "list": cli_inspect.list_backends,
    "info": cli_inspect.info,
    "check": cli_inspect.check,
    "run": cli_experiments.run,
    "plot": cli_experiments.plot,
    "report": cli_experiments.report,
    "results": cli_results.results,
    "tune": cli_inspect.tune,
    "calibrate": cli_judge.calibrate,
    "compare": cli_judge.compare,
    "bench-compare": cli_track.bench_compare,
    "history": cli_track.history,
}
for _name, _function in COMMANDS.items():
    app.command(_name)(_function)


def main() -> None:
    """Run the command line. A mistake of the user is a message on stderr and status 2, never a traceback."""
    try:
        app()
    except HarnessError as error:
        complain(error)
        sys.exit(USER_ERROR)
    except OSError as error:  # a full disk, a folder that may not be written
        complain(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
        sys.exit(USER_ERROR)
