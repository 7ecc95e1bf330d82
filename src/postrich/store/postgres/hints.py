"""Hints between processes: LISTEN and NOTIFY. A hint says “look again”, and is never the truth.

Promises: at most one notification in `GAP_S` from this process, none of which comes back to it;
a listening connection that breaks is replaced, and whoever listens looks again then. Missing every
hint costs only latency.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from postrich.errors import StoreError
from postrich.store.postgres.address import Address
from postrich.store.postgres.faults import translated
from postrich.store.postgres.sessions import connect

log = logging.getLogger(__name__)

GAP_S = 0.02
#: How often a listener makes sure that somebody is at the other end.
CHECK_S = 30.0
BACKOFF_S = (0.1, 0.5, 2.0, 5.0, 10.0)


class Hints:
    """What this process tells the others, and hears of them."""

    def __init__(self, address: Address) -> None:
        self.instance = uuid.uuid4().hex
        self._address = address
        self._channel = address.schema
        self._last = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._sender: Callable[[str], Awaitable[None]] | None = None
        self._sending: set[asyncio.Future[None]] = set()
        self._listeners: list[asyncio.Future[None]] = []

    # -- telling -----------------------------------------------------------------------------

    def use(self, sender: Callable[[str], Awaitable[None]]) -> None:
        """How a notification is sent that must wait for its turn."""
        self._sender = sender

    @property
    def text(self) -> str:
        return f"NOTIFY {self._channel}, '{self.instance}'"

    def commit_text(self, makes_work: bool) -> str:
        """How to commit: with a notification where others have work now."""
        if not makes_work:
            return "COMMIT"
        loop = asyncio.get_running_loop()
        wait = self._last + GAP_S - loop.time()
        if wait <= 0:
            self._last = loop.time()
            return f"{self.text}; COMMIT"
        if self._later is None:
            self._later = loop.call_later(wait, self._send_later)
        return "COMMIT"

    def _send_later(self) -> None:
        self._later = None
        self._last = asyncio.get_running_loop().time()
        if self._sender is not None:
            task = asyncio.ensure_future(self._sender(self.text))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    # -- hearing -----------------------------------------------------------------------------

    def listen(self, on_hint: Callable[[], None]) -> None:
        self._listeners.append(asyncio.ensure_future(self._listen(on_hint)))

    async def _listen(self, on_hint: Callable[[], None]) -> None:
        failures = 0
        while True:
            try:
                with translated(self._address.shown):
                    connection = await connect(self._address)
                    failures = 0
                    await self._hear(connection, on_hint)
            except StoreError as problem:  # the way is broken: another connection is tried
                failures += 1
                log.info("no hints from other processes for now: %s", problem)
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])

    async def _hear(self, connection: Any, on_hint: Callable[[], None]) -> None:
        """Until the connection ends."""

        def heard(_: object, __: int, ___: str, sender: object) -> None:
            if sender != self.instance:
                on_hint()

        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(self._channel, heard)
            on_hint()  # for what was missed
            while not ended.is_set():
                try:
                    await asyncio.wait_for(ended.wait(), CHECK_S)
                except TimeoutError:
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    async def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._send_later()
        for task in self._listeners:
            task.cancel()
        await asyncio.gather(*self._listeners, *self._sending, return_exceptions=True)
