"""Ctrl-C is heard at the end of a block that must not be left half done."""

import contextlib
import os
import signal
import threading

import pytest
from numba import types

from backends.cpu._cache import cache
from backends.cpu._compile.jit import jit
from backends.cpu._ir import functions
from harness.surroundings import interrupts_held


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_block_is_finished_first():
    steps = []

    def block():
        with interrupts_held():
            press()
            with interrupts_held():
                press()
            steps.append("inside")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_is_called_once_at_the_end(monkeypatch):
    called = []
    before = signal.signal(signal.SIGINT, lambda *arguments: called.append(arguments))
    try:
        with interrupts_held():
            press()
            assert not called
    finally:
        signal.signal(signal.SIGINT, before)
    assert [number for number, _ in called] == [signal.SIGINT]


def test_who_ignores_it_and_other_threads_are_as_ever():
    def in_a_thread():
        with interrupts_held():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_held():
            press()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)


def nothing(x):
    pass


COMPILERS = {
    cache: lambda: jit(None, types.intp, parallel=False)(nothing),
    functions: lambda: functions.compile_functions("pressed", (), lambda module: []),
}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_kernel_is_compiled_to_its_end(monkeypatch, compiler):
    compiled = []

    @contextlib.contextmanager
    def pressed():
        press()
        yield
        compiled.append(1)

    monkeypatch.setattr(compiler, "collector_paused", pressed)
    with pytest.raises(KeyboardInterrupt):
        COMPILERS[compiler]()
    assert compiled == [1]
    monkeypatch.undo()
    COMPILERS[compiler]()
