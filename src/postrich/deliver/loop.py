"""The one shape of every loop: start, stop, wake, and a single pass that tests can call.

Promises: a pass that fails is logged and tried again; a loop never ends by itself unless its
pass says so; stopping waits for the pass under way.
"""

from __future__ import annotations

import abc
import asyncio
import logging

from postrich.errors import PostrichError

log = logging.getLogger("postrich.engine")

AFTER_FAULT = 1.0


class Done(Exception):
    """A pass raises this to end its loop: its work is over."""


class Loop(abc.ABC):
    """Calls `pass_once` again and again: when woken, and after the time it returned."""

    name = "loop"

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._stopping = False
        #: Why the last pass failed; "" where it did not.
        self.trouble = ""
        #: When the last pass ended, by the loop's clock.
        self.passed_at = 0.0
        self._task: asyncio.Task[None] | None = None

    @abc.abstractmethod
    async def pass_once(self) -> float | None:
        """Do what is due now; returns the seconds until the next pass, None: when woken."""

    async def finish(self) -> None:  # noqa: B027 - most loops leave nothing behind
        """Called once after the last pass."""

    def start(self) -> None:
        self.passed_at = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    def wake(self) -> None:
        """Something may be due now."""
        self._woken.set()

    def ask_to_stop(self) -> None:
        """Begin nothing new; `stop` waits for the end."""
        self._stopping = True
        self.wake()

    async def stop(self) -> None:
        """Let the pass under way end, then finish."""
        self.ask_to_stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def has_ended(self) -> bool:
        return self._task is not None and self._task.done()

    async def _run(self) -> None:
        try:
            while not self._stopping:
                self._woken.clear()
                try:
                    pause = await self._pass_safely()
                except Done:
                    break
                await self._sleep(pause)
        finally:
            await self.finish()

    async def _pass_safely(self) -> float | None:
        try:
            pause = await self.pass_once()
            self._note_trouble("")
            self.passed_at = asyncio.get_running_loop().time()
            return pause
        except PostrichError as problem:
            self._note_trouble(str(problem))
        except Done:
            raise
        except Exception:
            log.exception("%s: unexpected fault", self.name)
        return AFTER_FAULT

    def _note_trouble(self, trouble: str) -> None:
        """Trouble that stays the same is told once, and so is its end."""
        was, self.trouble = self.trouble, trouble
        if trouble:
            level = logging.DEBUG if was == trouble else logging.ERROR
            log.log(level, "%s: %s", self.name, trouble)
        elif was:
            log.info("%s: goes on", self.name)

    async def _sleep(self, pause: float | None) -> None:
        if self._stopping or self._woken.is_set():
            return
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            pass
