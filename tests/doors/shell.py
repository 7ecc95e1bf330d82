"""A shell for tests: command lines run here or as processes of their own, in a home of their own.

Promises: nothing of the caller's own environment or home is touched; a wait that is not met
fails with everything that was printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM, Signals
from types import TracebackType
from typing import IO, Any, Self

import pytest

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 30.0
COMMAND = [sys.executable, "-m", "postrich"]


@dataclass(frozen=True)
class Result:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout; fails where there is anything else."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """JSON Lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """The one sentence on stderr; fails where there is more or less."""
        [line] = self.err.splitlines()
        assert line.startswith("postrich: ")
        assert "Traceback" not in self.err
        return line.removeprefix("postrich: ")


@dataclass
class Shell:
    """A home and the environment that goes with it."""

    home: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    variables: dict[str, str] = field(default_factory=dict)
    command_lines: list[bytes] = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if "POSTRICH" not in name}
        return {
            **clean,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "COLUMNS": "80",
            "POSTRICH_HOME": str(self.home),
            "POSTRICH_INDEXERS": "",
            "POSTRICH_LISTEN": "127.0.0.1:0",
            **self.variables,
            **more,
        }

    def run(self, *arguments: object, stdin: str | bytes = b"", **more: str) -> Result:
        """Run a command line in this process: the same code behind the same frame."""
        from postrich.doors.cli.app import carry_out

        body = stdin.encode() if isinstance(stdin, str) else stdin
        with self.patch.context() as patch:
            for name in [name for name in os.environ if "POSTRICH" in name]:
                patch.delenv(name)
            for name, value in self.environment(**more).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body), "utf-8"))
            self.capture.readouterr()
            code = carry_out([str(argument) for argument in arguments])
        out, err = self.capture.readouterr()
        return Result(code, out, err)

    def start(self, *arguments: object, stdin: str = "", **more: str) -> Running:
        """Run a command line as a process of its own."""
        command = [*COMMAND, *(str(argument) for argument in arguments)]
        running = Running(command, self.environment(**more), stdin)
        self.command_lines.append(running.command_line())
        return running

    def finish(self, *arguments: object, stdin: str = "", **more: str) -> Result:
        """Run a command line as a process of its own, to its end."""
        with self.start(*arguments, stdin=stdin, **more) as running:
            return running.end()

    async def arun(self, *arguments: object, stdin: str | bytes = b"", **more: str) -> Result:
        """As `run`, for a test that has something of its own to do meanwhile."""
        return await asyncio.to_thread(self.run, *arguments, stdin=stdin, **more)

    async def afinish(self, *arguments: object, stdin: str = "", **more: str) -> Result:
        """As `finish`, for a test that has something of its own to do meanwhile."""
        return await asyncio.to_thread(self.finish, *arguments, stdin=stdin, **more)

    def until(self, look: Callable[[], str], *texts: str) -> str:
        """Look again and again until all of these are seen."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not _all_in(texts, [seen := look()]):
            assert time.monotonic() < deadline, f"{texts} never came in:\n{seen}"
        return seen

    def post(self, *arguments: object) -> Any:
        """Post something; its JSON answer."""
        return self.run("post", "--json", *arguments).json

    def job(self, number: int) -> Any:
        return self.run("queue", "show", "--json", number).json


class Running:
    """A process whose lines can be waited for; killed at the end of its `with`, if need be."""

    def __init__(self, command: list[str], environment: Mapping[str, str], stdin: str = "") -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it may not read it
            self._process.stdin.write(stdin)
            self._process.stdin.close()
        self._out: list[str] = []
        self._err: list[str] = []
        self._news = threading.Condition()
        self._ended = 0
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        pairs = ((self._process.stdout, self._out), (self._process.stderr, self._err))
        self._threads = [threading.Thread(target=self._read, args=pair) for pair in pairs]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def command_line(self) -> bytes:
        """What all users of the machine can see of it."""
        return Path(f"/proc/{self.pid}/cmdline").read_bytes()

    def _read(self, pipe: IO[str], lines: list[str]) -> None:
        for line in pipe:
            with self._news:
                lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended += 1
            self._news.notify_all()

    def said(self) -> str:
        """Everything printed so far."""
        with self._news:
            return "".join([*self._out, *self._err])

    async def await_for(self, *texts: str) -> None:
        await asyncio.to_thread(self.wait_for, *texts)

    def wait_for(self, *texts: str) -> None:
        """Return once all of these were printed."""
        with self._news:
            self._news.wait_for(
                lambda: self._ended == 2 or _all_in(texts, [*self._out, *self._err]), WAIT_SECONDS
            )
        said = self.said()
        missing = [text for text in texts if text not in said]
        assert not missing, f"{missing} never came in:\n{said}"

    def send(self, number: Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> Result:
        """Wait for the end."""
        code = self._process.wait(WAIT_SECONDS)
        for thread in self._threads:
            thread.join()
        return Result(code, "".join(self._out), "".join(self._err))

    def stop(self, number: Signals = SIGTERM) -> Result:
        self.send(number)
        return self.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _all_in(texts: Iterable[str], lines: list[str]) -> bool:
    said = "".join(lines)
    return all(text in said for text in texts)
