"""Block sizes that `tune` found on this machine, in a file: read, validated, written, removed.

The files lie where data lie, not in a cache: a cache may be emptied at any time, and these take minutes to measure. A
file belongs to one machine with its versions (`Machine.key`), so two that share a home directory do not disturb each
other. A file of GPUs belongs to one architecture (`Chip`), in any machine. A file that cannot be used counts as absent,
and `info` says why.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.errors import StoreError
from harness.machine import VERSION, Machine
from harness.surroundings import write_whole

VARIABLE = "GEMM_HARNESS_TUNED"
FORMAT = 1

# Least and greatest legal value by name: invariants of the kernels, so that no file can make a product fail.
LEGAL = {
    "mr": (1, 16),
    "nv": (1, 6),
    "kc": (8, 1 << 20),
    "a_bytes": (1, 1 << 40),
    "all_of_m_bytes": (0, 1 << 40),
    "nc_bytes": (1, 1 << 40),
    "in_place_up_to": (0, 1 << 20),
    "bad_stride_a": (1, 1 << 40),
    "bad_stride_b": (1, 1 << 40),
    "near_b_bytes": (0, 1 << 40),
    "pairs_per_thread": (1, 1 << 40),
}

# The same for a GPU. Whether they make tiles together is checked when a plan is made of them.
LEGAL_TILES = {
    **dict.fromkeys(("bm", "bn", "bk", "wm", "wn"), (8, 256)),
    **dict.fromkeys(("tm", "tn"), (1, 16)),
    "stages": (2, 6),
    "blocks": (1, 8),
    "order": (0, 4),
}

# Of a backend's time in thousandths of the fastest's, whatever the backend is called.
LEGAL_TIMES = (1, 1 << 40)

_CHIP = "gpu-"  # how keys of GPUs begin
_AUTO = "auto-"  # and those of the choice of backends

Values = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Chip:
    """An architecture of GPUs."""

    arch: str  # "sm_90"
    gpu: Mapping[str, str] = field(default_factory=dict)  # the one that was measured, as `Machine.gpu`; for the record

    @property
    def key(self) -> str:
        """The name of its file: ``"gpu-sm_90"``."""
        return f"{_CHIP}{self.arch}"

    def to_json(self) -> dict[str, Any]:
        """Return both fields."""
        return {"arch": self.arch, "gpu": dict(self.gpu)}


class Owner(Protocol):
    """Who values are measured for: a machine, an architecture of GPUs, or `choice.orders.AutoOwner` of either."""

    @property
    def key(self) -> str:
        """The name of its file."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return a description, for the record."""
        ...


@dataclass(frozen=True)
class Stored:
    """The values stored for a machine."""

    path: Path | None  # of the file, which may not exist; None: turned off by the user
    # By kind of product (`harness.tuning.simd.simd_kind`, `harness.tuning.gpu.stored.kind`): the value of each
    # parameter that differs from the model's.
    values: Values = field(default_factory=dict)
    date: str = ""  # of the measurement; empty: no usable values
    notice: str = ""  # message for the user, in one line; empty if all is well


# By what identifies a machine within a process, without its number of threads. Hashing all of a machine at every
# product would take longer than a small product.
_known: dict[tuple[object, ...], Values] = {}


def values(machine: Owner) -> Values:
    """Return the values stored for `machine`, read once per process."""
    place = identity(machine)
    known = _known.get(place)
    if known is None:
        known = _known[place] = read(machine).values
    return known


@contextlib.contextmanager
def trial(machine: Owner, tried: Values) -> Iterator[None]:
    """Let `values` return `tried` for `machine` inside the block, whatever is stored."""
    before = dict(_known)
    _known[identity(machine)] = tried
    try:
        yield
    finally:
        _known.clear()
        _known.update(before)


def identity(machine: Owner) -> tuple[object, ...]:
    """Return what identifies a machine or an architecture within a process."""
    if isinstance(machine, Chip):
        return (machine.arch,)
    assert isinstance(machine, Machine)
    return machine.cpu, machine.cores, machine.l1d, machine.l2, machine.l3, machine.simd


def folder() -> Path | None:
    """Return the folder of the files, or None if the user turned them off.

    ``$GEMM_HARNESS_TUNED``, which turns it off when empty; else ``$XDG_DATA_HOME/gemm-harness/tuned``; else
    ``~/.local/share/gemm-harness/tuned``.
    """
    setting = os.environ.get(VARIABLE)
    if setting is not None:
        return Path(setting) if setting else None
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    try:
        root = base if base.is_absolute() else Path.home() / ".local" / "share"  # the XDG rule: ignore a relative one
    except RuntimeError:  # there is no home
        return None
    return root / "gemm-harness" / "tuned"


def read(machine: Owner) -> Stored:
    """Return the values stored for `machine`; unusable ones are left out, with the reason in `notice`."""
    own_folder = folder()
    if own_folder is None:
        return Stored(None)
    path = own_folder / f"{machine.key}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        stored = _validated(record, machine)
    except FileNotFoundError:
        return Stored(path, notice=_others(own_folder, machine))
    except (OSError, ValueError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return Stored(path, notice=f"{path} is ignored: {reason}")
    return Stored(path, stored, str(record["date"]))


def write(machine: Owner, values_by_kind: Values, evidence: Mapping[str, Any]) -> Path:
    """Store `values_by_kind` for `machine`, in place of earlier values.

    `evidence` is stored beside them, for the reader: what was measured, and the code that measured it.

    Raises
    ------
    StoreError
        If the user wants nothing stored, or it cannot be written.
    """
    from datetime import UTC, datetime

    path = writable(machine)
    record = {
        "format": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "key": machine.key,
        "version": VERSION,
        "values": {kind: dict(changed) for kind, changed in values_by_kind.items() if changed},
        "evidence": evidence,
        "machine": machine.to_json(),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(record, indent=1) + "\n")
    except OSError as error:
        raise StoreError(f"tuned values cannot be stored: {error.strerror or error}", got=str(path)) from None
    _known.clear()
    return path


def forget(machine: Owner) -> Path | None:
    """Remove the values stored for `machine`; return the removed file, or None if there was none.

    Raises
    ------
    StoreError
        If it cannot be removed, or the user wants nothing stored.
    """
    path = writable(machine)
    _known.clear()
    try:
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"tuned values cannot be removed: {error.strerror or error}", got=str(path)) from None
    return path


def writable(machine: Owner) -> Path:
    """Return the file that `write` would store for `machine`.

    Raises
    ------
    StoreError
        If the user wants nothing stored.
    """
    own_folder = folder()
    if own_folder is None:
        raise StoreError("tuned values are turned off", got=f"{VARIABLE} is empty", fix=f"unset {VARIABLE}")
    return own_folder / f"{machine.key}.json"


def _validated(record: Any, machine: Owner) -> Values:
    """Return the values of a stored record; raise ValueError, with a reason in one line, if they are unusable."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"no table of format {FORMAT}")
    if record.get("key") != machine.key:
        raise ValueError("measured on another machine, or with other versions")
    if record.get("version") != VERSION:
        raise ValueError(f"measured with version {record.get('version')}, this is {VERSION}")
    stored = record.get("values")
    if not isinstance(stored, dict) or not isinstance(record.get("date"), str):
        raise ValueError("no values, or no date")  # noqa: TRY004 one kind of error: a file that is not used
    for kind, changed in stored.items():
        if not isinstance(changed, dict):
            raise ValueError(f"{kind}: no values")  # noqa: TRY004
        for name, value in changed.items():
            least, greatest = _legal(machine, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
                raise ValueError(f"{kind}: {name}={value!r} is no legal value")
    return stored


def _legal(owner: Owner, name: str) -> tuple[int, int]:
    """Return the least and the greatest legal value of the number called `name`; for names without any, 1 and 0."""
    if isinstance(owner, Machine | Chip):
        return (LEGAL_TILES if isinstance(owner, Chip) else LEGAL).get(name, (1, 0))
    return LEGAL_TIMES


def _others(own_folder: Path, machine: Owner) -> str:
    """Return a notice that counts the files for other machines and versions, or for other architectures of GPUs."""
    if not isinstance(machine, Machine | Chip):
        return ""
    is_chip = isinstance(machine, Chip)
    files = [path.name for path in own_folder.glob("*.json") if not path.name.startswith(_AUTO)]
    count = sum(name.startswith(_CHIP) == is_chip for name in files)
    others = "architectures" if is_chip else "machines or versions"
    return f"{count} in {own_folder} of other {others}: not used" if count else ""
