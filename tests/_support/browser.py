"""Headless Chromium for tests: pages, keys, screenshots, and what it asked of a network or said in its console.

It speaks the DevTools protocol over a pipe: no driver and no further package is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# As root in a container there is no sandbox; the others keep Chromium from asking its maker for anything.
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --disable-extensions --force-color-profile=srgb "
    "--hide-scrollbars --remote-debugging-pipe"
).split()
DEADLINE_S = 60


def find() -> str | None:
    """Return the path of Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a running browser."""

    def __init__(self, process: subprocess.Popen[bytes], read: int, write: int) -> None:
        self.process = process
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._read, self._write = read, write
        self._buffer, self._last, self._session = b"", 0, ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium has gone"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(about["args"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(about["entry"]))

    def size(self, width: int, height: int = 900) -> None:
        """Give the window a size in pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        """Prefer ``"dark"`` or ``"light"``."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, path: Path, *, state: str = "", wait: str = "document.documentElement?.dataset.drawn") -> float:
        """Open a file, wait until the expression `wait` holds, and return the seconds that it took."""
        begin = time.perf_counter()
        self.send("Page.navigate", url="about:blank")
        begin = time.perf_counter()
        self.send("Page.navigate", url=path.resolve().as_uri() + (f"#{state}" if state else ""))
        self.until(wait)
        return time.perf_counter() - begin

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, awaited."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until `expression` holds; fail after a minute."""
        end = time.monotonic() + DEADLINE_S
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}; {self.complaints}"
            time.sleep(0.05)

    def press(self, key: str, *, code: int = 0, text: str = "") -> None:
        """Press and release a key, named as in the DOM: "Tab", "ArrowDown", "a"."""
        known = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        about = {"key": key, "windowsVirtualKeyCode": code or known.get(key, ord(key[0].upper()))}
        typed = text or {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": typed} if typed else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def move(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """Start Chromium, and end it with its profile at the end."""
    path = find()
    assert path is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        (their_read, write), (read, their_write) = os.pipe(), os.pipe()
        script = f'exec "$@" 3<&{their_read} 4>&{their_write}'
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", path, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(their_read, their_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_read)
        os.close(their_write)
        try:
            yield Browser(process, read, write)
        finally:
            process.terminate()
            process.wait(10)
            os.close(read)
            os.close(write)
