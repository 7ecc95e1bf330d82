"""A relay as a subprocess: start it, stop it, kill it, bring it back on the same port.

Promises that `start` returns only when the relay answers, and that a relay that fails to start
says why. Must never leave a process behind: the child is also held on a leash (see `leash`).
"""

import asyncio
import collections
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0
STOP_SECONDS = 10.0
KEPT_LINES = 200
# Below Linux's range for outgoing connections, so that no client socket takes the port of a
# relay while it is down.
FIRST_PORT, LAST_PORT = 20000, 32000


class RelayError(Exception):
    """A relay process did not start or stop; the message ends with what it printed."""


def free_port() -> int:
    """A loopback port nobody listens on, safe to leave and to take again."""
    for port in random.sample(range(FIRST_PORT, LAST_PORT), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {FIRST_PORT} and {LAST_PORT}")


class RelayProcess:
    """A relay module run by this Python; use `with` or `async with`.

    `start`, `stop`, `kill` and `restart` block. A test whose own client must answer while the
    relay stops awaits `astart`, `astop` and `arestart` instead.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        port: int | None = None,
        scratch: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.url = f"ws://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-u", "-m", module, "--leash", f"--port={self.port}"]
        self._command += arguments
        self._scratch = scratch
        self._process: subprocess.Popen[str] | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """The last lines the relay printed, over all its lives."""
        return "".join(list(self._lines))

    def start(self) -> None:
        """Start the relay and wait until it answers."""
        if self.alive:
            raise RelayError(f"{self.url} is already running")
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        spoke, ready = threading.Event(), threading.Event()
        assert self._process.stdout is not None
        arguments = (self._process.stdout, spoke, ready)
        self._reader = threading.Thread(target=self._read, args=arguments, daemon=True)
        self._reader.start()
        spoke.wait(START_SECONDS)
        if not ready.is_set():
            self.kill()
            raise RelayError(f"{self._command} did not start:\n{self.output()}")

    def stop(self) -> None:
        """SIGTERM, then wait for the end."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RelayError(f"{self.url} ignored SIGTERM:\n{self.output()}") from None
        self._reap(process)

    def kill(self) -> None:
        """SIGKILL, then wait for the end. Harmless when the relay is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reap(self._process)

    def restart(self) -> None:
        """Stop if running, then start on the same port with the same data."""
        if self.alive:
            self.stop()
        self.start()

    async def astart(self) -> None:
        await asyncio.to_thread(self.start)

    async def astop(self) -> None:
        await asyncio.to_thread(self.stop)

    async def arestart(self) -> None:
        await asyncio.to_thread(self.restart)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if self._scratch is not None:
            self._scratch.cleanup()

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RelayError(f"{self.url} is not running")
        return self._process

    def _reap(self, process: subprocess.Popen[str]) -> None:
        if self._reader is not None:
            self._reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def _read(self, pipe: IO[str], spoke: threading.Event, ready: threading.Event) -> None:
        for line in pipe:
            self._lines.append(line)
            if f"ready {self.url}" in line:
                ready.set()
                spoke.set()
        spoke.set()
