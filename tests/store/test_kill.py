"""kill -9 at any moment: what was said to be recorded is there once, at most one cell more, and the file goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.store.store import Store
from tests._support.planted_store import begun, cell

ROOT = Path(__file__).resolve().parents[2]
KILLS = 100

# One process that has imported everything forks the writers, so that each is at work at once. A writer records cells
# from the number it is given, as fast as it can, and says each number when `append` has returned. Its disk is slow: the
# system takes a record in four parts, so that many a kill comes between them.
WRITERS = """
import os, sys, time
from pathlib import Path
from harness.store.store import Store
from tests._support.planted_store import MACHINE, cell
folder, write = Path(sys.argv[1]), os.write

def write_part(file, text):
    if len(text) > 2000:
        time.sleep(0.0005)
    return write(file, text[:2000])

os.write = write_part
for first in sys.stdin:
    writer = os.fork()
    if not writer:
        store, number = Store(folder), int(first)
        while True:
            store.append(cell(n=number, reason="x" * 7_000), machine=MACHINE)
            os.write(1, b"%d\\n" % number)
            number += 1
    os.write(1, b"writer %d\\n" % writer)
    os.waitpid(writer, 0)
    os.write(1, b"dead\\n")
"""


def test_kill_9_a_hundred_times_loses_at_most_the_cell_in_flight(tmp_path):
    store, path = Store(tmp_path), tmp_path / "ladder.jsonl"
    store.append(begun())
    noise, promised, unpromised, torn = random.Random(1), 0, 0, 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, tmp_path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writers:
        for attempt in range(KILLS):
            print(promised + unpromised, file=writers.stdin, flush=True)
            said = kill_at_any_moment(writers, noise, after=attempt % 2)
            assert said == list(range(promised + unpromised, promised + unpromised + len(said)))
            promised += unpromised + len(said)
            numbers = [cell.axes["n"] for cell in store.cells()]
            assert numbers[:promised] == list(range(promised)), "each once, in order"
            unpromised = len(numbers) - promised
            assert unpromised in (0, 1)
            torn += path.exists() and not path.read_bytes().endswith(b"\n")  # not there before the first append
        writers.stdin.close()
    assert promised >= KILLS // 2
    store.append(cell(n=promised + unpromised))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    numbers = [line["axes"]["n"] for line in lines if line["kind"] == "cell"]
    assert numbers == list(range(promised + unpromised + 1)), f"healed {torn} times, and no part of a line is left"


def kill_at_any_moment(writers: subprocess.Popen[str], noise: random.Random, *, after: int) -> list[int]:
    """Kill the writer that has just been forked, some time after it said `after` numbers; return all that it said."""
    said: list[int] = []
    writer = 0
    for line in writers.stdout:
        word, *number = line.split()
        if word == "dead":
            break
        if word == "writer":
            writer = int(*number)
        else:
            said.append(int(word))
        if writer and len(said) >= after:
            time.sleep(noise.uniform(0, 0.02))
            os.kill(writer, signal.SIGKILL)
            writer = 0
    return said
