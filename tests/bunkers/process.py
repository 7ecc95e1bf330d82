"""A bunker as a Node process: start it, watch what reaches it, kill it, bring it back.

Promises that `start` returns only when the bunker answers over its relays, and that one that
fails to start says why. Must never leave a process behind: the bunker ends with its stdin, of
which the launcher holds the other end, as the relays do (see `tests.relays.leash`).
"""

import asyncio
import collections
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tests.relays.process import KEPT_LINES, START_SECONDS

HERE = Path(__file__).parent
WAIT_SECONDS = 10.0
MAX_LINE = 1 << 24


class BunkerError(Exception):
    """A bunker did not start, ended too early or would not obey; ends with what it printed."""


class Request(NamedTuple):
    """A request that reached a bunker, decrypted, and when (monotonic clock)."""

    method: str
    id: str
    client: str
    params: list[str]
    at: float


class BunkerProcess:
    """A signer run by Node; use `async with`. `requests` grows over all its lives."""

    uri: str
    user_pubkey: str

    def __init__(self, script: str, config: Mapping[str, object]) -> None:
        self.requests: list[Request] = []
        self._script = script
        self._config = dict(config)
        self._lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._news = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def output(self) -> str:
        """The last lines the bunker printed for people, over all its lives."""
        return "".join(self._lines)

    def methods(self) -> list[str]:
        """The methods that were asked for, in order."""
        return [request.method for request in self.requests]

    async def start(self) -> None:
        """Start the bunker and wait until it answers; skips the test where there is no Node."""
        if self.alive:
            raise BunkerError(f"{self._script} is already running")
        # A group of its own: `node` may be a script that starts the real one. Not a session of
        # its own: a bunker paused when its launcher dies is then ended by the kernel.
        self._process = await asyncio.create_subprocess_exec(
            node(),
            str(HERE / self._script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            process_group=0,
            limit=MAX_LINE,
        )
        self._answers = asyncio.Queue()
        self._reader = asyncio.create_task(self._read(self._process))
        self._say(self._config)
        try:
            ready = await self._answer(START_SECONDS)
        except BaseException:
            await self.kill()
            raise
        self.uri, self.user_pubkey = ready["uri"], ready["user"]

    async def kill(self) -> None:
        """SIGKILL, then wait for the end. Harmless when the bunker is not running."""
        if self._process is None or self._reader is None:
            return
        self._signal(signal.SIGKILL)
        await self._process.wait()
        await self._reader
        self._process = None

    async def restart(self) -> None:
        """Kill if running, then start with the same keys and secret, and so at the same URI."""
        await self.kill()
        await self.start()

    def pause(self) -> None:
        """SIGSTOP: connected, silent, and nothing is lost. Returns once it stands still."""
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    async def wait_for(
        self, method: str, count: int = 1, *, seconds: float = WAIT_SECONDS
    ) -> Request:
        """The `count`-th request for this method, once it has come."""

        def found() -> list[Request]:
            return [request for request in self.requests if request.method == method]

        await self._until(lambda: len(found()) >= count, f"{count} × {method}", seconds)
        return found()[count - 1]

    async def change(
        self, *, refuse: Iterable[str] | None = None, delays: Mapping[str, float] | None = None
    ) -> None:
        """Another policy from now on, also after a restart."""
        policy: dict[str, object] = {}
        if refuse is not None:
            policy["refuse"] = list(refuse)
        if delays is not None:
            policy["delays"] = dict(delays)
        self._config |= policy
        await self._command("policy", policy)

    async def approve(self, client: str = "") -> None:
        """The user went to the `auth_url` and agreed; snstr must be told to whom."""
        await self._command("approve", client)

    async def nostrconnect(self, uri: str) -> None:
        """The user gave the bunker a client's nostrconnect:// URI. NDK only."""
        await self._command("nostrconnect", uri)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise BunkerError(f"{self._script} is not running")
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._running().pid, number)

    async def _command(self, name: str, value: object) -> None:
        self._say({name: value})
        answer = await self._answer(WAIT_SECONDS)
        if answer.get("done") != name:
            raise BunkerError(f"{self._script}, told to {name}: {answer.get('why')}")

    def _say(self, message: Mapping[str, object]) -> None:
        pipe = self._running().stdin
        assert pipe is not None
        pipe.write(json.dumps(message).encode() + b"\n")

    async def _answer(self, seconds: float) -> dict[str, Any]:
        await self._until(lambda: not self._answers.empty(), "answer", seconds)
        return self._answers.get_nowait()

    async def _until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    if self._reader is None or self._reader.done():
                        raise BunkerError(f"{self._script} ended:\n{self.output()}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            got = self.methods()
            raise BunkerError(f"no {what} in {seconds} s; {got=}\n{self.output()}") from None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self._take(line.decode())
            self._news.set()
        # Whoever waits looks again once this task is done.
        asyncio.get_running_loop().call_soon(self._news.set)

    def _take(self, line: str) -> None:
        if not line.startswith('{"'):
            self._lines.append(line)
            return
        message = json.loads(line)
        if "request" not in message:
            self._answers.put_nowait(message)
            return
        method, identity, client = message["request"], message["id"], message["client"]
        params = message["params"]
        self.requests.append(Request(method, identity, client, params, time.monotonic()))


def node() -> str:
    """The Node to run bunkers with; skips the test, with the reason, where something is missing."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("no bunkers: there is no node on the PATH (`make test` gets one)")
    if not (HERE / "node_modules" / "snstr").is_dir():
        pytest.skip("no bunkers: `make tests/bunkers/node_modules/.ready` fetches them")
    return program
