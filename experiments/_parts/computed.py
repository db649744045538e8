"""The task of a function: it is timed, and its last result is proven."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import Declined, VerificationError
from harness.timing.clock import Clock, CpuClock


def nothing() -> None:
    """Return at once: the host has done its work."""


def require(module: str, package: str = "") -> None:
    """Raise Declined unless `module`, of `package`, is installed."""
    if importlib.util.find_spec(module) is None:
        raise Declined("missing", f"package {package or module} is not installed: pip install {package or module}")


@dataclass
class Computed:
    """A function without arguments, its input converted beforehand.

    Parameters
    ----------
    compute : callable
        Returns the result.
    check : callable
        ``check(result)`` returns a sentence that says what was compared, or raises VerificationError.
    known : mapping
        The facts.
    project : str
        Whose method it is, if not this project's.
    wait : callable
        Returns when a GPU is done.
    clock : callable
        Returns the clock.
    compiles : bool
        Whether the first call loads or compiles, and is made beforehand.
    starts_processes : bool
        Whether it may have processes that live on.
    """

    compute: Callable[[], Any]
    check: Callable[[Any], str]
    known: Mapping[str, Any]
    project: str = ""
    wait: Callable[[], Any] = nothing
    clock: Callable[[], Clock] = CpuClock
    compiles: bool = True
    starts_processes: bool = False
    result: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.compiles:
            self.run()
            self.wait()

    def run(self) -> None:
        """Compute once."""
        self.result = self.compute()

    def spoil(self) -> None:
        """Forget the result."""
        self.result = None

    def verify(self) -> str:
        """Check the last result."""
        if self.result is None:
            raise VerificationError("there is no result")
        return self.check(self.result)

    def facts(self) -> dict[str, Any]:
        """Return the facts, and whose method it is."""
        return {**self.known, **({"project": self.project} if self.project else {})}
