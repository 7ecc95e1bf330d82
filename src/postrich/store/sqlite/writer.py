"""One thread that writes, in groups: whatever waits is committed together.

Promises: an answer is given after its commit; one bad operation fails alone; the order within
a group is accepts, then results, then the rest, which is free to choose since all of them are
concurrent. Never decides anything.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from postrich.errors import PostrichError, StoreBusy, StoreError, StoreFull
from postrich.store.sqlite.connection import Database, translated

MAX_GROUP = 64

#: Carries out many operations of one kind at once: one result or error for each.
Batcher = Callable[[Database, Sequence[Any]], list[Any]]


class Operation:
    """Something to be written, and who waits for it."""

    __slots__ = ("action", "batch", "future", "loop")

    def __init__(
        self,
        action: Any,
        batch: str | None,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
    ) -> None:
        self.action = action
        self.batch = batch
        self.loop = loop
        self.future = future


class Writer:
    """The writer thread of one database file."""

    def __init__(
        self,
        database: Database,
        path: str,
        batchers: dict[str, Batcher],
        on_rollback: Callable[[], None],
    ) -> None:
        self._database = database
        self._path = path
        self._batchers = batchers
        self._on_rollback = on_rollback
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="postrich-writer", daemon=True)
        self._closed = False
        self._thread.start()

    def submit(self, action: Any, batch: str | None = None) -> asyncio.Future[Any]:
        """Queue an operation: a function of the database, or an item for a batcher."""
        if self._closed:
            raise StoreError(f"{self._path} is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(Operation(action, batch, loop, future))
        return future

    def close(self) -> None:
        """Take nothing more; write what is queued, then end."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)

    def join(self) -> None:
        """Wait for the end. Blocks: call it off the loop."""
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            ending = False
            while len(group) < MAX_GROUP and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    ending = True
                    break
                group.append(following)
            self._commit(group)
            if ending:
                break
        self._database.close()

    def _commit(self, group: list[Operation]) -> None:
        """One transaction for the group; a fault of one operation is isolated by halving."""
        try:
            with translated(self._path), self._database.transaction():
                answers = self._execute(group)
        except Exception as problem:  # noqa: BLE001 - it is handed to who asked
            self._on_rollback()
            if len(group) > 1 and not isinstance(problem, StoreFull | StoreBusy):
                middle = len(group) // 2
                self._commit(group[:middle])
                self._commit(group[middle:])
                return
            answers = [(operation, problem) for operation in group]
        _answer(answers)

    def _execute(self, group: list[Operation]) -> list[tuple[Operation, Any]]:
        answers: list[tuple[Operation, Any]] = []
        for kind, batcher in self._batchers.items():
            batch = [operation for operation in group if operation.batch == kind]
            if batch:
                found = batcher(self._database, [operation.action for operation in batch])
                answers.extend(zip(batch, found, strict=True))
        for operation in group:
            if operation.batch is None:
                try:
                    answers.append((operation, operation.action(self._database)))
                except PostrichError as refusal:  # operations refuse before they write
                    answers.append((operation, refusal))
        return answers


def _answer(answers: list[tuple[Operation, Any]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Operation, Any]]] = {}
    for operation, result in answers:
        by_loop.setdefault(operation.loop, []).append((operation, result))
    for loop, mine in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(answers: list[tuple[Operation, Any]]) -> None:
    for operation, result in answers:
        if operation.future.done():
            continue
        if isinstance(result, BaseException):
            operation.future.set_exception(result)
        else:
            operation.future.set_result(result)
