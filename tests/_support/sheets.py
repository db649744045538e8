"""Figures as tests read them: the sheets that were drawn, by the name of their figure, and their words."""

from __future__ import annotations

import matplotlib as mpl
import pytest

from harness.report.figures import sheet
from harness.report.figures.sheet import Sheet


def keep(monkeypatch: pytest.MonkeyPatch, *, until: str = "words") -> dict[str, Sheet]:
    """Have each sheet kept that is saved from now on, by the name of its figure.

    `until` says how far it gets, since each step takes as long as the one before: with "words" all texts and lines are
    drawn, with "layout" panels are given their places too, with "files" the file is written.
    """
    kept: dict[str, Sheet] = {}
    save = Sheet.save

    def save_and_keep(self, path, footer):
        kept[path.name] = self
        return save(self, path, footer)

    def draw(self):
        self.canvas.set_layout_engine("none")
        self.canvas.draw_without_rendering()

    monkeypatch.setattr(Sheet, "save", save_and_keep)
    if until != "files":
        monkeypatch.setattr(sheet.Canvas, "savefig", lambda *_, **__: None)
    if until == "words":
        monkeypatch.setattr(Sheet, "_settle", draw)
    return kept


def texts(sheet: Sheet) -> str:
    """Return all words of a sheet."""
    artists = sheet.canvas.findobj(mpl.text.Text)
    return " ".join(word for artist in artists for word in artist.get_text().split())
