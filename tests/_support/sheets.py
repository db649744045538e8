"""Figures as tests read them: the sheets that were laid out, by the name of their figure, and their words."""

from __future__ import annotations

import matplotlib as mpl
import pytest

from harness.report.figures import sheet
from harness.report.figures.sheet import Sheet

COARSE_DPI = 30


def keep(monkeypatch: pytest.MonkeyPatch, *, writes: bool) -> dict[str, Sheet]:
    """Have each sheet kept that is saved from now on, by the name of its figure.

    Without `writes` it is laid out, which draws every text and line, and no file is written: half of the time.
    """
    kept: dict[str, Sheet] = {}
    save = Sheet.save

    def save_and_keep(self, path, footer):
        kept[path.name] = self
        return save(self, path, footer)

    monkeypatch.setattr(sheet, "PNG_DPI", COARSE_DPI)
    monkeypatch.setattr(Sheet, "save", save_and_keep)
    if not writes:
        monkeypatch.setattr(sheet.Canvas, "savefig", lambda *_, **__: None)
    return kept


def texts(sheet: Sheet) -> str:
    """Return all words of a sheet."""
    artists = sheet.canvas.findobj(mpl.text.Text)
    return " ".join(word for artist in artists for word in artist.get_text().split())
