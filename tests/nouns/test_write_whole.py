"""A text takes the place of an old file as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.surroundings import write_whole


def test_a_text_replaces_an_old_one_and_keeps_the_files_mode(tmp_path: Path) -> None:
    page, link = tmp_path / "page ü.md", tmp_path / "link.md"
    page.write_text("old", encoding="utf-8")
    page.chmod(0o640)
    link.symlink_to(page)
    write_whole(link, "new ü")
    assert (page.read_text(encoding="utf-8"), page.stat().st_mode & 0o777, link.is_symlink()) == ("new ü", 0o640, True)
    write_whole(tmp_path / "another.md", "text")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["another.md", "link.md", "page ü.md"]


def test_what_cannot_be_written_leaves_the_old_one_and_names_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_whole(page, "a surrogate: \ud800")
    assert page.read_text(encoding="utf-8") == "old"
    assert [x.name for x in tmp_path.iterdir()] == ["page.md"]
    with pytest.raises(OSError, match=r"none.*page.md"):
        write_whole(tmp_path / "none" / "page.md", "new")
