"""Backends that harm the process or the machine: each computes the product and then does one bad thing.

It does so in every call, or from call number `after` on. `CLUES` has what must be said of each.
"""

from __future__ import annotations

import ctypes
import hashlib
import locale
import os
import pickle
import resource
import signal
import stat
import struct
import subprocess
import sys
import threading
import time

import numpy as np

from tests.red_team import cheats

CLUES: dict[str, str] = {}  # filled by `bad`


def bad(clue, after=1):
    """Make a backend of a function that misbehaves; `clue` must be in the reason of its failure."""

    def make(function):
        def compute(self, execution, operands):
            cheats.Honest.compute(self, execution, operands)
            if execution.calls >= after:
                function(execution)

        name = f"out-{function.__name__.replace('_', '-')}"
        CLUES[name] = clue
        members = {"name": name, "step": 100 + len(CLUES), "compute": compute, "__module__": __name__}
        globals()[f"Bad{len(CLUES)}"] = type(name, (cheats.Honest,), members)
        return function

    return make


@bad("killed by SIGSEGV")
def segfault(_):
    ctypes.string_at(0)


@bad("killed by SIGABRT; it printed: last words", after=3)
def abort_while_timed(_):
    print("last words", flush=True)  # noqa: T201
    os.abort()


@bad("exited with status 0")
def leave(_):
    os._exit(0)


@bad("SystemExit: goodbye (harm.py:")
def exit_politely(_):
    sys.exit("goodbye")


@bad("KeyboardInterrupt (harm.py:")
def interrupt(_):
    raise KeyboardInterrupt


@bad("RecursionError: maximum recursion depth exceeded")
def recurse(execution):
    recurse(execution)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


@bad("Unspeakable: <exception str() failed>")
def raise_what_cannot_be_printed(_):
    raise Unspeakable


@bad("ValueError: long ?xxx")
def raise_a_book(_):
    raise ValueError("long \udc80" + "x" * 10_000_000)


@bad("out of memory: Unable to allocate")
def want_more_memory_than_there_is(_):
    np.empty(1 << 46)


@bad("out of memory")
def leak(execution):
    """Leak until the cap is met, which stands lower here than it would, to be met soon."""
    used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()  # noqa: SIM115, PTH123
    resource.setrlimit(resource.RLIMIT_DATA, (used + (1 << 26), used + (1 << 26)))
    execution.kept = []
    while True:
        execution.kept.append(np.ones(1 << 17))


@bad("(hang)")
def hang_deaf_and_with_the_interpreter_locked(_):
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(600)


def sleep_and_end():
    try:
        time.sleep(600)
    finally:
        os._exit(0)


@bad("it left a process running: python")
def fork(_):
    if os.fork() == 0:
        sleep_and_end()


@bad("it left a process running: python", after=3)
def become_a_daemon_while_timed(_):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            sleep_and_end()
        os._exit(0)
    os.wait()


@bad("killed by SIGKILL")
def leave_a_daemon_and_die(_):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        os._exit(0)
    os.wait()
    os.kill(os.getpid(), signal.SIGKILL)


@bad("File too large")
def print_without_end(_):
    """Print until the cap is met, which stands lower here too."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22))
    while True:
        os.write(1, b"chatter " * (1 << 17))


@bad("EOFError")
def ask_the_user(_):
    input("are you sure?")


@bad("sample rejected: openblas uses 2 threads, not 1", after=2)
def take_more_threads(execution):
    from threadpoolctl import threadpool_limits

    execution.kept = threadpool_limits(2)


@bad("it left 1 threads running, told to use 1")
def leave_a_thread_running(execution):
    def spin():
        while True:
            hashlib.sha256(block)

    block = bytes(1 << 22)  # hashed without the interpreter's lock
    if execution.kept is None:
        execution.kept = threading.Thread(target=spin, daemon=True)
        execution.kept.start()


@bad("the environment (OMP_NUM_THREADS)")
def change_all_that_can_be_changed(_):
    os.chdir("/")
    os.umask(0o123)
    os.environ["OMP_NUM_THREADS"] = "7"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    np.seterr(all="raise")
    locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C")


@bad("what it sent is no answer: a message of", after=2)
def write_to_the_connection(_):
    for descriptor in sockets():
        os.write(descriptor, b"garbage " * 100)


@bad("what it sent is no answer: it names")
def send_a_command_to_the_runner(_):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (os.environ["BOMB"],)

    message = pickle.dumps(("ok", Bomb()))
    for descriptor in sockets():
        os.write(descriptor, struct.pack("!i", len(message)) + message)


@bad("Bad file descriptor")
def close_the_connection(_):
    for descriptor in sockets():
        os.close(descriptor)


def sockets():
    """Return the descriptors of this process that are sockets: the connection is among them."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    return [number for number in found if os.path.exists(f"/proc/self/fd/{number}") and is_socket(number)]  # noqa: PTH110


def is_socket(descriptor):
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


@bad("CalledProcessError")
def have_a_child_take_the_memory(_):
    hoard = "import resource; cap = resource.getrlimit(resource.RLIMIT_DATA)[1]; bytearray(cap + 1)"
    subprocess.run([sys.executable, "-S", "-c", hoard], check=True, stderr=subprocess.DEVNULL)
