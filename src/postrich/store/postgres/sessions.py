"""This process's connections, and the transactions on them.

Promises: READ COMMITTED, no lock that outlives its transaction; who writes and who reads have
connections of their own, so that neither starves. A transaction that was in somebody's way, or lost
its connection before the commit, is run again a few times; where the commit's own fate is not
known, that is said, and the caller asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from postrich.clock import SystemClock
from postrich.errors import BadSetting, StoreAway, StoreError
from postrich.store.postgres.address import Address
from postrich.store.postgres.bridge import carry
from postrich.store.postgres.database import Database
from postrich.store.postgres.dialect import statements
from postrich.store.postgres.faults import CONFLICTS, is_away, is_read_only, translated
from postrich.store.postgres.texts import teach
from postrich.store.verbs.moving import KnownUrls

log = logging.getLogger(__name__)

CONNECT_S = 10.0
#: Longer than any timeout of the server's: only a server that says nothing at all gets here.
COMMAND_S = 60.0
TRIES = 6
PAUSE_S = 0.02

#: Ours for every session. All our statements look rows up by an index: a plan that was made while
#: the tables were empty must not be one that goes through them.
SETTINGS = {
    "application_name": "postrich",
    "default_transaction_isolation": "read committed",
    "statement_timeout": "30s",
    "lock_timeout": "15s",
    "idle_in_transaction_session_timeout": "10s",  # less: who waits for a stopped worker gets it
    "tcp_keepalives_idle": "30",  # whoever is cut off holds no lock for longer than a minute
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

T = TypeVar("T")
_chance = SystemClock().chance


async def connect(address: Address, *, readonly: bool = False) -> Any:
    """One connection as we want it."""
    settings = {**SETTINGS, "search_path": address.schema}
    if readonly:
        settings["default_transaction_read_only"] = "on"
    try:
        connection = await asyncpg.connect(
            address.dsn,
            server_settings=settings,
            timeout=CONNECT_S,
            command_timeout=COMMAND_S,
            statement_cache_size=250,
        )
    except TimeoutError:
        raise ConnectionError("no answer") from None
    except (ValueError, asyncpg.ClientConfigurationError):
        raise BadSetting(f"{address.shown}: the address has a part that makes no sense") from None
    await teach(connection)
    return connection


async def _keep(_: Any) -> None:
    """Nothing to undo: our transactions leave nothing behind in a session."""


def _pool(address: Address, size: int, *, readonly: bool) -> Any:
    return asyncpg.create_pool(
        min_size=0,
        max_size=size,
        connect=lambda *_, **__: connect(address, readonly=readonly),
        reset=_keep,
    )


class Sessions:
    """The connections of one store."""

    def __init__(self, address: Address, commit_text: Callable[[bool], str]) -> None:
        self.shown = address.shown
        self.known_urls: KnownUrls = {}
        self._commit_text = commit_text
        self._writers = _pool(address, (address.pool_size + 1) // 2, readonly=False)
        self._readers = _pool(address, address.pool_size // 2, readonly=True)
        self._closed = False

    async def open(self) -> None:
        await self._writers
        await self._readers

    async def close(self) -> None:
        self._closed = True
        for pool in (self._writers, self._readers):
            try:
                await asyncio.wait_for(pool.close(), CONNECT_S)
            except TimeoutError:
                pool.terminate()

    @asynccontextmanager
    async def _connection(self, pool: Any) -> AsyncIterator[Any]:
        if self._closed:
            raise StoreError(f"{self.shown} is closed")
        connection = await pool.acquire(timeout=COMMAND_S)
        try:
            yield connection
        except BaseException as problem:
            # A server that may not write may be a standby by now: the next connection asks again.
            if not isinstance(problem, Exception) or is_away(problem) or is_read_only(problem):
                with suppress(asyncpg.InterfaceError):  # the pool may have dropped it already
                    connection.terminate()
            raise
        finally:
            await pool.release(connection)

    async def read(self, query: Callable[[Database], T]) -> T:
        async def ask() -> T:
            async with self._connection(self._readers) as connection:
                return await carry(lambda: query(Database(connection, self.known_urls)))

        return await self._persist(ask)

    async def write(
        self, action: Callable[[Database], T], hints: Callable[[T], bool], numbers: int = 0
    ) -> T:
        """Run an action in a transaction. `hints`: whether its answer means work for others;
        `numbers`: how many job numbers it needs."""

        async def act() -> T:
            async with self._connection(self._writers) as connection:
                return await self._transaction(connection, action, hints, numbers)

        return await self._persist(act)

    async def tell(self, text: str) -> None:
        """Send a notification by itself. A hint that cannot be sent is lost: others poll."""
        try:
            with translated(self.shown):
                async with self._connection(self._writers) as connection:
                    await connection.execute(text)
        except StoreError as problem:
            log.debug("a hint was lost: %s", problem)

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try again what was in the way of others, or had a connection that was gone."""
        with translated(self.shown):
            for turn in range(1, TRIES):
                try:
                    return await attempt()
                except Exception as problem:
                    if not (isinstance(problem, CONFLICTS) or is_away(problem)):
                        raise
                await asyncio.sleep(PAUSE_S * turn * (0.5 + _chance()))
            return await attempt()

    async def _transaction(
        self,
        connection: Any,
        action: Callable[[Database], T],
        hints: Callable[[T], bool],
        numbers: int,
    ) -> T:
        known = ChainMap({}, self.known_urls)  # what a rollback takes back is not known
        first = await _take_numbers(connection, numbers) if numbers else None
        await connection.execute("BEGIN")
        try:
            answer = await carry(lambda: action(Database(connection, known, first)))
        except Exception as problem:
            if not is_away(problem):
                await connection.execute("ROLLBACK")
            raise
        await self._commit(connection, self._commit_text(hints(answer)))
        self.known_urls.update(known.maps[0])
        return answer

    async def _commit(self, connection: Any, text: str) -> None:
        try:
            status = await connection.execute(text)
        except CONFLICTS:
            raise
        except Exception as problem:
            if isinstance(problem, TimeoutError) or is_away(problem):
                raise StoreAway(
                    f"the connection to {self.shown} was lost during a commit: whether it was "
                    "kept is not known; ask again"
                ) from None
            raise
        if status != "COMMIT":
            raise StoreError(f"{self.shown} took a transaction back")


async def _take_numbers(connection: Any, count: int) -> int:
    [statement] = statements("accept_numbers")
    first: int = await connection.fetchval(statement.text, count)
    return first
