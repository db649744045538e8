"""Backends that do what a backend must not do. `test_isolation` drops this file into a folder of backends.

Each computes the product and does one bad thing on the way, in every call, or from call number `after` on.
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

from harness.interface import Backend, HostExecution
from harness.plan import Plan
from harness.timing import clock


class Execution(HostExecution):
    """One product, computed by the definition that NumPy has, and then the bad thing."""

    def __init__(self, backend, operands):
        super().__init__(operands)
        self.backend, self.calls, self.kept = backend, 0, None

    def run(self):
        self.calls += 1
        x = self.operands
        np.matmul(x.a, x.b, out=x.out)
        if self.calls >= self.backend.after:
            self.backend.misbehave(self)


class Good(Backend):
    """Does nothing bad."""

    name, step, idea, source = "out-good", 1, "a test", "a test"
    after = 1

    def declines(self, problem):
        return None if problem.semiring.is_ordinary and not problem.accumulate else "plus_times without a C only"

    def plan(self, problem, machine):
        return Plan(problem, machine.threads)

    def prepare(self, plan, operands):
        return Execution(self, operands)

    def misbehave(self, execution):
        pass


# What each does, by the end of its name, and what must then be in the reason. Filled by `bad`.
CLUES: dict[str, str] = {}


def bad(clue, after=1):
    """Make a backend of a function that misbehaves; `clue` must be in the reason of its failure."""

    def make(function):
        name = f"out-{function.__name__.replace('_', '-')}"
        CLUES[name] = clue
        members = {"name": name, "step": 2 + len(CLUES), "after": after, "__module__": __name__}
        members["misbehave"] = lambda self, execution: function(execution)
        globals()[f"Bad{len(CLUES)}"] = type(name, (Good,), members)
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


@bad("SystemExit: goodbye (misbehaving_backends.py:")
def exit_politely(_):
    sys.exit("goodbye")


@bad("KeyboardInterrupt (misbehaving_backends.py:")
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


@bad("it replaced harness.timing.clock.CpuClock.sample, time.perf_counter_ns")
def stop_the_clock(_):
    time.perf_counter_ns = lambda: 0
    clock.CpuClock.sample = lambda *_: clock.Sample(1.0, {})


@bad("the backend changed its operand a")
def scribble(execution):
    execution.operands.a[0, 0] = 1.0


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


@bad("is wrong", after=2)
def forget_the_last_row(execution):
    execution.operands.out[-1:] = 0


class Lazy(Good):
    """Computes once, and then finds the result still there."""

    name, step = "out-lazy", 101

    def prepare(self, plan, operands):
        execution = super().prepare(plan, operands)
        compute = execution.run
        execution.run = lambda: None if execution.calls else compute()
        return execution


class Remembers(Good):
    """Computes once, and then copies what it computed."""

    name, step = "out-remembers", 102

    def misbehave(self, execution):
        if execution.kept is None:
            execution.kept = execution.operands.out.copy()
        execution.operands.out[...] = execution.kept


class Early(Good):
    """Packs B when it is prepared, which is not timed."""

    name, step = "out-early", 103

    def prepare(self, plan, operands):
        execution = super().prepare(plan, operands)
        execution.kept = operands.b.copy()
        return execution

    def misbehave(self, execution):
        np.matmul(execution.operands.a, execution.kept, out=execution.operands.out)


class Digests(Good):
    """Keeps results by all values of the operands."""

    name, step = "out-digests", 104

    def prepare(self, plan, operands):
        execution, kept = super().prepare(plan, operands), {}

        def run():
            key = hash(operands.a.tobytes() + operands.b.tobytes())
            if key not in kept:
                time.sleep(SLOW_S)
                kept[key] = operands.a @ operands.b
            operands.out[...] = kept[key]

        execution.run = run
        return execution


class Peeks(Good):
    """Looks whether the result still stands in the output, and then does nothing."""

    name, step = "out-peeks", 105

    def prepare(self, plan, operands):
        execution = super().prepare(plan, operands)

        def run():
            if operands.out.size and operands.out[0, 0] != operands.a[0] @ operands.b[:, 0]:
                time.sleep(SLOW_S)
                operands.out[...] = operands.a @ operands.b
                operands.out[0, 0] = operands.a[0] @ operands.b[:, 0]

        execution.run = run
        return execution


class Narrow(Good):
    """Computes in half the precision that it was asked for."""

    name, step = "out-narrow", 106

    def misbehave(self, execution):
        x = execution.operands
        x.out[...] = x.a.astype(np.float32) @ x.b.astype(np.float32)


class Corners(Good):
    """Is right in the corners alone."""

    name, step = "out-corners", 107

    def misbehave(self, execution):
        execution.operands.out[2:-2, 2:-2] = 1.0


class Later(Good):
    """Returns at once, and has a thread write the result a little later."""

    name, step = "out-later", 108

    def prepare(self, plan, operands):
        execution = super().prepare(plan, operands)

        def later():
            time.sleep(0.05)
            np.matmul(operands.a, operands.b, out=operands.out)

        execution.run = lambda: threading.Thread(target=later).start()
        return execution


class Asks(Good):
    """Looks for the expected result in the frames that called it."""

    name, step = "out-asks", 109

    def prepare(self, plan, operands):
        execution = super().prepare(plan, operands)

        def run():
            frame, shape = sys._getframe(), operands.out.shape
            while frame:
                for value in list(frame.f_locals.values()):
                    if isinstance(value, np.ndarray) and value.shape == shape and value is not operands.out:
                        operands.out[...] = value
                        return
                frame = frame.f_back

        execution.run = run
        return execution


SLOW_S = 0.03  # as if the product took so long

CLUES |= {"out-lazy": "was not written", "out-remembers": "is wrong", "out-early": "is wrong"}
CLUES |= {"out-digests": "it keeps results", "out-peeks": "it keeps results", "out-narrow": "is wrong"}
CLUES |= {"out-corners": "is wrong", "out-later": "was not written", "out-asks": "was not written"}
