"""Entries of the kernel cache as files: whole, one's own, not too many, or not there."""

import errno
import os
import threading
from pathlib import Path

import pytest

from backends import _kernel_files

NAMES = tuple(f"{number:064x}" for number in range(5))


def test_what_is_written_is_read(tmp_path):
    folder = tmp_path / "new" / "kernels"
    assert _kernel_files.read(folder, NAMES[0]) is None
    assert _kernel_files.write(folder, NAMES[0], b"payload")
    assert _kernel_files.read(folder, NAMES[0]) == b"payload"
    assert _kernel_files.read(folder, NAMES[1]) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o077 for path in folder.iterdir()] == [0]


@pytest.mark.parametrize("position", [0, 20, 50, -1])
def test_one_wrong_bit_anywhere_makes_an_entry_unreadable(tmp_path, position):
    _kernel_files.write(tmp_path, NAMES[0], b"payload")
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(bytes(content))
    assert _kernel_files.read(tmp_path, NAMES[0]) is None


def test_what_another_user_owns_is_neither_read_nor_written(tmp_path, monkeypatch):
    _kernel_files.write(tmp_path, NAMES[0], b"payload")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert _kernel_files.read(tmp_path, NAMES[0]) is None
    assert not _kernel_files.write(tmp_path, NAMES[1], b"payload")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_is_not_followed(tmp_path):
    _kernel_files.write(tmp_path / "elsewhere", NAMES[0], b"payload")
    (path,) = (tmp_path / "elsewhere").iterdir()
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / path.name).symlink_to(path)
    assert _kernel_files.read(folder, NAMES[0]) is None


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert not _kernel_files.write(tmp_path, NAMES[0], b"payload")
    assert list(tmp_path.iterdir()) == []


def test_entries_unused_for_longest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(_kernel_files, "LARGEST_BYTES", 4500)
    monkeypatch.setattr(_kernel_files, "_KEPT_BYTES", 3500)
    (tmp_path / "notes.txt").write_text("not ours")
    abandoned = tmp_path / "left.part"
    abandoned.write_bytes(b"x")
    os.utime(abandoned, (0, 0))
    for age, name in enumerate(NAMES[:4]):
        _kernel_files.write(tmp_path, name, bytes(1000))
        os.utime(tmp_path / f"{name}.kernel", (age + 1e9, age + 1e9))
    assert not abandoned.exists()
    assert _kernel_files.read(tmp_path, NAMES[0])  # used just now
    _kernel_files.write(tmp_path, NAMES[4], bytes(1000))
    left = {path.stem for path in tmp_path.glob("*.kernel")}
    assert left == {NAMES[0], NAMES[3], NAMES[4]}
    assert (tmp_path / "notes.txt").exists()


def test_a_folder_is_cleared_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_kernel_files, "LARGEST_BYTES", 1500)
    monkeypatch.setattr(_kernel_files, "_KEPT_BYTES", 1200)
    for folder in (tmp_path, tmp_path / "gpu"):
        for name in NAMES[:2]:
            _kernel_files.write(folder, name, bytes(1000))
        assert len(list(folder.glob("*.kernel"))) == 1
    assert len(list(tmp_path.glob("*.kernel"))) == 1


@pytest.mark.parametrize("family", ["", "gpu"])
def test_where_kernels_are_kept(tmp_path, monkeypatch, family):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GEMM_HARNESS_CACHE")
    for base, expected in (("", ".cache"), ("relative", ".cache"), (str(tmp_path / "x"), "x")):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert _kernel_files.cache_folder(family) == tmp_path / expected / "gemm-harness" / "kernels" / family
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "/here")
    assert _kernel_files.cache_folder(family) == Path("/here") / family
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "")
    assert _kernel_files.cache_folder(family) is None


def test_no_folder_holds_nothing_and_takes_nothing():
    assert not _kernel_files.write(None, NAMES[0], b"payload")
    assert _kernel_files.read(None, NAMES[0]) is None


def test_a_folder_that_may_not_be_looked_at_holds_nothing_and_takes_nothing():
    folder = Path("/", "x" * 300)  # root may search every folder, but for nobody is there such a name
    with _kernel_files.turn(folder, NAMES[0]):
        assert not _kernel_files.write(folder, NAMES[0], b"payload")
        assert _kernel_files.read(folder, NAMES[0]) is None


def test_names_differ_by_parts_and_by_where_one_ends():
    parts = [(), ("a",), ("b",), ("a", "b"), ("ab",), (("a", "b"),), (1,), ("1",)]
    assert len({_kernel_files.entry_name(*part) for part in parts}) == len(parts)


class TestTurns:
    @staticmethod
    def enter(folder, done):
        with _kernel_files.turn(folder, NAMES[0]):
            done.append(_kernel_files.read(folder, NAMES[0]))

    def test_who_comes_second_waits_and_finds_the_entry(self, tmp_path):
        done = []
        second = threading.Thread(target=self.enter, args=(tmp_path, done))
        with _kernel_files.turn(tmp_path, NAMES[0]):
            second.start()
            second.join(0.2)
            assert second.is_alive()
            assert _kernel_files.write(tmp_path, NAMES[0], b"code")
        second.join()
        assert done == [b"code"]
        assert [path.suffix for path in tmp_path.iterdir()] == [".kernel"]

    def test_an_entry_that_is_there_and_another_one_need_no_turn(self, tmp_path):
        done = []
        with _kernel_files.turn(tmp_path, NAMES[1]):
            self.enter(tmp_path, done)
            _kernel_files.write(tmp_path, NAMES[0], b"code")
            self.enter(tmp_path, done)
        assert done == [None, b"code"]

    def test_nobody_waits_for_ever(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_kernel_files, "_LONGEST_WAIT_S", 0.0)
        done = []
        with _kernel_files.turn(tmp_path, NAMES[0]):
            self.enter(tmp_path, done)
        assert done == [None]

    @pytest.mark.parametrize("place", ("off", "below a file"))
    def test_without_a_folder_there_is_nothing_to_wait_for(self, tmp_path, place):
        (tmp_path / "file").write_text("")
        done = []
        self.enter(None if place == "off" else tmp_path / "file" / "kernels", done)
        assert done == [None]
