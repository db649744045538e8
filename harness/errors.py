"""The harness's exceptions, and the common form of their messages: who, expected, got, fix.

`check_imports` raises the one that a call may meet anywhere: that Python ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Self


class HarnessError(Exception):
    """A mistake that the user can put right. Printed without a traceback.

    Parameters
    ----------
    what : str
        Who is wrong and what is wrong: ``"gemm: the inner sizes of a and b differ"``.
    expected, got, fix : str, optional
        The expected value, the actual one, and the remedy if it is known.
    """

    def __init__(self, what: str, *, expected: str = "", got: str = "", fix: str = "") -> None:
        self.what, self.expected, self.got, self.fix = what, expected, got, fix
        rows = [("expected", expected), ("got", here(got)), ("fix", here(fix))]
        super().__init__("\n".join([what, *(f"  {word:<9} {text}" for word, text in rows if text)]))

    @classmethod
    def unknown(cls, noun: str, name: object, known: Iterable[str], expected: Iterable[str] | None = None) -> Self:
        """Return the error that no `noun` has that name; the fix is the closest of the `known` ones."""
        import difflib

        known = list(known)
        close = difflib.get_close_matches(str(name), known, n=1) or difflib.get_close_matches(str(name).lower(), known)
        names = known if expected is None else expected
        listed = ", ".join(repr(name) if "," in name else name for name in names)
        return cls(f"unknown {noun} {name!r}", expected=listed, fix=f"did you mean {close[0]!r}?" if close else "")

    def told_by(self, caller: str) -> Self:
        """Return this error in the name of `caller`, the call that was given what is wrong."""
        if self.what.startswith(caller):
            return self
        return type(self)(f"{caller}: {self.what}", expected=self.expected, got=self.got, fix=self.fix)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.expected, self.got, self.fix)


def _rebuild(cls: type[HarnessError], what: str, expected: str, got: str, fix: str) -> HarnessError:
    return cls(what, expected=expected, got=got, fix=fix)


class ProblemError(HarnessError, ValueError):
    """A product that is not defined: shapes, dtype, semiring, scalars or arrays do not fit."""


class PlanError(HarnessError, ValueError):
    """Block sizes or parameters that a backend cannot run with."""


class ExperimentError(HarnessError, ValueError):
    """An experiment, a preset or a contender that does not exist or contradicts itself."""


class BackendUnavailable(HarnessError):
    """A backend that is unknown, cannot be imported, or misses something on this machine."""


class ConvergenceError(HarnessError, ArithmeticError):
    """An iteration that has stopped short of its tolerance."""


class VerificationError(HarnessError):
    """A computed product that differs from the definition."""


class StoreError(HarnessError):
    """A result file that cannot be read or written."""


class Declined(HarnessError):
    """A contender that is out of scope, or missing on this machine: data for the record, not a failure.

    Parameters
    ----------
    status : str
        ``"declined"`` or ``"missing"``.
    reason : str
    """

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        super().__init__(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.what)


def here(text: str) -> str:
    """Return `text` with the commands of pip and of the harness in it as one gives them here: to this interpreter."""
    if "pip install" not in text and "python -m harness" not in text:
        return text
    import re
    import shlex
    import shutil

    python = "python" if shutil.which("python") == sys.executable else shlex.quote(sys.executable or "python")
    return re.sub(r"(?<![/\w])python -m (?=harness|pip)|(?<!-m )\b(?=pip install)", lambda _: f"{python} -m ", text)


def check_imports(what: str) -> None:
    """Raise BackendUnavailable if `what` needs an import, and a finalizer calls as Python ends.

    Python then imports nothing any more, not even a module that is loaded. What earlier calls used is still there.
    """
    if sys.meta_path is None:
        raise BackendUnavailable(
            f"{what} cannot be loaded while Python ends",
            expected="a call like an earlier one: of its backend, semiring, dtype and options",
            fix="atexit.register or weakref.finalize in place of __del__: they run before; or one such call earlier",
        ) from None
