"""Group commit: whatever accepts or settles wait in this process are written as one transaction.

Promises: an answer is given after its commit; one bad operation fails alone.
Never decides anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from postrich.errors import StoreAway, StoreBusy, StoreError, StoreFull

MAX_GROUP = 64

#: Writes items in one transaction; one result or error for each.
Commit = Callable[[Sequence[Any]], Awaitable[list[Any]]]


class GroupWriter:
    """Writes operations of one kind; while `at_once` groups are being written the next gathers."""

    def __init__(self, commit: Commit, shown: str, at_once: int = 1) -> None:
        self._commit = commit
        self._shown = shown
        self._at_once = at_once
        self._waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(self, item: Any) -> asyncio.Future[Any]:
        if self._closed:
            raise StoreError(f"{self._shown} is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._tasks) < self._at_once:
            self._tasks.add(asyncio.ensure_future(self._work()))
        return future

    async def close(self) -> None:
        """Take nothing more; write what waits."""
        self._closed = True
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # who is about to hand in shall be in this group
            while self._waiting:
                size = min(MAX_GROUP, len(self._waiting))
                await self._write([self._waiting.popleft() for _ in range(size)])
        finally:  # at once: who hands in from now on needs another task
            self._tasks = {task for task in self._tasks if task is not asyncio.current_task()}

    async def _write(self, group: list[tuple[Any, asyncio.Future[Any]]]) -> None:
        """A fault of one operation is isolated by halving."""
        try:
            answers = await self._commit([item for item, _ in group])
        except Exception as problem:  # noqa: BLE001 - it is handed to who asked
            if len(group) > 1 and not isinstance(problem, StoreFull | StoreBusy | StoreAway):
                middle = len(group) // 2
                await self._write(group[:middle])
                await self._write(group[middle:])
                return
            answers = [problem] * len(group)
        for (_, future), answer in zip(group, answers, strict=True):
            _resolve(future, answer)


def _resolve(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
