"""The machine at hand: processor, caches, memory, versions. The fingerprint that is stored with each result."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.surroundings import processors

VERSION = "0.2.0"  # of the harness; as in pyproject.toml
_PACKAGES = (
    "numpy numba llvmlite threadpoolctl scipy cupy mkl blis tropical-gemm scipy-openblas32 numkong "
    "cupy-cuda12x cupy-cuda13x"
).split()
_SIMD = "sse4_2 avx avx2 fma avx512f avx512bw avx512vl avx512_bf16 amx_tile neon asimd sve".split()
# Fields that the oldest records do not have: left out where empty, so that keys of those records stay.
_LATER = ("gpu", "family", "model", "stepping", "host")
# Fields that decide no time of a product: two hosts of one kind take the same tuned values.
_NOT_IN_KEY = ("threads", "host")
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True)
class Machine:
    """A processor, its memory and the software on it.

    Parameters
    ----------
    cpu : str
        Model name.
    cores : int
        Logical processors that this process may use.
    threads : int
        How many of them a product may use now.
    l1d, l2, l3 : int
        Bytes of data cache that one core sees; 0: not known.
    simd : tuple of str
        Vector extensions, as the kernel spells them.
    memory : int
        Bytes of main memory.
    system, python : str
    packages : dict
        Version of each installed package that matters here.
    gpu : dict
        Of the first NVIDIA GPU: name, driver, memory [MiB], highest SM clock [MHz], power limit [W]; and how many there
        are (``"count"``), if several. Empty: there is none.
    family, model, stepping : int
        Of the processor, as it counts itself; on ARM its implementer, part and revision. 0: not known, as in records
        older than these fields. Processors of one name may differ in them: a virtual machine calls Zen 4 (25, 17) and
        Zen 5 (26, 2) alike "AMD EPYC".
    host : str
        A hash that tells this machine from others of its model. Empty: not known, as in records older than it.
    """

    cpu: str
    cores: int
    threads: int
    l1d: int
    l2: int
    l3: int
    simd: tuple[str, ...] = ()
    memory: int = 0
    system: str = ""
    python: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    gpu: dict[str, str] = field(default_factory=dict)
    family: int = 0
    model: int = 0
    stepping: int = 0
    host: str = ""

    @property
    def processor(self) -> str:
        """What the processor calls itself, and how it counts itself: ``"AMD EPYC family 25 model 17"``."""
        return f"{self.cpu} family {self.family} model {self.model}" if self.family else self.cpu

    @property
    def slug(self) -> str:
        """A name for folders: ``"amd-epyc-family-25-model-17-2-cores"``, with the GPU if there is one."""
        return self._slug(self.processor)

    @property
    def short_slug(self) -> str:
        """The name of its folder while family and model were not part of it: ``"amd-epyc-2-cores"``."""
        return self._slug(self.cpu)

    def _slug(self, cpu: str) -> str:
        words = f"{cpu} {self.cores} cores {self.gpu.get('count', '')} {self.gpu.get('name', '')}"
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")

    def has_hardware_of(self, other: Machine) -> bool:
        """Return whether processor, its number of cores, and GPU are those of `other`; what one does not know agrees.

        Memory and software may differ: a machine is updated, and stays the same machine.
        """
        same = all(getattr(self, name) == getattr(other, name) for name in ("cpu", "cores", "l1d", "l2", "l3", "simd"))
        counted = (self.family, self.model, self.stepping), (other.family, other.model, other.stepping)
        gpus = [(machine.gpu.get("name"), machine.gpus) for machine in (self, other)]
        return same and gpus[0] == gpus[1] and (counted[0] == counted[1] or not all(map(any, counted)))

    def may_be(self, other: Machine) -> bool:
        """Return whether this is the host of `other`, as far as both are known."""
        return self.host == other.host or not (self.host and other.host)

    @property
    def gpus(self) -> int:
        """How many NVIDIA GPUs there are."""
        return int(self.gpu.get("count", 1)) if self.gpu else 0

    @property
    def key(self) -> str:
        """A short hash of all that makes results comparable; threads and host are not part of it."""
        import hashlib

        record = {name: value for name, value in self.to_json().items() if name not in _NOT_IN_KEY}
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]

    def with_threads(self, threads: int) -> Machine:
        """Return this machine, limited to `threads` threads."""
        return dataclasses.replace(self, threads=threads)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object, without those that are not there and that older records lack."""
        record = dataclasses.asdict(self)
        return {name: value for name, value in record.items() if value or name not in _LATER}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Machine:
        """Return the Machine that `to_json` described; fields of a newer version are left out."""
        known = {f.name for f in dataclasses.fields(cls)}
        fields = {name: value for name, value in record.items() if name in known}
        return cls(**{**fields, "simd": tuple(fields.get("simd", ()))})


@functools.cache
def detect() -> Machine:
    """Read the facts of this machine, once per process. What its system does not tell is 0 or empty."""
    info = _CPUINFO.read_text(errors="replace") if _CPUINFO.exists() else ""
    known = {} if info else _sysctl()
    flags = {*_first_field(info, "flags", "Features").split(), *_features(known)}
    caches = _cache_sizes() or _cache_sizes_in(known)
    cores = len(processors())
    return Machine(
        cpu=_first_field(info, "model name", "Hardware")
        or known.get("machdep.cpu.brand_string")
        or platform.processor()
        or platform.machine(),
        cores=cores,
        threads=cores,
        l1d=caches.get(1, 0),
        l2=caches.get(2, 0),
        l3=caches.get(3, 0),
        simd=tuple(name for name in _SIMD if name in flags),
        memory=_memory(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages=_versions(),
        gpu=_gpu(),
        family=_number(_first_field(info, "cpu family", "CPU implementer")),
        model=_number(_first_field(info, "model", "CPU part")),
        stepping=_number(_first_field(info, "stepping", "CPU revision")),
        host=_host(),
    )


# On Linux, x86-64: the system call arch_prctl, and its arguments to read or request the right to use tiles (AMX).
_ARCH_PRCTL, _GET_PERMISSION, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1022, 0x1023, 18


@functools.cache
def tiles_refused() -> str | None:
    """Ask the system to let this process use the processor's tiles (AMX); return why it does not, or None.

    Their registers are 8 KiB more to save for each thread, so Linux requires a request: once, for all threads.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return f"no way to ask {platform.system()} on {platform.machine()} for them is known"
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    granted = ctypes.c_uint64()
    requests = ((_REQUEST_PERMISSION, ctypes.c_long(_TILE_DATA)), (_GET_PERMISSION, ctypes.byref(granted)))
    for request, argument in requests:
        if call(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(request), argument):
            return f"arch_prctl: {os.strerror(ctypes.get_errno())}"
    return None if granted.value >> _TILE_DATA & 1 else "the system says yes and does not do it"


def _host() -> str:
    """Return 12 hexadecimal digits made from the identity that the system was given, or from the host's name.

    The identity itself is not to be published, as its manual says.
    """
    import hashlib

    known = _MACHINE_ID.read_text(errors="replace").strip() if _MACHINE_ID.exists() else ""
    return hashlib.sha256(f"gemm-harness {known or platform.node()}".encode()).hexdigest()[:12]


def _first_field(text: str, *names: str) -> str:
    for name in names:
        match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
        if match:
            return match.group(1).strip()
    return ""


def _number(text: str) -> int:
    """Return a number as ``/proc/cpuinfo`` writes it, decimal or ``0x41``; 0 for anything else."""
    try:
        return int(text, 0)
    except ValueError:
        return 0


def _cache_sizes() -> dict[int, int]:
    """Return bytes by level of the caches that hold data."""
    sizes = {}
    for index in sorted(_CACHES.glob("index*")):
        if (index / "type").read_text().strip() in ("Data", "Unified"):
            level, size = int((index / "level").read_text()), (index / "size").read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
            sizes[level] = int(size[:-1]) * unit[size[-1]] if size[-1] in unit else int(size)
    return sizes


def _sysctl() -> dict[str, str]:
    """Return what macOS knows of its processor and memory, by name; empty where there is no such program."""
    program = shutil.which("sysctl")
    lines = _output([program, "hw", "machdep.cpu"]) if program else []
    return {name: value.strip() for name, mark, value in (line.partition(":") for line in lines) if mark}


def _features(known: dict[str, str]) -> Iterator[str]:
    """Yield the vector extensions in what `_sysctl` returned: ``hw.optional.neon: 1``, ``hw.optional.avx2_0: 1``."""
    for name, value in known.items():
        if name.startswith("hw.optional.") and value == "1":
            yield name.rpartition(".")[2].removesuffix("_0").lower()


def _cache_sizes_in(known: dict[str, str]) -> dict[int, int]:
    """Return bytes by level of the caches in what `_sysctl` returned, of the fast cores where there are two kinds."""
    sizes = dict[int, int]()
    for level, name in ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize")):
        size = _number(known.get(f"hw.perflevel0.{name}") or known.get(f"hw.{name}", ""))
        sizes |= {level: size} if size else {}
    return sizes


def _memory() -> int:
    """Return the bytes of main memory, or 0 where the system, as Windows, does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _output(command: list[str]) -> list[str]:
    """Return the lines that a program prints; none if it fails or takes too long."""
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines()


_GPU_QUERY = {
    "name": "name",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "max_mhz": "clocks.max.sm",
    "power_limit_w": "power.limit",
}


def _gpu() -> dict[str, str]:
    """Return the facts that the driver's own program reports of the first GPU, and their number if there are several.

    Empty without one. Loads no CUDA. Of GPUs that CUDA_VISIBLE_DEVICES hides, none is counted.
    """
    program = shutil.which("nvidia-smi")
    query = [f"--query-gpu={','.join(_GPU_QUERY.values())}", "--format=csv,noheader,nounits"]
    answer = _output([program, *query]) if program else []
    lines = [[value.strip() for value in line.split(",")] for line in answer]
    if not lines or len(lines[0]) != len(_GPU_QUERY):
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = len(lines) if visible is None else min(len(lines), len(list(filter(None, visible.split(",")))))
    return {**dict(zip(_GPU_QUERY, lines[0], strict=True)), **({"count": str(count)} if count > 1 else {})}


def _versions() -> dict[str, str]:
    import importlib.metadata  # it loads parsers of mail, which take a third of `import harness`

    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
