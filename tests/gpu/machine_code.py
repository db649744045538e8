"""The instructions of a kernel's inner loop, from its machine code, and the clocks that they take at least.

NVIDIA's nvdisasm disassembles; it needs no GPU. The clocks are a model of issue and of arithmetic units alone: one
instruction a clock of each of the four schedulers, and the units' rates. Loads are taken to be there in time.

Source: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions". The rate of a minimum of three is
what products on an H200 were measured at (docs/gpu-generations.md). On newer chips it is assumed to be that of other
minima, and integers of 12.x are assumed to go at the rate of floats.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

_SECTION = re.compile(r"^\.text\.(\w+):", re.MULTILINE)
_LINE = re.compile(r"^(\.L_x_\d+):|^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);", re.MULTILINE)
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")


class Rates(NamedTuple):
    """Results a clock of a multiprocessor, of instructions by kind; 0: there is no such instruction.

    Attributes
    ----------
    single, words, double : int
        Sums and products of floats of 4 bytes, of two float16 a word, and of 8 bytes.
    integer : int
        Sums and minima of integers.
    of_three : int
        Minima of three.
    """

    single: int
    words: int
    double: int
    integer: int = 64
    of_three: int = 0


RATES = {
    (7, 5): Rates(64, 64, 2),
    (8, 0): Rates(64, 128, 32),
    (8, 6): Rates(128, 64, 2),
    (8, 9): Rates(128, 64, 2),
    (9, 0): Rates(128, 128, 64, of_three=32),
    (10, 0): Rates(128, 64, 64, of_three=64),
    (10, 3): Rates(128, 64, 2, of_three=64),
    (11, 0): Rates(128, 64, 2, of_three=64),
    (12, 0): Rates(128, 64, 2, integer=128),
    (12, 1): Rates(128, 64, 2, integer=128),
}
_LANES, _OTHERS = 128, 64  # results a clock that four schedulers issue; rate of all other instructions on these units
# Unit and rate by the beginning of a name, the first that fits; instructions of no unit here take their issue alone.
_UNITS = (
    ("F(FMA|ADD|MUL)2", "multiply", None),
    ("FFMA|FADD|FMUL", "multiply", "single"),
    ("H(FMA2|ADD2|MUL2)", "multiply", "words"),
    ("IMAD", "multiply", None),
    ("DFMA|DADD|DMUL|DSETP|DMNMX", "double", "double"),
    ("VIMNMX3|VHMNMX|FMNMX3", "compare", "of_three"),
    ("VIADDMNMX", "compare", None),
    ("IADD|VIADD|IMNMX|VIMNMX", "compare", "integer"),
    ("FMNMX|HMNMX2|LOP3|F?SEL|[IFH]SETP|LEA|SHF|PRMT", "compare", None),
)


@functools.cache
def disassembler() -> str | None:
    """Return the path of nvdisasm, of the package of that name or of a toolkit; None without."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvdisasm") or []
    except importlib.metadata.PackageNotFoundError:
        return shutil.which("nvdisasm")
    return next((str(file.locate()) for file in files if file.name == "nvdisasm"), None)


def longest_loop(cubin: bytes, function: str) -> Counter[str]:
    """Return how often each instruction occurs in the longest innermost loop of `function`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([str(disassembler()), "-c", path], capture_output=True, text=True, check=True)
    sections = _SECTION.split(done.stdout)
    code: list[str] = []
    labels: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for line in _LINE.finditer(sections[sections.index(function) + 1]):
        if line[1]:
            labels[line[1]] = len(code)
            continue
        code.append(line[2])
        target = _TARGET.search(line[3])
        if line[2].startswith("BRA") and target and target[1] in labels:
            found.append((labels[target[1]], len(code)))
    inner = [x for x in found if not any(y != x and x[0] <= y[0] and y[1] <= x[1] for y in found)]
    first, last = max(inner, key=lambda x: x[1] - x[0])
    return Counter(code[first:last])


def clocks(instructions: Counter[str], capability: tuple[int, int]) -> float:
    """Return the clocks of a scheduler that a warp takes for `instructions` at least."""
    taken: dict[str, float] = defaultdict(float)
    for name, count in instructions.items():
        taken["issue"] += count
        for beginning, unit, kind in _UNITS:
            if re.match(beginning, name):
                rate = getattr(RATES[capability], kind) if kind else _OTHERS
                taken[unit] += count * _LANES / rate
                break
    return max(taken.values())


def own(instructions: Counter[str], pairs: int) -> Counter[str]:
    """Return those that compute pairs: once for eight of them, or more often; the others bring them."""
    return Counter({name: count for name, count in instructions.items() if 8 * count >= pairs and name != "NOP"})
