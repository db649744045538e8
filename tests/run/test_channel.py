from __future__ import annotations

import os
import time
from multiprocessing import Pipe

import pytest

from harness.run import messages


@pytest.fixture
def ends():
    ours, theirs = Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


def later() -> float:
    return time.monotonic() + 60


def test_plain_data_come_as_they_were_sent(ends):
    message = ("ok", {"samples": [1.5, 2], "none": None, "words": "a \udc80", "flag": True, "pair": (1, b"x")})
    ends[1].send(message)
    ends[1].send(("ok", 2))
    assert messages.receive(ends[0], later()) == message
    assert messages.receive(ends[0], later()) == ("ok", 2)


@pytest.mark.parametrize("part", [b"", b"\0\0", b"\0\0\0\x09abc"])
def test_a_message_that_stops_in_its_middle_is_awaited_no_longer_than_told(ends, part):
    os.write(ends[1].fileno(), part)
    with pytest.raises(TimeoutError):
        messages.receive(ends[0], time.monotonic() + 0.05)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"garbage!", "a message of"),
        (b"\xff\xff\xff\xff\0\0\0\1", "a message of -1 bytes"),
        (b"\0\0\0\0", "a message of 0 bytes"),
        (b"\0\0\0\x03abc", "Error"),
        (b"\0\0\0\x0ccposix\nsystem", "Error"),
        (b"\0\0\0\x1ccposix\nsystem\n(S'exit 1'\ntR.", "it names posix.system"),
    ],
)
def test_what_is_no_plain_data_is_refused(ends, text, says):
    os.write(ends[1].fileno(), text)
    with pytest.raises(messages.Garbled, match=says):
        messages.receive(ends[0], later())


def test_a_closed_connection_is_an_end(ends):
    ends[1].close()
    with pytest.raises(EOFError):
        messages.receive(ends[0], later())
