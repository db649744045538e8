"""Assemble a CPython without the GIL where no distribution packages one: of wheels and packages that are at hand.

    python tests/free_threads.py FOLDER      makes FOLDER/bin/python3.14t

The wheel of freeze-core for cp314t holds the interpreter, as an executable that runs frozen programs, and its extension
modules. Its entry is turned to `Py_BytesMain`, which it exports: that is what `python` itself begins with. The standard
library in Python is Debian's, of another patch release.
"""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

SUITE = "sid"  # which has Python 3.14
WHEEL, PACKAGES = "freeze-core", ("libpython3.14-minimal", "libpython3.14-stdlib")
ENTRY = b"\x48\xc7\xc7"  # _start puts the address of main into rdi
# Its options are those of venv, which asks for pip alone.
_ENSURE = """import runpy, sys
from pathlib import Path
folder = Path(__file__).parent
sys.path.insert(0, str(next(folder.glob("pip-*.whl"))))
sys.argv[1:] = ["install", "--quiet", "--no-index", "--find-links", str(folder), "pip"]
runpy.run_module("pip", run_name="__main__")
"""
LOAD = 1  # a segment of a program's header


def patched(program: bytes, main: int) -> bytes:
    """Return an ELF executable for x86-64, not of independent position, that begins with the function at `main`."""
    (entry, headers), (size, count) = struct.unpack_from("<QQ", program, 24), struct.unpack_from("<HH", program, 54)
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", program, headers + number * size)
        if kind == LOAD and address <= entry < address + length:
            start = offset + entry - address
            place = program.index(ENTRY, start, start + 64) + len(ENTRY)
            return program[:place] + struct.pack("<I", main) + program[place + 4 :]
    raise ValueError("no segment holds the entry of this program")


def exported(program: Path, name: str) -> int:
    """Return the address of an exported function."""
    lines = subprocess.run(["nm", "-D", program], check=True, capture_output=True, text=True).stdout
    return int(re.search(rf"^([0-9a-f]+) T {name}$", lines, re.MULTILINE)[1], 16)


def package_addresses() -> list[str]:
    """Return the addresses of Debian's packages of the standard library, where apt takes its own from."""
    known = ["apt-get", "indextargets", "--format", "$(SITE)"]
    sites = subprocess.run(known, check=True, capture_output=True, text=True).stdout.split()
    mirror = next(site for site in sites if site.endswith("/debian"))
    with urllib.request.urlopen(f"{mirror}/dists/{SUITE}/main/binary-amd64/Packages.xz") as answer:
        index = lzma.decompress(answer.read()).decode()
    parts = (rf"^Package: {re.escape(name)}$.*?^Filename: (.+?)$" for name in PACKAGES)
    return [f"{mirror}/{re.search(part, index, re.DOTALL | re.MULTILINE)[1]}" for part in parts]


def assemble(folder: Path) -> Path:
    """Make the interpreter below `folder`, and return its path."""
    library = folder / "lib" / "python3.14t"
    (folder / "bin").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        tags = ["--python-version", "3.14", "--abi", "cp314t", "--abi", "none", "--only-binary", ":all:", "--no-deps"]
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", *tags, "-d", work, WHEEL, "pip"], check=True)
        shutil.unpack_archive(next(work.glob("freeze_core*.whl")), work / "wheel", "zip")
        for address in package_addresses():
            archive = work / address.rpartition("/")[2]
            urllib.request.urlretrieve(address, archive)
            subprocess.run(["dpkg-deb", "-x", archive, work / "debian"], check=True)
        shutil.copytree(work / "debian/usr/lib/python3.14", library, ignore_dangling_symlinks=True)
        shutil.rmtree(library / "lib-dynload")
        modules = next((work / "wheel").rglob("_ctypes.cpython-314t-*.so")).parent
        shutil.copytree(modules, library / "lib-dynload")
        shutil.copytree(work / "wheel/freeze_core.libs", folder / "lib/freeze_core.libs")  # modules look there
        program = next((work / "wheel").rglob("console-cpython-314t-*"))
        python = folder / "bin/python3.14t"
        python.write_bytes(patched(program.read_bytes(), exported(program, "Py_BytesMain")))
        _bundle(next(work.glob("pip-*.whl")), library / "ensurepip")
    python.chmod(0o755)
    _describe(library)
    return python


def _bundle(wheel: Path, package: Path) -> None:
    """Let environments have this pip: write an `ensurepip`, which Debian leaves out, that installs it."""
    package.mkdir()
    shutil.copy(wheel, package)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(_ENSURE)


def _describe(library: Path) -> None:
    """Write what `sysconfig` tells of this build: Debian's, with the marks of free threads."""
    text = (library / "_sysconfigdata__linux_x86_64-linux-gnu.py").read_text()
    for old, new in (
        ("'ABIFLAGS': ''", "'ABIFLAGS': 't'"),
        ("cpython-314-x86_64", "cpython-314t-x86_64"),
        ("'Py_GIL_DISABLED': 0", "'Py_GIL_DISABLED': 1"),
        ("'LDVERSION': '3.14'", "'LDVERSION': '3.14t'"),
    ):
        text = text.replace(old, new)
    (library / "_sysconfigdata_t_linux_x86_64-linux-gnu.py").write_text(text)


if __name__ == "__main__":
    print(assemble(Path(sys.argv[1]).resolve()))  # noqa: T201 it is a command
