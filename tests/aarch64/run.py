"""Run test files on an emulated aarch64 processor, and write what came out: ``python tests/aarch64/run.py [FILE ...]``.

What is right there is right; what is fast there says nothing. Compiling takes ten times as long as on a processor.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "aarch64"
FOLDERS = "cpu api store nouns proof linalg contraction".split()
FILES = ("tests/test_semiring_laws.py", "tests/test_contract.py", "tests/run/test_machine.py")

# The operations of every semiring and dtype, kernels of every kind, calls and the store, in half an hour of two cores.
SAMPLE = """
    tests/cpu/test_vector_operators.py tests/cpu/test_simd.py tests/api/test_product.py tests/store/test_store.py
    tests/run/test_machine.py tests/cpu/test_vector_code.py tests/test_semiring_laws.py tests/cpu/test_registers.py
    tests/cpu/test_functions.py tests/cpu/test_tile_listing.py tests/cpu/test_simd_units.py tests/store/test_folders.py
    tests/api/test_names_in_errors.py tests/cpu/test_what_is_packed.py tests/cpu/test_exp_log.py
    tests/cpu/test_dot_products.py tests/cpu/test_half.py tests/api/test_odd_arguments.py
""".split()
# Reading each stored file takes a third of an hour, and no instruction of the processor has a part in it.
NOT_IN_SAMPLE = "not every_stored_result"

# Files that say nothing about this processor, and why.
LEFT_OUT = {
    "tests/cpu/test_amx.py": "tiles (AMX) are of x86",
    "tests/api/test_libraries_on_gpu.py": "there is no GPU",
    "tests/linalg/test_arrays_of_cupy.py": "there is no GPU",
    "tests/linalg/test_kernels_compile.py": "kernels of GPUs, which any processor compiles alike",
    "tests/nouns/test_packages.py": "makes virtual environments, whose Python is not the emulated one",
    "tests/proof/test_sanitizers.py": "the compiler of this system makes no code for the emulated processor",
}
OUTCOME = re.compile(r"^[^:\n]+::(.*) (PASSED|FAILED|ERROR|SKIPPED)(?: \(.*\))? +\[ *\d+%\]$", re.MULTILINE)
RUNNING: set[int] = set()  # groups of processes
SELECTED = re.compile(r"collected (\d+) items?(?: / \d+ deselected / (\d+) selected)?")


def files_to_run(named: list[str], *, is_sample: bool) -> list[str]:
    """Return the test files to run."""
    if named or is_sample:
        return named or SAMPLE
    found = [path for folder in FOLDERS for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
    return [name for name in (*FILES, *(str(path.relative_to(ROOT)) for path in found)) if name not in LEFT_OUT]


def run(name: str, options: list[str], until: float) -> dict[str, Any]:
    """Run a file, and return what came out; at the time `until` it is interrupted."""
    command = [FOLDER / "python", "-m", "pytest", "-v", "-rs", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--timeout=3600", *options, name]
    environment = {**os.environ, "GEMM_HARNESS_CACHE": str(FOLDER / "kernels"), "PYTHONPATH": str(ROOT)}
    environment |= {
        "PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
        "TEST_PATIENCE_S": "3000",
    }
    log = FOLDER / "logs" / f"{name.replace('/', '.')}.txt"
    log.parent.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output, process_group=0)
        RUNNING.add(process.pid)
        try:
            process.wait(until - time.monotonic())
        except subprocess.TimeoutExpired:
            for number in (signal.SIGINT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(60)
        RUNNING.discard(process.pid)
    return count(log.read_text(encoding="utf-8", errors="replace"))


def count(said: str) -> dict[str, Any]:
    """Return how many tests passed, were skipped, why, and were not reached, and which failed, of what pytest said."""
    found = OUTCOME.findall(said)
    selected = SELECTED.search(said)
    return {
        "passed": sum(outcome == "PASSED" for _, outcome in found),
        "skipped": sum(outcome == "SKIPPED" for _, outcome in found),
        "failed": [test for test, outcome in found if outcome in ("FAILED", "ERROR")],
        "not reached": int(selected[2] or selected[1]) - len(found) if selected else None,
        "reasons": sorted(set(re.findall(r"^SKIPPED \[\d+\] \S+: (.*)$", said, re.MULTILINE))),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


def totals(files: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the sums of what `count` returned of files."""
    sums = {name: sum(row[name] or 0 for row in files.values()) for name in ("passed", "skipped", "not reached")}
    return {**sums, "failed": sum(len(row["failed"]) for row in files.values())}


def as_text(record: dict[str, Any]) -> str:
    """Return a record and its totals as JSON, a line for each file."""
    files = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(record["files"].items()))
    others = json.dumps(totals(record["files"]) | {name: x for name, x in record.items() if name != "files"}, indent=1)
    return f'{others[:-2]},\n "files": {{\n{files}\n }}\n}}\n'


def main() -> int:
    """Run what is asked for, and write the result of each file as it ends; return 1 if a test failed, or none ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="default: every file that applies, which takes many hours")
    parser.add_argument("--sample", action="store_true", help="a choice of files instead")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="end after so many minutes")
    parser.add_argument("--processes", type=int, default=2, help="of which each runs a file")
    parser.add_argument("--into", type=Path, default=FOLDER / "results.json", help="keeps those of other files")
    arguments, options = parser.parse_known_args()
    options += ["-k", NOT_IN_SAMPLE] if arguments.sample else []
    files, until = files_to_run(arguments.files, is_sample=arguments.sample), time.monotonic() + 60 * arguments.minutes
    record = {"processor": os.environ.get("AARCH64_CPU", "max, SVE of 256 bits"), "files": {}, "left out": LEFT_OUT}
    if arguments.into.exists():
        record["files"] = json.loads(arguments.into.read_text(encoding="utf-8"))["files"]
    ran = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.processes) as pool:
        running = {pool.submit(run, name, options, until): name for name in files}
        for done in concurrent.futures.as_completed(running):
            if time.monotonic() > until:
                pool.shutdown(wait=False, cancel_futures=True)
            if not done.cancelled():
                name = running[done]
                ran[name] = record["files"][name] = done.result()
                arguments.into.write_text(as_text(record), encoding="utf-8")
                print(f"{name}: {totals({name: ran[name]})}", flush=True)
    sums = totals(ran)
    print(f"{sums}, of {len(ran)} of {len(files)} files: {arguments.into}")
    return int(sums["failed"] > 0 or not sums["passed"])


if __name__ == "__main__":
    sys.exit(main())
