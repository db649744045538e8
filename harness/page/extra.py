"""The libraries of the extra "page": Altair for charts, vl-convert for their scripts and for pictures; or a message."""

from __future__ import annotations

from typing import Any

from harness.errors import HarnessError


def altair() -> Any:
    """Return Altair.

    Raises
    ------
    HarnessError
        If it is not installed.
    """
    try:
        import altair as alt
    except ImportError as error:
        raise _absent("Altair") from error
    return alt


def converter() -> Any:
    """Return the module of vl-convert, which holds the scripts of Vega and Vega-Lite; raise as `altair` does."""
    try:
        import vl_convert
    except ImportError as error:
        raise _absent("vl-convert-python") from error
    return vl_convert


def _absent(name: str) -> HarnessError:
    return HarnessError(
        f"the page needs {name}, which is not installed", fix="pip install altair jinja2 vl-convert-python"
    )
