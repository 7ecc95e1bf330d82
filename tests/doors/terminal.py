"""A terminal for tests: a command line that sees a person, who reads and types.

Promises: what is shown can be waited for; the process is gone at the end of its `with`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import subprocess
import termios
from types import TracebackType
from typing import Self

from tests.doors.shell import COMMAND, ROOT, WAIT_SECONDS, Shell

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A command line at a terminal of its own; `piped` is its stdin instead of the keyboard."""

    def __init__(
        self, shell: Shell, *arguments: object, piped: str | None = None, **more: str
    ) -> None:
        self._screen, far = pty.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=ROOT,
            env=shell.environment(**{"TERM": "dumb", **more}),
            stdin=far if piped is None else subprocess.PIPE,
            stdout=far,
            stderr=far,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),
        )
        os.close(far)
        if self._process.stdin is not None:
            self._process.stdin.write((piped or "").encode())
            self._process.stdin.close()
        self.shown = ""
        self._seen = 0

    def expect(self, text: str) -> None:
        """Read until the text is shown, after all that was expected before."""
        while (at := self.shown.find(text, self._seen)) < 0:
            assert self._read(), f"{text!r} never came in:\n{self.shown}"
        self._seen = at + len(text)

    def press(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def answer(self, question: str, text: str) -> None:
        self.expect(question)
        self.press(f"{text}\n".encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            continue
        return self._process.wait(WAIT_SECONDS)

    def _read(self) -> bool:
        """Take in what is new on the screen, without its colours; False at the end."""
        try:
            block = os.read(self._screen, 65_536)
        except OSError:  # Linux's way to say that nobody holds the other end any more
            return False
        self.shown = _COLOURS.sub("", self.shown + block.decode(errors="replace"))
        return bool(block)

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
        os.close(self._screen)
