"""Run test files on an emulated aarch64 processor, and write what came out: ``python tests/aarch64/run.py [FILE ...]``.

What is right there is right; what is fast there says nothing. Compiling takes ten times as long as on a processor.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
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
OUTCOME = re.compile(r"^\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|ERROR|SKIPPED) ([^:]+)::(.*?) *$", re.MULTILINE)


def files_to_run(named: list[str], *, is_sample: bool) -> list[str]:
    """Return the test files to run."""
    if named or is_sample:
        return named or SAMPLE
    found = [path for folder in FOLDERS for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
    return [name for name in (*FILES, *(str(path.relative_to(ROOT)) for path in found)) if name not in LEFT_OUT]


def run(files: list[str], options: list[str], minutes: float) -> str:
    """Run the files, and return what pytest said; after so many minutes it is interrupted."""
    command = [FOLDER / "python", "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", "--timeout=3600"]
    command += ["--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder", *options, *files]
    environment = {**os.environ, "GEMM_HARNESS_CACHE": str(FOLDER / "kernels"), "PYTHONPATH": str(ROOT)}
    environment |= {"PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    log = FOLDER / "log.txt"
    log.unlink(missing_ok=True)  # another run may still write to it
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGINT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(60)
    return log.read_text(encoding="utf-8", errors="replace")


def count(files: list[str], said: str) -> dict[str, dict[str, Any]]:
    """Return by file how many tests passed and were skipped, and which failed."""
    counted: dict[str, dict[str, Any]] = {name: {"passed": 0, "skipped": 0, "failed": []} for name in files}
    for outcome, name, test in OUTCOME.findall(said):
        if outcome in ("FAILED", "ERROR"):
            counted[name]["failed"].append(test)
        else:
            counted[name][outcome.lower()] += 1
    return counted


def main() -> int:
    """Run what is asked for; return 1 if a test failed, or none ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="default: every file that applies, which takes many hours")
    parser.add_argument("--sample", action="store_true", help="a choice of files instead")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="interrupt the tests after so many minutes")
    parser.add_argument("--into", type=Path, default=FOLDER / "results.json")
    arguments, options = parser.parse_known_args()
    files, began = files_to_run(arguments.files, is_sample=arguments.sample), dt.datetime.now(dt.UTC)
    said = run(files, ["-k", NOT_IN_SAMPLE, *options] if arguments.sample else options, arguments.minutes)
    counted = count(files, said)
    passed, skipped = (sum(row[name] for row in counted.values()) for name in ("passed", "skipped"))
    failed = sum(len(row["failed"]) for row in counted.values())
    record = {
        "command": f"make test-aarch64 ARGS='{' '.join(sys.argv[1:])}'",
        "date": began.date().isoformat(),
        "minutes": round((dt.datetime.now(dt.UTC) - began).total_seconds() / 60),
        "processor": os.environ.get("AARCH64_CPU", "max, SVE of 256 bits"),
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "reasons": sorted(set(re.findall(r"^SKIPPED \[\d+\] \S+: (.*)$", said, re.MULTILINE))),
        "files": counted,
        "left out": LEFT_OUT,
    }
    arguments.into.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(said.splitlines()[-40:]))
    print(f"{passed} passed, {failed} failed, {skipped} skipped: {arguments.into}")
    return int(failed > 0 or not passed)


if __name__ == "__main__":
    sys.exit(main())
